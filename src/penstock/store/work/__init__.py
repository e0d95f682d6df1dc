"""Rows of projects, workflows, triggers, work orders and runs."""
