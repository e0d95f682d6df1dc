"""How failed log-ins are counted: over all instances, and for a while only."""

from __future__ import annotations

import sqlalchemy as sa

from penstock.store import Store
from penstock.store.access_tables import failed_logins


class FailedLoginsBehaviour:
    def test_failures_count_at_every_instance_until_they_are_old(self, store: Store, url: str) -> None:
        with Store.open(url) as other:
            assert store.failed_logins.add(["a", "u"], limit=3) == [0, 0]
            assert other.failed_logins.add(["a", "v"], limit=3) == [0, 0]
            address, user = store.failed_logins.add(["a", "w"], limit=3)
            assert (290 < address <= 300, user) == (True, 0)
            assert [wait > 290 for wait in other.failed_logins.waits(["x", "a", "u"], limit=3)] == [False, True, False]
            assert other.failed_logins.forget() == 0
            with other._database.write() as connection:
                oldest = sa.select(sa.func.min(failed_logins.c.id)).scalar_subquery()
                change = sa.update(failed_logins).where(failed_logins.c.id == oldest)
                connection.execute(change.values(at=failed_logins.c.at - 300_001))
            assert store.failed_logins.waits(["a"], limit=3) == [0]
            assert store.failed_logins.forget() == 1
            assert other.failed_logins.waits(["a"], limit=2)[0] > 0

    def test_who_succeeds_begins_anew(self, store: Store) -> None:
        for _ in range(3):
            store.failed_logins.add(["a", "b"], limit=2)
        store.failed_logins.forgive(["a"])
        forgiven, other = store.failed_logins.waits(["a", "b"], limit=2)
        assert (forgiven, other > 0) == (0, True)
