"""Configuration: spec models, loading, expansion, and the dialects that compile to specs."""
