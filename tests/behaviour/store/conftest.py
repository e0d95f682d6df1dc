"""The PostgreSQL server for these suites."""

from tests.support.postgres import postgres_server

__all__ = ["postgres_server"]
