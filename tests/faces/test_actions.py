"""`penstock actions`: DataHub Actions' arguments, log streams, exit codes, monitoring port and statistics."""

from __future__ import annotations

import inspect
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from penstock.api.server import MonitoringServer
from penstock.cli.actions import actions
from penstock.config.spec import ConnectionSpec
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.embedded import EmbeddedCluster
from penstock.kafka.producer import NewRecord, produce
from tests.behaviour.act.hook_server import Answer, HookServer
from tests.faces.cli import penstock
from tests.support.instance import PenstockProcess
from tests.support.ports import free_port
from tests.support.waiting import until

STEPS = """\
def double(event):
    if event.value["id"] == 5:
        raise KeyError("five")
    return None if event.value["id"] == 6 else event


def act(event):
    if event.value["id"] == 7:
        raise ValueError("seven")
"""


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedCluster() as cluster:
        client = KafkaClientConfig.of(ConnectionSpec(bootstrap=cluster.bootstrap))
        produce(client, [NewRecord("orders", b'{"id": %d, "kind": "k%d"}' % (n, n % 2), b"k") for n in range(20)])
        yield cluster.bootstrap


def pipeline(folder: Path, name: str, bootstrap: str, more: str = "", action: str = "{type: hello_world}") -> Path:
    file = folder / f"{name}.yaml"
    config = f'{{connection: {{bootstrap: "{bootstrap}"}}, topics: [orders], format: json, start: earliest}}'
    file.write_text(f"name: {name}\nsource: {{type: kafka, config: {config}}}\naction: {action}\n{more}")
    return file


@pytest.mark.spark
def test_a_site_runs_its_files_and_stops_them(bootstrap: str, tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(STEPS)
    more = (
        "filters:\n  - {type: match, config: {event: {kind: k1}}}\n"
        "transform:\n  - {type: python, config: {callable: 'steps.py:double'}}\n"
        "options: {retry: {attempts: 2, backoff: 0}}\n"
    )
    good = pipeline(tmp_path, "good", bootstrap, more, "{type: python, config: {callable: 'steps.py:act'}}")
    bad = pipeline(tmp_path, "bad", bootstrap, "colour: red\n")
    off = pipeline(tmp_path, "off", bootstrap, 'enabled: "no"\n')
    port = free_port()
    before = ["actions", "--enable-monitoring", "--monitoring-port", str(port), "-dl", "--no-debug"]
    after = ["run", "-c", good, "-c", bad, "--config", off, "--no-such-option", "extra"]
    with PenstockProcess([*before, *after], folder=tmp_path / "run") as process:
        process.wait_log("pipeline=good", 90)

        def served(path: str) -> httpx.Response:
            return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=5)

        failed = 'kafka_messages_total{error="True",pipeline_name="good"} 2.0'
        series = ("kafka_messages_total", "kafka_messages_created", "kafka_offset", "kafka_consumer_lag")
        wanted = [failed, "process_cpu_seconds_total", *(f"{name}{{" for name in series)]
        until(lambda: all(part in served("/").text for part in wanted), 60, lambda: served("/").text)
        assert all(part in served("/metrics").text for part in wanted)
        assert served("/nowhere").status_code == 404
        listening = [c.laddr for c in psutil.Process(process.pid).net_connections("tcp") if c.status == "LISTEN"]
        assert [address.ip for address in listening if address.port == port] == ["127.0.0.1"], "L14"
        assert process.stop() == 0
    errors = re.findall(r"\[(\w+) *\]", process.log)
    assert set(errors) <= {"error", "critical"}, process.log
    assert "bad.yaml:4: colour: unknown key" in process.log
    assert "unknown key" not in process.stdout
    assert "off.yaml:4: enabled: pipeline 'off' is disabled" in process.stdout
    for ignored in ("--no-such-option", "extra", "--detect-memory-leaks"):
        assert ignored in process.stdout
    heading, _, rest = process.stdout.partition("Statistics of pipeline good\nstarted ")[2].partition("\n\n")
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(local time\), ran for \d+\.\d{3} s$", heading)
    stats, end = json.JSONDecoder().raw_decode(rest)
    assert rest[:end] == json.dumps(stats, indent=4, sort_keys=True)
    assert stats["failed_event_count"] == 2
    assert stats["success_count"] == 20
    assert stats["failed_ack_count"] == 0
    assert stats["filter_stats"] == {"Match": {"processed_count": 20, "filtered_count": 10, "exception_count": 0}}
    (transform,) = stats["transformer_stats"].values()
    assert transform == {"processed_count": 11, "filtered_count": 0, "exception_count": 2}
    assert stats["action_stats"] == {"success_count": 8, "exception_count": 2}
    assert (stats["penstock"]["events"], stats["penstock"]["retried"]) == (20, 2)


@pytest.mark.spark
def test_it_ends_with_1_when_every_pipeline_has_failed(bootstrap: str, tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(STEPS)
    action = "{type: python, config: {callable: 'steps.py:act'}}"
    file = pipeline(tmp_path, "throws", bootstrap, "options: {failure_mode: THROW}\n", action)
    result = penstock("actions", "-c", file, PENSTOCK_HTTP_PORT="0")
    assert result.code == 1, result.err
    assert "every pipeline has failed" in result.err
    stats = json.loads(result.out.partition("ran for ")[2].partition("\n\n")[2])
    assert (stats["failed_event_count"], stats["success_count"]) == (1, 7)


def test_nothing_left_ends_with_1(tmp_path: Path) -> None:
    bad = pipeline(tmp_path, "bad", "localhost:9092", "colour: ${UNSET_COLOUR}\n")
    off = pipeline(tmp_path, "off", "localhost:9092", "enabled: off\n")
    result = penstock("actions", "run", "-c", bad, "-c", off, PENSTOCK_HTTP_PORT="0")
    assert result.code == 1
    assert "no pipeline is left to run" in result.err
    assert "variable UNSET_COLOUR is not set" in result.err
    assert "is disabled" in result.out


def test_the_folders_of_the_image_are_read_once_the_catalogue_is_well(tmp_path: Path) -> None:
    for folder, name in (("system", "first"), ("user", "second")):
        (tmp_path / folder).mkdir()
        pipeline(tmp_path / folder, name, "localhost:9092", "enabled: false\n")
    answers = iter([503, 503, 200])
    with HookServer(lambda _: Answer(next(answers))) as catalogue:
        result = penstock(
            "actions",
            PENSTOCK_HTTP_PORT="0",
            DATAHUB_ACTIONS_SYSTEM_CONFIGS_PATH=str(tmp_path / "system"),
            DATAHUB_ACTIONS_USER_CONFIGS_PATH=str(tmp_path / "user"),
            DATAHUB_GMS_HOST="127.0.0.1",
            DATAHUB_GMS_PORT=str(catalogue.port),
        )
    assert [request.path for request in catalogue.requests] == ["/health"] * 3
    assert result.code == 1
    assert result.out.index("'first' is disabled") < result.out.index("'second' is disabled")


def test_a_catalogue_that_does_not_come_ends_it(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        result = penstock(
            "actions",
            DATAHUB_ACTIONS_USER_CONFIGS_PATH=str(tmp_path),
            DATAHUB_GMS_URL=address,
            DATAHUB_GMS_STARTUP_TIMEOUT_SEC="1",
        )
    assert result.code == 1
    assert "the catalogue is not well after 1 s" in result.err


def test_words_without_a_run(tmp_path: Path) -> None:
    for arguments in (("actions", "version"), ("actions", "--version", "run")):
        result = penstock(*arguments)
        assert (result.code, result.out.splitlines()[0].split(":")[0]) == (0, "Penstock version")
    missing = penstock("actions", "run", DATAHUB_ACTIONS_USER_CONFIGS_PATH="")
    assert missing.code == 2
    assert "no configuration is given" in missing.err


def test_l14_the_monitoring_port_is_open_to_this_machine_only_unless_told() -> None:
    assert inspect.signature(actions).parameters["monitoring_host"].default == "127.0.0.1"
    for host in ("127.0.0.1", "0.0.0.0"):  # noqa: S104 - told to
        server = MonitoringServer(lambda: b"m 1\n", host, 0)
        address = server.start()
        try:
            assert address.startswith(f"http://{host}:")
            assert httpx.get(address.replace("0.0.0.0", "127.0.0.1")).text == "m 1\n"  # noqa: S104 - as above
        finally:
            server.stop()
