"""Work orders, runs and steps."""

from penstock.workflows.failing import StepFailed

__all__ = ["StepFailed"]
