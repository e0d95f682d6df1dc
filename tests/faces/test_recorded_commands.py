"""Every command that changes something says so in the record of changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.config.settings import Settings
from penstock.store import Store
from tests.faces.api.conftest import fill, make_project
from tests.faces.api.work import make_work
from tests.unit.service.test_lightning import YAML

LOOKS = {
    "db current", "dead-letters list", "dead-letters show", "doctor", "dry-run", "export", "offsets show",
    "pipelines list", "plugins", "secrets list", "status", "test", "tokens list", "topics list", "topics tail",
    "triggers list", "triggers show", "triggers test", "users list", "validate", "version", "wherehows ddl",
    "wherehows dry-run", "wherehows sample", "work-orders list", "work-orders show", "workflows list",
    "workflows show",
}  # fmt: skip
"""Change nothing."""
NOT_OF_THE_STORE = {
    "actions": "runs what its files say",
    "db create-staging": "another database",
    "db upgrade": "the schema that the record is part of; its version is in the store",
    "demo": "a store of its own",
    "init": "writes files",
    "run": "runs what its files say; what it takes from the store is in the histories",
    "topics create": "the cluster's",
    "topics produce": "the cluster's",
    "wherehows merge": "another database",
}
RECORDED_TOO = {
    "dead-letters replay": "needs Spark",
    "offsets reset": "needs a broker",
    "replay": "needs Spark",
    "triggers enable": "needs a broker",
    "work-orders jobs": "with --stop only; tests/faces/test_work_orders.py looks at the record",
}
"""Recorded as the others are, and not tried here."""
RECORDED = {
    "db rotate-key": "db.rotate-key",
    "dead-letters discard": "dead_letters.discard",
    "dead-letters export": "dead_letters.export",
    "dead-letters import": "dead_letters.import",
    "import lightning": "import.lightning",
    "import lightning-recovery": "import.lightning-recovery",
    "pipelines pause": "pipelines.pause",
    "pipelines rate-limit": "pipelines.rate-limit",
    "pipelines restart": "pipelines.restart",
    "pipelines resume": "pipelines.resume",
    "pipelines stop": "pipelines.stop",
    "secrets delete": "secrets.delete",
    "secrets set": "secrets.set",
    "tokens create": "tokens.create",
    "tokens revoke": "tokens.revoke",
    "triggers disable": "triggers.disable",
    "users change": "users.change",
    "users create": "users.create",
    "users delete": "users.delete",
    "users password": "users.password",
    "work-orders cancel": "work_orders.cancel",
    "work-orders export": "work_orders.export",
    "work-orders retry": "work_orders.retry",
    "workflows apply": "workflows.apply",
    "workflows delete": "workflows.delete",
    "workflows run": "workflows.run",
}
"""What each is called in the record."""


WORKFLOW = """\
kind: workflow
project: clinic
name: labs
steps:
  - {name: check, command: "true"}
"""


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    if hasattr(command, "commands"):
        for name, each in command.commands.items():
            yield from commands(each, (*path, name))
    else:
        yield " ".join(path)


def test_every_command_is_named_here() -> None:
    known = set(commands(typer.main.get_command(app)))
    assert known == {*LOOKS, *NOT_OF_THE_STORE, *RECORDED_TOO, *RECORDED}, "say whether a new one changes things"


def test_commands_that_change_something_are_recorded(penstock_home: Path, tmp_path: Path) -> None:
    settings = Settings.load({"PENSTOCK_HOME": str(penstock_home)})
    with Store.open(settings.store_url) as store:
        fill(store)
        work = make_work(store, make_project(store, "health"))
    letters, zipped, kept = tmp_path / "letters.jsonl", tmp_path / "orders.zip", tmp_path / "kept"
    kept.mkdir()
    (project := tmp_path / "project.yaml").write_text(YAML)
    (workflow := tmp_path / "labs.yaml").write_text(WORKFLOW)
    email, password = "bob@example.org", "a sentence that is long\n"
    made = CliRunner().invoke(app, ["tokens", "create", "ci"])
    assert made.exit_code == 0, made.output
    with Store.open(settings.store_url) as store:
        [token] = [row.id for row in store.tokens.all()]
    given: list[tuple[str, list[object], str | None]] = [
        ("tokens revoke", [token], None),
        ("users create", [email, "--role", "viewer"], password),
        ("users change", [email, "--role", "operator"], None),
        ("users password", [email], password),
        ("users delete", [email], None),
        ("secrets set", ["kafka"], "sesame-5511\n"),
        ("db rotate-key", [], None),
        ("secrets delete", ["kafka"], None),
        *((f"pipelines {word}", ["orders", "--no-wait"], None) for word in ("pause", "resume", "stop", "restart")),
        ("pipelines rate-limit", ["orders", "10/s"], None),
        ("dead-letters export", [letters], None),
        ("dead-letters import", [letters], None),
        ("dead-letters discard", ["1", "--yes", "--reason", "x"], None),
        ("work-orders export", [zipped, "--any-time"], None),
        ("work-orders retry", [work.work_order], None),
        ("work-orders cancel", [work.work_order], None),
        ("triggers disable", [work.trigger], None),
        ("import lightning-recovery", [kept], None),
        ("import lightning", [project], None),
        ("workflows apply", [workflow], None),
        ("workflows run", ["clinic/labs", "--input", "{}"], None),
        ("workflows delete", [work.workflow, "--yes"], None),
    ]
    assert {*RECORDED} == {name for name, _, _ in given} | {"tokens create"}
    for name, arguments, stdin in given:
        done = CliRunner().invoke(app, [*name.split(), *map(str, arguments)], input=stdin)
        assert done.exit_code == 0, (name, done.output)
    with Store.open(settings.store_url) as store:
        rows = store.audit.list(limit=1_000)
    assert {row.action for row in rows if row.outcome == "done"} == {*RECORDED.values()}
    assert {row.actor_kind for row in rows} == {"system"}
    assert not any("sesame-5511" in f"{row.before}{row.after}{row.data}" for row in rows)
