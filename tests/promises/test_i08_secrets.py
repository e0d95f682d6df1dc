"""I8: secrets appear in no log, error, status, metric, dead letter, process list, or file that others can read."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg import sql

from tests.behaviour.act.hook_server import Answer, HookServer, Request
from tests.faces.cli import penstock
from tests.faults.scene import SESSION_S, WAIT_S
from tests.support.engine import pipeline
from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaBroker
from tests.support.kafka_client import KafkaClient
from tests.support.postgres import PostgresServer
from tests.support.receiver import Receiver
from tests.support.waiting import until

SECRETS = {
    "variable": "var1able-s3cret-token",
    "file": "f1le-s3cret-value",
    "url": "url-s3cret-passw0rd",
    "store": "st0re-s3cret-passw0rd",
    "kafka": "s3cret-app",
    "literal": "l1teral-s3cret-key",
    "table": "t4ble-s3cret-passw0rd",
    "lineage": "l1neage-s3cret-key",
    "lineage url": "l1neage-s3cret-passw0rd",
    "sentry": "s3ntrys3cretkey",
    "smtp": "sm7p-s3cret-passw0rd",
    "oidc": "0idc-s3cret-client",
    "spark": "sp4rk-s3cret-passw0rd",
}


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """The instance's home and temporary files, in a place that everybody can look into."""
    folder = Path(tempfile.mkdtemp(prefix="i08-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def echo(request: Request) -> Answer:
    """A server that repeats what it was sent in its refusal, as debug pages do."""
    return Answer(422, body=json.dumps(request.headers | {"path": request.path}).encode())


def settings_with_secrets(receiver: Receiver) -> dict[str, str]:
    """Every setting that holds one, and receivers that are given all that there is to tell."""
    place = receiver.url.removeprefix("http://")
    return {
        "PENSTOCK_LINEAGE_URL": f"http://app:{SECRETS['lineage url']}@{place}",
        "PENSTOCK_LINEAGE_API_KEY": SECRETS["lineage"],
        "PENSTOCK_LINEAGE_EVERY": "1s",
        "PENSTOCK_SENTRY_DSN": f"http://{SECRETS['sentry']}@{place}/7",
        "PENSTOCK_SMTP_URL": f"smtp://app:{SECRETS['smtp']}@127.0.0.1:1",
        "PENSTOCK_OIDC_CLIENT_SECRET": SECRETS["oidc"],
        "PENSTOCK_SPARK_CONF_spark__ssl__keyPassword": SECRETS["spark"],
    }


def documents(
    kafka: KafkaBroker, topics: list[str], hook: HookServer, secret_file: Path, table: str
) -> list[dict[str, Any]]:
    config = kafka.client_config("SASL_PLAINTEXT")
    connection = {
        "bootstrap": config.pop("bootstrap.servers"),
        "consumer_config": {k: v for k, v in config.items() if not k.startswith("log")},
        "schema_registry_url": f"http://app:{SECRETS['url']}@127.0.0.1:1",
    }
    hooked = pipeline(
        "i08-hook",
        "",
        [topics[0]],
        source={"connection": connection},
        action={
            "type": "webhook",
            "config": {
                "url": hook.url(f"/hook?token={SECRETS['literal']}"),
                "headers": {"authorization": "Bearer ${I08_TOKEN}", "x-api-key": f"${{file:{secret_file}}}"},
                "allow_private": True,
            },
        },
    )
    raising = pipeline(
        "i08-raise",
        "",
        [topics[0]],
        source={"connection": connection},
        action={
            "type": "python",
            "config": {"callable": "./leaky.py:act", "config": {"api_key": "${I08_TOKEN}", "password": "${I08_TOKEN}"}},
        },
    )
    # Waits for a registry that is away: the reason names its address.
    waiting = pipeline(
        "i08-avro",
        "",
        [topics[1]],
        source={"connection": connection, "format": "avro"},
        action={"type": "hello_world"},
    )
    # Waits for a database that does not let it in, and stops at its first event.
    barred = pipeline(
        "i08-table",
        "",
        [topics[0]],
        source={"connection": connection},
        action={"type": "table", "config": {"url": table, "table": "t", "columns": {"seq": "event.seq"}}},
    )
    thrown = raising | {"name": "i08-throw", "options": {"failure_mode": "THROW"}}
    return [hooked, raising, waiting, barred, thrown]


LEAKY = """
def act(event, config):
    raise ValueError(f"the server does not like {config['password']} at https://app:{config['api_key']}@example.org")
"""


def test_i08_secrets_are_nowhere_to_be_seen(
    secure_kafka: KafkaBroker, postgres: PostgresServer, tmp_path: Path, short_folder: Path
) -> None:
    plain: KafkaClient = secure_kafka
    topics = [plain.create_topic(f"i08-{kind}-{os.getpid()}") for kind in ("json", "avro")]
    store = postgres.create_database().replace("postgres@", f"postgres:{SECRETS['store']}@")
    (tmp_path / "leaky.py").write_text(LEAKY)
    (tmp_path / "secret").write_text(SECRETS["file"] + "\n")
    env = {
        "PENSTOCK_HOME": str(short_folder / "home"),
        "PENSTOCK_STORE_URL": store,
        "PENSTOCK_LOG_LEVEL": "debug",
        "PENSTOCK_LOG_FORMAT": "json",
        "PENSTOCK_ENGINE_SESSION_TIMEOUT": f"{SESSION_S:g}s",
        "PENSTOCK_ENGINE_HOT_LANES": "0",
        "I08_TOKEN": SECRETS["variable"],
        "TMPDIR": str(short_folder),
    }
    table = postgres.url().replace("postgres@", f"nobody:{SECRETS['table']}@")
    with HookServer(echo) as hook, Receiver() as receiver:
        env |= settings_with_secrets(receiver)
        files = []
        for document in documents(secure_kafka, topics, hook, tmp_path / "secret", table):
            files.append(tmp_path / f"{document['name']}.json")
            files[-1].write_text(json.dumps(document))
        plain.produce(topics[0], [json.dumps({"seq": i}).encode() for i in range(2)])
        plain.produce(topics[1], [b"\x00\x00\x00\x00\x07payload"])
        with PenstockProcess(["run", *files], folder=tmp_path / "run", env=env) as instance:
            for name in ("i08-hook", "i08-raise"):
                until(lambda n=name: plain.lag(n, topics[0]) == 0, WAIT_S, lambda: instance.log[-3000:])
            until(
                lambda: "127.0.0.1:1" in instance.log, WAIT_S, lambda: f"the registry's outage; {instance.log[-3000:]}"
            )
            until(
                lambda: {"i08-table", "i08-throw"} <= _unready(instance),
                WAIT_S,
                lambda: instance.get("/health/ready").text,
            )
            seen = _everything_shown(instance, files, env)
            seen |= _readable_by_others(short_folder)
            seen |= _command_lines(instance)
            assert instance.stop() == 0
        seen |= {"log": instance.log, "standard output": instance.stdout} | _store(store)
        seen |= {f"told {at}: {each.path}": each.body.decode() for at, each in enumerate(receiver.received)}
    assert "i08-raise" in seen["dead-letters list"]
    assert "the server does not like" in seen["dead-letters list"]
    assert any('"FAIL"' in text for text in seen.values()), "lineage was told"
    assert any("envelope" in place for place in seen), "so was Sentry"
    assert [line for line in instance.log.splitlines() if not line.startswith('{"')] == [], "all of the log is JSON"
    found = [(place, kind) for place, text in seen.items() for kind, secret in SECRETS.items() if secret in text]
    assert found == []


def _unready(instance: PenstockProcess) -> set[str]:
    return {view["pipeline"] for view in instance.get("/health/ready").json()["pipelines"] if not view["ready"]}


def _everything_shown(instance: PenstockProcess, files: list[Path], env: dict[str, str]) -> dict[str, str]:
    seen = {path: instance.get(path).text for path in ("/metrics", "/health/ready", "/health/live")}
    commands: list[list[object]] = [
        ["status", "--json"],
        ["status"],
        ["dead-letters", "list", "--json"],
        ["validate", "--json", *files],
        ["doctor", "--json", *files],
    ]
    for command in commands:
        result = penstock(*command, **env)
        seen[" ".join(map(str, command[:2]))] = result.out + result.err
    letters = {row["pipeline"]: row["id"] for row in json.loads(seen["dead-letters list"])}
    for number in letters.values():
        for form in ([], ["--json"]):
            result = penstock("dead-letters", "show", number, *form, **env)
            assert result.code == 0
            seen[f"dead letter {number} {form}"] = result.out + result.err
    return seen


def _command_lines(instance: PenstockProcess) -> dict[str, str]:
    lines = {}
    for process in instance.tree():
        with contextlib.suppress(psutil.NoSuchProcess):
            lines[f"command line of {process.pid}"] = " ".join(process.cmdline())
    return lines


def _readable_by_others(folder: Path) -> dict[str, str]:
    """Texts of the instance's files that another user could open, as their rights and those of their folders say."""
    found = {}
    for file in folder.rglob("*"):
        if file.is_file() and file.stat().st_mode & 0o044 and _open_to_others(file.parent):
            found[str(file)] = file.read_bytes().decode(errors="replace")
    return found


def _open_to_others(folder: Path) -> bool:
    return all(place.stat().st_mode & 0o011 for place in (folder, *folder.parents))


def _store(url: str) -> dict[str, str]:
    """Every row of every table."""
    with psycopg.connect(url) as connection:
        tables = [
            row[0]
            for row in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        ]
        return {
            f"table {name}": "\n".join(
                bytes(cell).decode(errors="replace") if isinstance(cell, bytes | memoryview) else str(cell)
                for row in connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(name))).fetchall()
                for cell in row
            )
            for name in tables
        }
