"""`penstock pipelines`, `penstock offsets` and `penstock db` as faces: what they print, refuse and end with."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.config.spec import ConnectionSpec
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.embedded import EmbeddedCluster
from penstock.kafka.producer import NewRecord, produce
from penstock.store import InstanceRow, Store, schema
from penstock.store.database import Database
from tests.faces.cli import penstock


@pytest.fixture
def store(penstock_home: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{penstock_home / 'penstock.db'}") as opened:
        yield opened


def test_what_is_wanted_is_said_with_name_and_reason_and_shown(store: Store) -> None:
    for name in ("orders", "billing"):
        store.pipelines.save_spec(name, "v1", "{}")
    paused = penstock("pipelines", "pause", "orders", "--reason", "too loud", "--json")
    assert paused.code == 0, paused.err
    (view,) = paused.data
    assert (view["pipeline"], view["state"], view["desired"], view["instances"]) == ("orders", "paused", "paused", [])
    assert view["set_by"].startswith(f"{getpass.getuser()}@")
    assert "no instance runs it now" in penstock("pipelines", "stop", "--all").out
    limited = penstock("pipelines", "rate-limit", "billing", "6000/m", "--json")
    assert limited.data[0]["rate_limit"] == 100.0
    states = {
        each["pipeline"]: (each["desired"], each["rate_limit"]) for each in penstock("pipelines", "list", "--json").data
    }
    assert states == {"billing": ("stopped", 100.0), "orders": ("stopped", None)}
    assert "100/s" in penstock("pipelines", "list").out
    assert [(row.action, row.subject, row.outcome) for row in store.audit.list()] == [
        ("pipelines.rate-limit", "pipeline/billing", "done"),
        ("pipelines.stop", "pipeline/orders", "done"),
        ("pipelines.stop", "pipeline/billing", "done"),
        ("pipelines.pause", "pipeline/orders", "done"),
    ]
    for each in penstock("status", "--json").data:
        assert each["state"] == "stopped"
        assert each["reason"].startswith(f"by {getpass.getuser()}@")


def test_an_instance_that_does_not_obey_is_named_and_what_is_wanted_is_kept(store: Store) -> None:
    store.instances.heartbeat(InstanceRow(id="deaf-1", host="h", pid=1, version="0", started_at=0))
    store.pipelines.put_state("orders", "deaf-1", "waiting", "broker away")
    late = penstock("pipelines", "pause", "orders", "--timeout", "0.5", "--json")
    assert late.code == 3
    assert late.data["error"]["code"] == "not_obeyed"
    assert "orders on deaf-1 (waiting: broker away)" in late.data["error"]["message"]
    assert store.desired.all()["orders"].state == "paused"


def test_pipelines_that_do_not_exist_are_clear_errors(store: Store) -> None:
    store.pipelines.save_spec("orders", "v1", "{}")
    for arguments, text in (
        (("pause", "order"), "did you mean 'orders'?"),
        (("stop",), "name pipelines, or say --all"),
        (("rate-limit", "orders", "fast"), "a rate like 100/s"),
    ):
        result = penstock("pipelines", *arguments)
        assert (result.code, "Traceback" in result.err) == (2, False)
        assert text in result.err
    assert store.desired.all() == {}


def test_without_a_store_there_is_nothing_to_say() -> None:
    assert penstock("pipelines", "list", "--json").data == []
    refused = penstock("pipelines", "pause", "orders")
    assert refused.code == 2
    assert "no pipeline has run" in refused.err


def test_offsets_are_shown_and_reset_where_nothing_runs_and_no_store_exists(tmp_path: Path) -> None:
    with EmbeddedCluster() as cluster:
        client = KafkaClientConfig.of(ConnectionSpec(bootstrap=cluster.bootstrap))
        produce(client, [NewRecord("orders", b"{}", partition=0)] * 10)
        config = f'{{connection: {{bootstrap: "{cluster.bootstrap}"}}, topics: [orders], group: g}}'
        file = tmp_path / "p.yaml"
        file.write_text(f"name: p\nsource: {{type: kafka, config: {config}}}\naction: {{type: hello_world}}\n")
        where = ("p", "--config", file, "--partition", "0")
        first = penstock("offsets", "reset", *where, "--to-offset", "7", "--yes", "--json")
        row = {"topic": "orders", "partition": 0, "old": None, "new": 7, "skipped": None, "repeated": None}
        assert (first.code, first.data["partitions"]) == (0, [row]), first.err
        again = penstock("offsets", "reset", *where, "--to-earliest", "--dry-run", "--json")
        assert again.data["partitions"] == [row | {"old": 7, "new": 0, "skipped": 0, "repeated": 7}]
        unsaid = penstock("offsets", "reset", *where, "--to-earliest", "--to-latest")
        assert unsaid.code == 2
        assert "say where to, once" in unsaid.err
        shown = penstock("offsets", "show", "--group", "g", "--bootstrap", cluster.bootstrap, "--json").data
        assert [(s["topic"], s["partition"], s["committed"], s["end"], s["lag"]) for s in shown] == [
            ("orders", 0, 7, 10, 3)
        ]
        assert ClusterView(client).committed("g", [("orders", 0)])["orders", 0][0] == 7


def test_a_stateless_pipeline_has_no_offsets(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        "name: p\nsource: {type: kafka, config: {topics: [orders], stateless: true}}\naction: {type: hello_world}\n"
    )
    for arguments in (("show", "p"), ("reset", "p", "--to-latest", "--dry-run")):
        result = penstock("offsets", *arguments, "--config", file)
        assert result.code == 2
        assert "stateless" in result.err


def test_the_schema_is_shown_and_upgraded(penstock_home: Path) -> None:
    known = schema.known_version()
    assert penstock("db", "current", "--json").data == {"current": None, "known": known, "state": "missing"}
    penstock_home.mkdir()
    old = Database.connect(f"sqlite:///{penstock_home / 'penstock.db'}", create=True)
    with old.write() as connection:
        schema.migrate(connection, "0001")
    old.close()
    assert penstock("db", "current", "--json").data["state"] == "older"
    assert penstock("db", "upgrade", "--json").data == {"from": "0001", "to": known}
    assert penstock("db", "upgrade").out == f"{known}: nothing to do\n"


@pytest.mark.spark
def test_catching_up_with_a_broker_that_is_away_ends_with_3(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    config = '{connection: {bootstrap: "127.0.0.1:1"}, topics: [orders]}'
    file.write_text(f"name: p\nsource: {{type: kafka, config: {config}}}\naction: {{type: hello_world}}\n")
    result = penstock("run", file, "--until-caught-up", "--timeout", "2", "--json", PENSTOCK_HTTP_PORT="0")
    assert result.code == 3, result.err
    assert result.data["error"]["code"] == "no_progress"
    assert "p is waiting" in result.data["error"]["message"]
