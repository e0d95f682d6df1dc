"""HTTP: metrics and health; thin, talks to service."""
