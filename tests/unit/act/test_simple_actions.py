"""The actions that need no server: hello_world, python, command."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.act.command import CommandError, CommandTimeoutError
from penstock.act.registry import actions, check_action
from penstock.core.errors import ConfigError, PluginError
from penstock.core.plugin import PipelineContext
from tests.support.children import alive
from tests.support.events import make_event
from tests.support.waiting import until

CTX = PipelineContext("p")


def test_hello_world_prints_a_heading_and_the_envelope(capsys: pytest.CaptureFixture[str]) -> None:
    event = make_event({"name": "Ann"})
    actions.create("hello_world", {}, CTX).act(event)
    heading, _, text = capsys.readouterr().out.partition("\n")
    assert heading == "Hello world! Received event:"
    assert json.loads(text) == {
        "event_type": "JsonEvent",
        "event": {"name": "Ann"},
        "meta": {"kafka": {"topic": "orders", "offset": 41, "partition": 3}},
    }
    assert '\n    "event": {\n        "name"' in text
    actions.create("hello_world", {"to_upper": True}, CTX).act(event)
    assert '"NAME": "ANN"' in capsys.readouterr().out


FUNCTIONS = """
from penstock import Action
from penstock.config.spec import Model
seen = []

def one(event):
    seen.append(event.event["n"])

def two(event, config):
    seen.append((event.value["n"], config))

def by_position(event, options, /):
    return options["result"]

def optional(event, verbose=False):
    seen.append(verbose)

async def later(event, config):
    seen.append(config["x"])
    return False

def anything(*args):
    seen.append(len(args))

def none():
    pass

class MineConfig(Model):
    a: int

class Mine(Action):
    parallel_safe = False
    config_model = MineConfig

    def __init__(self, config, ctx):
        self.config, self.name = config, ctx.pipeline_name

    @classmethod
    def create(cls, config, ctx):
        return cls(config, ctx)

    def close(self):
        pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    return tmp_path


def made(folder: Path, name: str, **config: Any) -> Any:
    ctx = PipelineContext("p", folder=str(folder))
    return actions.create("python", {"callable": f"functions.py:{name}", **config}, ctx)


def seen(action: Any) -> list[Any]:
    function = getattr(action.act, "func", action.act)
    return list(function.__globals__["seen"])


def test_python_calls_functions_by_their_signature(folder: Path) -> None:
    event = make_event({"n": 4})
    action = made(folder, "one")
    assert action.act(event) is None
    assert inspect.isfunction(action.act), "the function itself, with nothing around it"
    action = made(folder, "two", config={"a": 1})
    action.act(event)
    assert made(folder, "by_position", config={"result": True}).act(event) is True
    made(folder, "optional", config={"verbose": True}).act(event)
    made(folder, "anything").act(event)
    assert seen(action) == [4, (4, {"a": 1}), False, 1]
    action.close()


def test_python_takes_async_functions(folder: Path) -> None:
    action = made(folder, "later", config={"x": 5})
    assert inspect.iscoroutinefunction(action.act)
    assert asyncio.run(action.act(make_event({}))) is False
    assert seen(action) == [5]


def test_python_with_an_action_class_is_that_class(folder: Path) -> None:
    action = made(folder, "Mine", config={"a": 1})
    assert (type(action).__name__, action.config, action.name, action.parallel_safe) == ("Mine", {"a": 1}, "p", False)


def test_actions_are_checked_without_being_created(folder: Path) -> None:
    path = str(folder)
    check_action("hello_world", {}, path)
    check_action("python", {"callable": "functions.py:one"}, path)
    check_action("python", {"callable": "functions.py:Mine", "config": {"a": 1}}, path)
    with pytest.raises(ConfigError, match="`a` is required"):
        check_action("python", {"callable": "functions.py:Mine"}, path)
    with pytest.raises(ConfigError, match="did you mean `callable`"):
        check_action("python", {"calable": "functions.py:one"}, path)
    with pytest.raises(PluginError, match="did you mean `one`"):
        check_action("python", {"callable": "functions.py:onee"}, path)


def test_python_refuses_what_cannot_take_an_event(folder: Path) -> None:
    with pytest.raises(PluginError, match="cannot be called with an event") as caught:
        made(folder, "none")
    assert caught.value.allowed == ["f(event)", "f(event, config)"]
    with pytest.raises(PluginError, match="is a list, not a function"):
        made(folder, "seen")
    with pytest.raises(PluginError, match="is a class, and neither"):
        actions.create("python", {"callable": "pathlib:Path"}, CTX)


def command(folder: Path, script: str, **config: Any) -> Any:
    ctx = PipelineContext("p", folder=str(folder))
    return actions.create("command", {"argv": [sys.executable, "-c", script], **config}, ctx)


def test_command_gets_the_envelope_on_stdin_and_runs_in_the_pipelines_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_STORE_URL", "postgresql://u:secret@h/d")
    script = (
        "import sys, os, json; e = json.load(sys.stdin)\n"
        "out = [e, os.environ['MODE'], os.environ.get('PENSTOCK_STORE_URL'), 'PATH' in os.environ]\n"
        "open('out.json', 'w').write(json.dumps(out)); print('noise')\n"
    )
    command(folder, script, env={"MODE": "test"}).act(make_event({"n": 1}))
    envelope, mode, store, path = json.loads((folder / "out.json").read_text())
    assert (envelope["event"], envelope["meta"]["kafka"]["offset"]) == ({"n": 1}, 41)
    assert (mode, store, path) == ("test", None, True)


def test_command_failure_carries_the_end_of_stderr(folder: Path) -> None:
    script = "import sys; sys.stderr.write('x' * 100_000 + ' the reason'); sys.exit(3)"
    with pytest.raises(CommandError) as caught:
        command(folder, script).act(make_event({}))
    assert "ended with exit code 3" in str(caught.value)
    assert str(caught.value).endswith("the reason")
    assert len(str(caught.value)) < 5_000
    with pytest.raises(CommandError, match="ended with signal SIGKILL"):
        command(folder, "import os; os.kill(os.getpid(), 9)").act(make_event({}))


def test_command_need_not_read_its_input(folder: Path) -> None:
    command(folder, "pass").act(make_event({"big": "x" * 1_000_000}))


def test_command_is_killed_with_its_children_at_the_timeout(folder: Path) -> None:
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('pid', 'w').write(str(child.pid)); sys.stderr.write('still busy'); sys.stderr.flush(); time.sleep(60)\n"
    )
    began = time.monotonic()
    with pytest.raises(CommandTimeoutError, match="within 2 s and was killed: still busy"):
        command(folder, script, timeout="2s").act(make_event({}))
    assert time.monotonic() - began < 60, "as long as it would have taken"
    pid = int((folder / "pid").read_text())
    until(lambda: not alive(pid), 10, f"child {pid} is still running")


def test_command_program_must_exist(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"no program `no-such-program`.*looked at PATH"):
        actions.create("command", {"argv": ["no-such-program"]}, CTX)
    with pytest.raises(ConfigError, match="`argv`"):
        actions.create("command", {"argv": []}, CTX)
    with pytest.raises(ConfigError, match="`argv`"):
        actions.create("command", {"argv": "echo hi"}, CTX)
    script = folder / "run.sh"
    script.write_text("#!/bin/sh\ncat > got\n")
    ctx = PipelineContext("p", folder=str(folder))
    with pytest.raises(ConfigError, match="can be run"):
        actions.create("command", {"argv": ["./run.sh"]}, ctx)
    os.chmod(script, 0o755)  # noqa: PTH101, S103 - a program must be executable
    actions.create("command", {"argv": ["./run.sh"]}, ctx).act(make_event({"n": 2}))
    assert json.loads((folder / "got").read_text())["event"] == {"n": 2}
