"""What every command has in common: `--json`, exit codes, no tracebacks, a fast start."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from penstock.cli.command import guarded
from penstock.cli.exits import Exit
from penstock.cli.main import app
from penstock.cli.terminal import Terminal
from penstock.core import errors
from penstock.core.errors import ConfigError, PenstockError, Unavailable
from tests.faces.cli import penstock

COMMANDS = [
    *("run", "actions", "dry-run", "demo", "init", "validate", "test", "status", "plugins", "doctor", "version"),
    *("pipelines list", "pipelines pause", "pipelines resume", "pipelines stop", "pipelines restart"),
    *("pipelines rate-limit", "offsets show", "offsets reset", "db current", "db upgrade"),
    *("db create-staging", "wherehows sample", "wherehows dry-run", "wherehows ddl", "wherehows merge"),
    *("replay", "dead-letters replay", "dead-letters discard", "dead-letters export", "dead-letters import"),
    *("secrets list", "secrets set", "secrets delete"),
    *("topics list", "topics create", "topics produce", "topics tail", "dead-letters list", "dead-letters show"),
    *("users list", "users create", "users change", "users password", "users delete"),
    *("tokens list", "tokens create", "tokens revoke"),
    *("workflows apply", "workflows delete", "workflows list", "workflows show", "workflows run", "db rotate-key"),
    *("triggers list", "triggers show", "triggers enable", "triggers disable", "triggers test"),
    *("work-orders list", "work-orders show", "work-orders retry", "work-orders cancel", "work-orders export"),
    *("work-orders jobs", "import lightning", "import lightning-recovery", "export"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_json_and_debug(command: str) -> None:
    shown = penstock(*command.split(), "--help")
    assert shown.code == 0
    assert "--json" in shown.out
    assert "--debug" in shown.out


def test_no_command_is_missing_from_this_test() -> None:
    found = [command.name for command in app.registered_commands]
    for group in app.registered_groups:
        assert group.typer_instance is not None
        found += [f"{group.name} {command.name}" for command in group.typer_instance.registered_commands]
    assert sorted(map(str, found)) == sorted(COMMANDS)


def test_version_says_what_runs() -> None:
    assert penstock("version").out.startswith(f"penstock {version('penstock')}\n")
    assert penstock("version", "--json").data["pyspark"] == version("pyspark")


@pytest.mark.parametrize("args", [["nonsense"], ["validate"], ["status", "--nonsense"], ["demo", "--seconds", "soon"]])
def test_a_wrong_command_line_ends_with_2(args: list[str]) -> None:
    result = penstock(*args)
    assert result.code == 2
    assert "Traceback" not in result.err
    assert result.err


def test_without_arguments_the_help_is_shown() -> None:
    result = penstock()
    assert "Usage: penstock" in result.out + result.err


class RefusedError(PenstockError, errors.Terminal):
    code = "refused"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("wrong"), Exit.USAGE),
        (Unavailable("away"), Exit.UNREACHABLE),
        (RefusedError("no"), Exit.FAILED),
        (ZeroDivisionError("oh"), Exit.BUG),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
    ],
)
def test_errors_become_exit_codes(error: BaseException, code: Exit, capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> Exit | None:
        raise error

    assert guarded(Terminal(), work) == code
    assert "Traceback" not in capsys.readouterr().err


def test_an_error_shows_message_received_allowed_and_hint(capsys: pytest.CaptureFixture[str]) -> None:
    error = ConfigError("no such thing", received="blue", allowed=["red", "green"], hint="choose one")
    Terminal().error(error)
    shown = capsys.readouterr()
    assert shown.err.splitlines() == [
        "error[config]: no such thing",
        "  received: blue",
        "  allowed: red, green",
        "  hint: choose one",
    ]
    Terminal(as_json=True).error(error)
    assert json.loads(capsys.readouterr().out) == {
        "error": {
            "code": "config",
            "message": "no such thing",
            "received": "blue",
            "allowed": ["red", "green"],
            "hint": "choose one",
        }
    }


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    quiet = penstock("topics", "list")
    loud = penstock("topics", "list", "--debug")
    assert (quiet.code, loud.code) == (2, 2)
    assert "Traceback" not in quiet.err
    assert "Traceback" in loud.err
    assert "--bootstrap" in quiet.err


def test_control_characters_are_shown_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().line("a\x1b[31mb\x07\u202ec\x9b")
    assert capsys.readouterr().out == "a\\x1b[31mb\\x07\\u202ec\\x9b\n"
    Terminal().table(("NAME",), [("one\ntwo",)])
    assert r"one\ntwo" in capsys.readouterr().out


@pytest.mark.parametrize("evil", ["\x1b[31m", "\x9b31m", "\u202e", "\x07", "\x00", "\x7f"])
def test_no_output_carries_a_control_character(evil: str, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    terminal.line(evil)
    terminal.note(evil)
    terminal.table((evil,), [(evil,)])
    terminal.error(ConfigError(evil, received=evil, hint=evil))
    Terminal(as_json=True).data([evil])
    shown = capsys.readouterr()
    assert evil[0] not in shown.out + shown.err


HEAVY = ("pyspark", "py4j", "confluent_kafka", "nicegui", "fastapi", "sqlalchemy", "pandas")


@pytest.mark.parametrize(
    ("args", "needed"),
    # The client itself says which of a connection's properties it would refuse.
    [(["version"], []), (["validate", "pipeline.yaml"], ["confluent_kafka"]), (["init", "there"], [])],
)
def test_light_commands_load_nothing_heavy(args: list[str], needed: list[str], tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(
        "name: p\nsource: {type: kafka, config: {topics: [t]}}\n"
        "filters: [{type: cel, config: {expression: 'event.a > 1'}}]\naction: {type: hello_world}\n"
    )
    script = (
        "import sys\n"
        "from penstock.cli.main import main\n"
        f"sys.argv = ['penstock', *{args!r}]\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        f"print('HEAVY', sorted(set(sys.modules) & set({HEAVY!r})))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == f"HEAVY {needed}", done.stdout + done.stderr
