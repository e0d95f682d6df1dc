"""A step that runs a program: the state on its standard input, the next one on its standard output."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import IO, Annotated, Any, Final

import orjson
from pydantic import Field

from penstock.config.model import Model
from penstock.core.declarations import REFERABLE, Needs
from penstock.core.durations import Duration
from penstock.core.errors import ConfigError
from penstock.core.event import json_bytes
from penstock.core.plugin_config import parse_config
from penstock.workflows.failing import StateError, StepFailed
from penstock.workflows.steps.step import State, Step, StepContext

_ANSWER: Final = 10 * 1024 * 1024
"""Bytes of standard output that may become a state."""
_LOOK_EVERY: Final = 0.1


class CommandStepConfig(Model):
    """Keys of a `command` step."""

    argv: Annotated[list[str], Needs("command", "a program")] = Field(min_length=1)
    """Program and arguments, without a shell. The program is in PATH, or a path from the workflow file's folder."""
    timeout: Duration | None = Field(default=None, gt=0)
    """A program that runs for longer is killed with all it started; default: the run's own timeout."""
    env: Annotated[dict[str, str], REFERABLE] = Field(default_factory=dict)
    """Added to the environment, which is Penstock's own without its `PENSTOCK_*` settings."""


class CommandStep(Step):
    """An exit code above 0 fails the step; lines of standard error are log lines."""

    def __init__(self, config: dict[str, Any], folder: str | None) -> None:
        parsed = parse_config(CommandStepConfig, config, "command")
        self._folder = Path(folder or ".").absolute()
        self._argv = [_program(parsed.argv[0], self._folder), *parsed.argv[1:]]
        self._name = Path(self._argv[0]).name
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        self._env = kept | parsed.env
        self._timeout = parsed.timeout

    def run(self, state: State, ctx: StepContext) -> Any:
        if self._timeout is not None:
            ctx.deadline = ctx.deadline.sooner(self._timeout)
        # Files and not pipes: nobody needs to feed or read along, whatever the sizes.
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as answer:
            given.write(json_bytes(state))
            given.seek(0)
            process = subprocess.Popen(  # noqa: S603 - running the user's program is what this step is for
                self._argv,
                stdin=given,
                stdout=answer,
                stderr=subprocess.PIPE,
                cwd=self._folder,
                env=self._env,
                start_new_session=True,
            )
            try:
                self._follow(process, ctx)
            finally:
                _end(process)
            if process.returncode:
                raise StepFailed(f"{self._name} ended with {_ending(process.returncode)}", received=process.returncode)
            return self._state(answer)

    def _follow(self, process: subprocess.Popen[bytes], ctx: StepContext) -> None:
        """Until it has ended, with its words as log lines."""
        assert process.stderr is not None  # noqa: S101 - it was asked for
        errors, rest = process.stderr.fileno(), b""
        # Not `select`, which takes no descriptor above 1023.
        poll = select.poll()
        poll.register(errors, select.POLLIN)
        while True:
            # Before the look: what it wrote last is there when it has ended.
            over = process.poll() is not None
            ready = poll.poll(0 if over else _LOOK_EVERY * 1000)
            said = os.read(errors, 65_536) if ready else b""
            whole, feed, rest = (rest + said).rpartition(b"\n")
            if feed:
                ctx.log.add("info", whole.decode(errors="replace"))
            if (ready and not said) or (not ready and over):
                break
            ctx.check()
        if rest:
            ctx.log.add("info", rest.decode(errors="replace"))
        while True:
            try:
                process.wait(_LOOK_EVERY)
            except subprocess.TimeoutExpired:
                ctx.check()
            else:
                return

    def _state(self, answer: IO[bytes]) -> Any:
        size = answer.seek(0, os.SEEK_END)
        answer.seek(0)
        if size > _ANSWER:
            raise StateError(f"{self._name} wrote {size} bytes to its standard output", allowed=f"{_ANSWER} bytes")
        text = answer.read().strip()
        if not text:
            return None
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise StateError(
                f"{self._name} wrote something to its standard output that is not JSON: {error}",
                allowed="a JSON object, or nothing",
                hint="what is meant for people goes to standard error",
            ) from None


def _program(name: str, folder: Path) -> str:
    path = Path(name).expanduser()
    found = shutil.which(folder / path if "/" in name else name)
    if found is None:
        where = str(folder / path) if "/" in name else "PATH"
        raise ConfigError(f"command: there is no program `{name}` that can be run; looked at {where}", received=name)
    return str(found)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and what it started, unless it has ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stderr is not None:
        process.stderr.close()


def _ending(code: int) -> str:
    if code > 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
