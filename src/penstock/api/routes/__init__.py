"""Routes, one module per noun; each has a `router`. Further modules are found by themselves."""
