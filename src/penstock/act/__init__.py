"""Built-in actions, one module each."""
