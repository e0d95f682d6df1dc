"""Measurements of tables."""
