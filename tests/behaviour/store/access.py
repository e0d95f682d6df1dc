"""How people, sessions, tokens, changes and pipelines kept in the store behave."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from penstock.core.ids import new_id
from penstock.store import AuditFilter, Changed, Store, Taken
from penstock.store.access_tables import sessions, tokens
from penstock.store.workflow_tables import projects


def make_project(store: Store, name: str) -> str:
    values = {"id": new_id(), "name": name, "inserted_at": 1, "updated_at": 1}
    with store._database.write() as connection:
        connection.execute(sa.insert(projects), values)
    return str(values["id"])


class UsersBehaviour:
    def test_a_user_has_roles_and_projects_and_an_address_of_its_own(self, store: Store) -> None:
        health, water = make_project(store, "health"), make_project(store, "water")
        made = store.people.create("a@example.org", name="A", role="viewer", projects={health: "editor"})
        assert (made.role, made.projects, made.revision, made.has_password) == ("viewer", {health: "editor"}, 1, False)
        assert store.people.by_email("a@example.org") == made == store.people.get(made.id)
        with pytest.raises(Taken):
            store.people.create("a@example.org")
        assert [project.name for project in store.people.projects()] == ["health", "water"]
        changed = store.people.change(made.id, 1, projects={water: "viewer"}, role=None)
        assert (changed.projects, changed.role, changed.name, changed.revision) == ({water: "viewer"}, None, "A", 2)

    def test_a_change_from_what_is_no_longer_so_is_refused(self, store: Store) -> None:
        made = store.people.create("a@example.org")
        store.people.change(made.id, 1, name="B")
        with pytest.raises(Changed):
            store.people.change(made.id, 1, name="C")
        with pytest.raises(Changed):
            store.people.delete(made.id, 1)
        assert [user.name for user in store.people.all()] == ["B"]
        store.people.delete(made.id, 2)
        assert store.people.all() == []

    def test_another_password_ends_the_sessions_and_a_deleted_user_leaves_nothing(self, store: Store) -> None:
        made = store.people.create("a@example.org", password="hash", subject="issuer|7")
        assert store.people.by_subject("issuer|7") == made
        store.sessions.begin("s1", made.id, seconds=60, address=None, agent=None)
        store.people.change(made.id, None, name="A")
        assert store.sessions.get("s1") is not None
        store.people.change(made.id, None, password="other")
        assert store.sessions.get("s1") is None
        store.sessions.begin("s2", made.id, seconds=60, address=None, agent=None)
        store.tokens.create("t", "digest", "pst_x", role="viewer", by="a", user_id=made.id)
        store.people.delete(made.id, None)
        assert store.sessions.get("s2") is None
        assert store.tokens.all() == []


class LoginsBehaviour:
    def test_a_session_ends_by_time_and_by_wish(self, store: Store) -> None:
        user = store.people.create("a@example.org")
        for name in ("s1", "s2"):
            store.sessions.begin(name, user.id, seconds=60, address="10.0.0.1", agent="browser")
        found = store.sessions.get("s1")
        assert found is not None
        assert (found.user_id, found.address, found.agent) == (user.id, "10.0.0.1", "browser")
        store.sessions.end("s1")
        assert store.sessions.get("s1") is None
        with store._database.write() as connection:
            connection.execute(sa.update(sessions).values(expires_at=1))
        assert store.sessions.get("s2") is None

    def test_a_token_is_found_by_its_digest_until_it_expires_or_is_revoked(self, store: Store) -> None:
        project = make_project(store, "health")
        made = store.tokens.create("ci", "d1", "pst_abcd", role="operator", by="a", project_id=project, seconds=60)
        found = store.tokens.by_hash("d1")
        assert found is not None
        assert (found.id, found.role, found.project_id, found.expired) == (made.id, "operator", project, False)
        assert store.tokens.by_hash("d2") is None
        assert store.tokens.all()[0].used_at is not None
        with store._database.write() as connection:
            connection.execute(sa.update(tokens).values(expires_at=1))
        expired = store.tokens.by_hash("d1")
        assert expired is not None
        assert expired.expired
        assert store.tokens.revoke(made.id)
        assert not store.tokens.revoke(made.id)


class AuditBehaviour:
    def test_changes_are_listed_newest_first_page_by_page(self, store: Store) -> None:
        for number in range(5):
            row = store.audit.begin("pipelines.pause", f"pipeline/{number}", actor="a", actor_kind="person", before="x")
            store.audit.end(row, "done", after="y", data={"n": number})
        store.audit.begin("tokens.create", "token/1", actor="b", actor_kind="token", address="10.0.0.1")
        first = store.audit.list(limit=4)
        assert [row.outcome for row in first] == ["begun", "done", "done", "done"]
        rest = store.audit.list(limit=4, before=first[-1].id)
        assert [row.subject for row in rest] == ["pipeline/1", "pipeline/0"]
        assert (rest[-1].before, rest[-1].after, rest[-1].data) == ("x", "y", {"n": 0})
        assert len(store.audit.list(AuditFilter(actor="a", action="pipelines.pause"))) == 5
        assert [row.actor for row in store.audit.list(AuditFilter(subject="token/1"))] == ["b"]
        assert store.audit.list(AuditFilter(until=first[0].at - 60_000)) == []
        assert len(store.audit.list(AuditFilter(since=first[0].at - 60_000))) == 6


class ManagedBehaviour:
    def test_every_version_is_kept_and_a_stale_one_changes_nothing(self, store: Store) -> None:
        made = store.managed.create("orders", "one", by="a")
        assert made.revision == 1
        with pytest.raises(Taken):
            store.managed.create("orders", "other", by="b")
        assert store.managed.replace("orders", "two", revision=1, by="b").revision == 2
        with pytest.raises(Changed):
            store.managed.replace("orders", "three", revision=1, by="c")
        assert [(version.revision, version.text) for version in store.managed.versions("orders")] == [
            (2, "two"),
            (1, "one"),
        ]
        with pytest.raises(Changed):
            store.managed.delete("orders", revision=1, by="c")
        store.managed.delete("orders", revision=2, by="c")
        assert store.managed.get("orders") is None
        assert store.managed.all() == []
        assert store.managed.create("orders", "four", by="d").revision == 4
        assert len(store.managed.versions("orders")) == 3


class AccessBehaviour(UsersBehaviour, LoginsBehaviour, AuditBehaviour, ManagedBehaviour):
    """All of it."""
