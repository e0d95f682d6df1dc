"""The command line: thin, talks to service."""
