"""The suites run on every database; what only one of them can suffer follows."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import sqlalchemy as sa
import structlog
from alembic.script import ScriptDirectory

from penstock.store import Store, StoreAddressError, StoreError, StoreMissing, StoreUnavailable, database, schema
from tests.behaviour.store.access import AccessBehaviour
from tests.behaviour.store.claims import ClaimsBehaviour
from tests.behaviour.store.dead_letters import DeadLettersBehaviour
from tests.behaviour.store.desired import DesiredBehaviour
from tests.behaviour.store.facets import FacetsBehaviour
from tests.behaviour.store.failed_logins import FailedLoginsBehaviour
from tests.behaviour.store.instances import InstancesBehaviour, PartitionsBehaviour
from tests.behaviour.store.keeping import KeepingBehaviour, LocalPayloadsBehaviour
from tests.behaviour.store.letter_jobs import LetterJobsBehaviour
from tests.behaviour.store.letters import letter
from tests.behaviour.store.offsets import FirstStartsBehaviour, OffsetsBehaviour
from tests.behaviour.store.opening import OpeningBehaviour
from tests.behaviour.store.pipelines import PipelinesBehaviour
from tests.behaviour.store.sharing import SharingBehaviour
from tests.behaviour.store.upgrading import UpgradingBehaviour
from tests.support.freezing import frozen
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer


class StoreBehaviour(
    OpeningBehaviour,
    DeadLettersBehaviour,
    FacetsBehaviour,
    ClaimsBehaviour,
    KeepingBehaviour,
    PipelinesBehaviour,
    DesiredBehaviour,
    OffsetsBehaviour,
    FirstStartsBehaviour,
    PartitionsBehaviour,
    InstancesBehaviour,
    SharingBehaviour,
    UpgradingBehaviour,
    AccessBehaviour,
    LetterJobsBehaviour,
    FailedLoginsBehaviour,
):
    """A backend gives `url`: the address of a store that does not exist yet."""

    @pytest.fixture
    def store(self, url: str) -> Iterator[Store]:
        with Store.open(url) as opened:
            yield opened


class TestSqlite(StoreBehaviour, LocalPayloadsBehaviour):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "new folder, 100%" / "store.db"

    @pytest.fixture
    def url(self, path: Path) -> str:
        return f"sqlite:///{quote(str(path))}"

    def test_every_commit_is_on_disk_and_readers_do_not_block(self, store: Store) -> None:
        with store._database.write() as connection:
            pragmas = [
                connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")
            ]
        assert pragmas == ["wal", 2]
        assert store.is_local

    def test_the_file_is_for_its_owner_only(self, store: Store, path: Path) -> None:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_l08_rights_that_a_restore_gave_to_others_are_taken_away(self, url: str, path: Path) -> None:
        Store.open(url).close()
        path.chmod(0o644)
        with structlog.testing.capture_logs() as logged, Store.open(url) as store:
            store.dead_letters.record([letter(1)])
            files = sorted(path.parent.glob("store.db*"))
            assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        (line,) = logged
        assert (line["file"], line["mode"], line["log_level"]) == (str(path), "0644", "warning")

    def test_a_lock_held_too_long_is_an_outage_that_ends(
        self, url: str, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(database, "BUSY_SECONDS", 0.2)
        with Store.open(url) as store:
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="locked"):
                store.dead_letters.record([letter(1)])
            assert store.dead_letters.count() == 0
            other.execute("ROLLBACK")
            other.close()
            store.dead_letters.record([letter(1)])
            assert store.dead_letters.count() == 1

    def test_a_full_disk_is_an_outage_and_leaves_nothing_half_done(self, url: str) -> None:
        with Store.open(url) as store:
            # SQLite says the same when it may not grow the file as when the disk has no room.
            with store._database.read() as connection:
                pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
                connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
            with pytest.raises(StoreUnavailable, match="full"):
                store.dead_letters.record([letter(n, value=b"x" * 10_000) for n in range(10)])
            assert store.dead_letters.count() == 0
        with Store.open(url) as store:
            store.dead_letters.record([letter(n, value=b"x" * 10_000) for n in range(10)])
            assert store.dead_letters.count() == 10

    def test_a_file_that_is_no_store_is_refused(self, path: Path, url: str) -> None:
        path.parent.mkdir()
        path.write_bytes(b"this is a text file, not a database" * 100)
        with pytest.raises(StoreError, match="not a database"):
            Store.open(url)

    def test_a_folder_that_cannot_be_made_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreUnavailable, match="file/store"):
            Store.open(f"sqlite:///{tmp_path}/file/store.db")

    def test_nothing_is_made_where_nothing_was_asked_for(self, path: Path, url: str) -> None:
        with pytest.raises(StoreMissing):
            Store.open(url, create=False)
        assert not path.parent.exists()


@pytest.mark.postgres
class TestPostgres(StoreBehaviour):
    @pytest.fixture
    def url(self, postgres_server: PostgresServer) -> str:
        return postgres_server.create_database()

    def test_a_server_that_stops_is_an_outage_that_ends_without_reopening(self) -> None:
        with PostgresServer() as server, Store.open(server.create_database()) as store:
            store.dead_letters.record([letter(1)])
            for away in (server.stop, server.kill):
                away()
                for call in (store.ping, store.dead_letters.count, lambda: store.dead_letters.record([letter(2)])):
                    with pytest.raises(StoreUnavailable):
                        call()
                server.start()
                store.ping()
            store.dead_letters.record([letter(2)])
            assert store.dead_letters.count() == 2

    def test_a_server_that_is_frozen_is_an_outage_for_those_who_wait(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(database, "_PATIENCE", 0.5)
        with PostgresServer() as server, Store.open(f"{server.create_database()}?connect_timeout=2") as store:
            store.dead_letters.record([letter(1)])

            def frozen_meanwhile() -> None:
                with store._database.write() as connection:
                    connection.execute(sa.select(1))
                    with frozen(server.pid):
                        connection.execute(sa.select(1))

            with pytest.raises(StoreUnavailable):
                frozen_meanwhile()
            store.ping()
            with frozen(server.pid), pytest.raises(StoreUnavailable):
                store.ping()
            store.dead_letters.record([letter(2)])
            assert store.dead_letters.count() == 2

    def test_who_waits_for_a_server_that_answers_others_is_left_alone(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(database, "_PATIENCE", 0.1)
        with Store.open(url) as store, store._database.read() as connection:
            assert connection.scalar(sa.text("SELECT 7 FROM pg_sleep(1)")) == 7

    def test_a_connection_cut_within_a_transaction_is_an_outage(self, store: Store, url: str) -> None:
        def cut(connection: sa.Connection) -> None:
            connection.execute(sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))

        with pytest.raises(StoreUnavailable), store._database.write() as connection:
            cut(connection)
        store.dead_letters.record([letter(1)])
        assert store.dead_letters.count() == 1

    def test_a_statement_the_server_refuses_is_no_outage(self, store: Store) -> None:
        with pytest.raises(StoreError, match="does not exist"), store._database.write() as connection:
            connection.execute(sa.text("SELECT * FROM no_such_table"))

    def test_the_drivers_name_may_stand_in_the_address(self, url: str) -> None:
        with Store.open(url.replace("postgresql://", "postgresql+psycopg://") + "?connect_timeout=3") as store:
            store.ping()
            assert not store.is_local


def test_file_names_of_migrations_are_their_versions() -> None:
    scripts = ScriptDirectory(str(schema._MIGRATIONS))
    assert [script.revision for script in scripts.walk_revisions()][::-1] == schema.versions()
    assert scripts.get_heads() == [schema.known_version()]


@pytest.mark.parametrize(
    "url", ["mysql://u:hunter2@h/d", "sqlite://", "sqlite:///:memory:", "nonsense", "", "postgresql+asyncpg://h/d"]
)
def test_addresses_that_are_no_store_are_refused(url: str) -> None:
    with pytest.raises(StoreAddressError) as refused:
        Store.open(url)
    assert "hunter2" not in f"{refused.value} {refused.value.as_dict()}"
    assert "sqlite:///FILE" in str(refused.value.allowed)


def test_i08_a_server_that_is_not_there_is_an_outage_and_the_password_is_not_shown() -> None:
    with pytest.raises(StoreUnavailable, match="refused") as away:
        Store.open(f"postgresql://user:hunter2@127.0.0.1:{free_port()}/store")
    assert "hunter2" not in f"{away.value} {away.value.as_dict()} {away.value.__cause__}"
