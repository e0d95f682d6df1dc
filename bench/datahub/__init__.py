"""Penstock beside DataHub Actions: the same topics, the same machine, the same run."""
