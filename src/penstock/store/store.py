"""`Store`: one open database and the repositories in it."""

from __future__ import annotations

from typing import Self

import sqlalchemy as sa

from penstock.store import schema
from penstock.store.audit import AuditLog
from penstock.store.database import Database
from penstock.store.dead_letters import INLINE_BYTES, DeadLetters
from penstock.store.desired import DesiredStates
from penstock.store.failed_logins import FailedLogins
from penstock.store.instances import Instances
from penstock.store.letters.jobs import LetterJobs
from penstock.store.logins import Sessions, Tokens
from penstock.store.managed import ManagedPipelines
from penstock.store.offsets import Offsets
from penstock.store.partitions import Partitions
from penstock.store.people import People
from penstock.store.pipelines import Pipelines
from penstock.store.work.bulk_jobs import BulkJobs
from penstock.store.work.history import History
from penstock.store.work.orders import Orders
from penstock.store.work.projects import Projects, Users
from penstock.store.work.retention import Retention
from penstock.store.work.search import WorkSearch
from penstock.store.work.secrets import Secrets
from penstock.store.work.triggers import Triggers
from penstock.store.work.workflows import Workflows


class Store:
    """Penstock's own database. Threads may share it; every call is one transaction.

    Whatever the call, an outage is raised as `StoreUnavailable`: nothing was written, or it is not known whether, and
    doing it again is safe.
    """

    def __init__(self, database: Database, *, inline_bytes: int = INLINE_BYTES) -> None:
        self._database = database
        self.dead_letters = DeadLetters(database, inline_bytes)
        self.letter_jobs = LetterJobs(database)
        self.pipelines = Pipelines(database)
        self.desired = DesiredStates(database)
        self.offsets = Offsets(database)
        self.partitions = Partitions(database)
        self.instances = Instances(database)
        self.projects = Projects(database)
        self.users = Users(database)
        self.secrets = Secrets(database)
        self.workflows = Workflows(database)
        self.triggers = Triggers(database)
        self.bulk_jobs = BulkJobs(database)
        self.search = WorkSearch(database)
        self.history = History(database, self.search)
        self.orders = Orders(database)
        self.retention = Retention(database, self.search)
        self.people = People(database)
        self.sessions = Sessions(database)
        self.tokens = Tokens(database)
        self.failed_logins = FailedLogins(database)
        self.audit = AuditLog(database)
        self.managed = ManagedPipelines(database)

    @classmethod
    def open(cls, url: str, *, create: bool = True, inline_bytes: int = INLINE_BYTES) -> Store:
        """Open the store, made where it is missing (unless `create` is False) and upgraded where it is older.

        A local store keeps values of dead letters above `inline_bytes` in files beside it."""
        database = Database.connect(url, create=create)
        try:
            schema.upgrade(database, create=create)
        except BaseException:
            database.close()
            raise
        return cls(database, inline_bytes=inline_bytes)

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def database(self) -> Database:
        """For the few who write rows of their own in it."""
        return self._database

    @property
    def is_local(self) -> bool:
        """True for SQLite: only processes of this machine can use it."""
        return self._database.is_sqlite

    def ping(self) -> None:
        """Raise `StoreUnavailable` unless the store answers."""
        with self._database.read() as connection:
            connection.execute(sa.select(1))

    def version(self) -> str | None:
        """The version of its schema."""
        return schema.current_version(self._database)
