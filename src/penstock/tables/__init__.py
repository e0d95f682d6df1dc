"""Staging tables, processors, merge."""
