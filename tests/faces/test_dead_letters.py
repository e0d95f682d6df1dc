"""`dead-letters` narrowed down, discarded, exported and imported, over a real store."""

from __future__ import annotations

import getpass
import stat
from pathlib import Path

import pytest

from penstock.store.store import Store
from tests.behaviour.store.letters import failed_at, letter
from tests.faces.cli import penstock

START = 1_700_000_000_000


@pytest.fixture
def store(penstock_home: Path) -> Store:
    penstock_home.mkdir(parents=True)
    store = Store.open(f"sqlite:///{penstock_home / 'penstock.db'}", inline_bytes=50_000)
    store.dead_letters.record(
        [
            letter(1, value=b"\xff\x00", headers=[("a", None), ("a", b"\xfe")], **failed_at(START)),
            letter(2, partition=3, stage="decode", error="disk 100% full", **failed_at(START + 60_000)),
            letter(3, pipeline="billing", value=b'{"customer": "Ann"}', fingerprint="f2", **failed_at(START + 120_000)),
            letter(4, pipeline="billing", value=b"x" * 100_000, **failed_at(START + 180_000)),
        ]
    )
    return store


def test_filters_go_together_and_nonsense_is_refused(store: Store) -> None:
    options = ("--pipeline", "billing", "--text", "ANN", "--since", "2023-11-14T22:14:20Z", "--until", START + 180_000)
    assert [each["offset"] for each in penstock("dead-letters", "list", "--json", *options).data] == [3]
    wrong = penstock("dead-letters", "list", "--status", "old")
    assert wrong.code == 2
    assert "new, replaying, replayed, parked, discarded" in wrong.err


def test_discarding_asks_counts_and_is_in_the_history(store: Store) -> None:
    dry = penstock("dead-letters", "discard", "--pipeline", "billing", "--dry-run", "--json").data
    assert dry == {"letters": 2, "statuses": {"new": 2}, "discarded": 0}
    unasked = penstock("dead-letters", "discard", "--pipeline", "billing")
    assert unasked.code == 2
    assert "--yes" in unasked.err
    assert penstock("dead-letters", "discard", "--yes").code == 2
    assert store.dead_letters.counts_by_status() == {"new": 4}
    done = penstock("dead-letters", "discard", "--pipeline", "billing", "--yes", "--reason", "test data")
    assert done.out.strip() == "2 dead letters discarded"
    (first, _) = penstock("dead-letters", "list", "--json", "--status", "discarded").data
    step = penstock("dead-letters", "show", first["id"], "--json").data["history"][-1]
    assert (step["kind"], step["text"], step["by"].partition("@")[0]) == ("discarded", "test data", getpass.getuser())
    shown = penstock("dead-letters", "show", first["id"]).out
    assert f"discarded by {step['by']}: test data" in shown


def test_ids_that_cannot_be_discarded_are_named_and_nothing_is_done(store: Store) -> None:
    (one, *_) = penstock("dead-letters", "list", "--json").data
    unknown = penstock("dead-letters", "discard", one["id"], 4711, "--yes")
    assert unknown.code == 2
    assert "4711" in unknown.err
    assert penstock("dead-letters", "discard", one["id"], "--pipeline", "billing", "--yes").code == 2
    assert store.dead_letters.counts_by_status() == {"new": 4}
    assert penstock("dead-letters", "discard", one["id"], "--yes", "--json").data["discarded"] == 1
    again = penstock("dead-letters", "discard", one["id"], "--yes")
    assert again.code == 2
    assert "is discarded and cannot be discarded" in again.err


def test_an_export_is_imported_bit_for_bit_once(store: Store, tmp_path: Path) -> None:
    store.dead_letters.discard([store.dead_letters.list()[0].id], by="user1", reason="no")
    file = tmp_path / "letters.jsonl"
    assert penstock("dead-letters", "export", file, "--json").data == {"file": str(file), "letters": 4}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    refused = penstock("dead-letters", "export", file)
    assert refused.code == 2
    assert "--force" in refused.err
    home = str(tmp_path / "elsewhere")
    counted = penstock("dead-letters", "import", file, "--dry-run", "--json", PENSTOCK_HOME=home).data
    assert counted == {"file": str(file), "letters": 4, "added": 0, "present": 0}
    assert not Path(home, "penstock.db").exists()
    for added, present in ((4, 0), (0, 4)):
        done = penstock("dead-letters", "import", file, "--json", PENSTOCK_HOME=home).data
        assert done == {"file": str(file), "letters": 4, "added": added, "present": present}
    with Store.open(f"sqlite:///{home}/penstock.db") as other:
        [sent], [got] = store.dead_letters.pages(), other.dead_letters.pages()
    assert [each.letter for each in got] == [each.letter for each in sent]
    assert [(each.row.status, each.replays) for each in got] == [(each.row.status, each.replays) for each in sent]
    assert [each.history[:-1] for each in got] == [each.history for each in sent]
    assert {each.history[-1].kind for each in got} == {"imported"}


def test_files_that_are_not_there_or_cannot_be_written(store: Store, tmp_path: Path) -> None:
    assert "cannot be read" in penstock("dead-letters", "import", tmp_path / "none").err
    away = penstock("dead-letters", "export", tmp_path / "no" / "folder")
    assert away.code == 3
    assert "cannot be written" in away.err


def test_datahubs_failed_events_are_imported_once(tmp_path: Path) -> None:
    home, folder = str(tmp_path / "home"), tmp_path / "tell_tags"
    folder.mkdir()
    config = folder / "tell_tags.yaml"
    config.write_text("name: Tell tags\naction: {type: hello_world}\nsource: {type: kafka}\n")
    file = folder / "failed_events.log"
    line = '{ "event_type": "EntityChangeEvent_v1", "event": {"version": 0}, "meta": {"kafka": %s} }'
    where = '{"topic": "PlatformEvent_v1", "offset": %d, "partition": 3}'
    # A process that was started again has failed at the same event twice.
    file.write_text("\n".join(line % (where % offset) for offset in (41, 42, 41)) + "\n")
    asked = penstock("dead-letters", "import", file, PENSTOCK_HOME=home)
    assert asked.code == 2
    assert "give --pipeline" in asked.err
    wanted = ("dead-letters", "import", file, "--config", config, "--json")
    assert penstock(*wanted, "--dry-run", PENSTOCK_HOME=home).data == {
        "file": str(file),
        "letters": 3,
        "added": 0,
        "present": 0,
        "pipeline": "Tell tags",
    }
    done = [penstock(*wanted, PENSTOCK_HOME=home).data for _ in range(2)]
    assert [(each["added"], each["present"]) for each in done] == [(2, 1), (0, 3)]
    first, _ = sorted(
        penstock("dead-letters", "list", "--json", PENSTOCK_HOME=home).data, key=lambda row: row["offset"]
    )
    assert (first["pipeline"], first["topic"], first["offset"]) == ("Tell tags", "PlatformEvent_v1", 41)
    shown = penstock("dead-letters", "show", str(first["id"]), "--json", PENSTOCK_HOME=home).data
    assert shown["value"] == {"text": line % (where % 41)}
    file.write_text(file.read_text() + '{ "event_type": "Entity')
    cut = penstock(*wanted, PENSTOCK_HOME=home)
    assert cut.code == 2
    assert "line 4" in cut.out
