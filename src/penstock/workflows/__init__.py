"""Work orders, runs and steps."""
