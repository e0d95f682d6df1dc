"""Scheduling of workflow runs."""
