"""Main module of the process of a run that has one of its own."""

from __future__ import annotations

from penstock.worker.step_actions import make_action
from penstock.workflows.isolated import serve

if __name__ == "__main__":
    serve(make_action)
