"""Built-in transforms, one module each."""
