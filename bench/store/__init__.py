"""Measurements of the store."""
