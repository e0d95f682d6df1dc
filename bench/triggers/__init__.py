"""Triggers and work orders: intake, runs, history."""
