"""Alembic's environment; one module per step of the schema lives in `versions/`."""
