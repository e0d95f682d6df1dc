"""Lanes: where windows run, which pipelines share them, and what wakes idle pipelines."""
