"""Replays of dead letters and of ranges of a log."""
