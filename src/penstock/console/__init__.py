"""The console's pages: thin, talk to service."""
