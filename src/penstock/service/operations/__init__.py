"""What a face may ask: one module per noun. Each function takes the desk and the actor, checks the actor's rights, and
writes every change into the record."""
