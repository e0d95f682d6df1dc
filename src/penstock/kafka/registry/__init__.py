"""Schema registries of all dialects."""
