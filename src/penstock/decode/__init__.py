"""Record formats, one module each."""
