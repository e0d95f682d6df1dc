"""What a step may be: a Python function, a command, an HTTP request, or a registered action; one module per kind."""
