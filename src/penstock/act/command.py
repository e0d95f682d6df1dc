"""The `command` action: runs a program per event, with the envelope on its standard input."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import IO, Annotated, Any, ClassVar, Self

from pydantic import Field

from penstock.config.spec import Model
from penstock.core.declarations import REFERABLE, Needs
from penstock.core.durations import Duration
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.event import Event
from penstock.core.plugin import Action, PipelineContext
from penstock.core.plugin_config import parse_config

_TAIL = 4_096
"""Bytes of standard error that a failure carries; the last ones say what went wrong."""


class CommandError(PenstockError):
    """The program said by its exit code that it failed."""

    code = "command-failed"


class CommandTimeoutError(PenstockError):
    """The program did not end in time and was killed."""

    code = "command-timeout"


class CommandConfig(Model):
    """Keys of the `command` action."""

    argv: Annotated[list[str], Needs("command", "a program")] = Field(min_length=1)
    """Program and arguments, without a shell. The program is in PATH, or a path from the pipeline file's folder."""
    timeout: Duration = Field(default=20.0, gt=0)
    """A program that runs for longer is killed with all it started. Keep it below `options.timeout`."""
    env: Annotated[dict[str, str], REFERABLE] = Field(default_factory=dict)
    """Added to the environment, which is Penstock's own without its `PENSTOCK_*` settings."""


class Command(Action):
    """Runs the program in the pipeline file's folder; an exit code above 0 fails the event with its last words."""

    parallel_safe: ClassVar[bool] = True
    config_model: ClassVar[type[CommandConfig]] = CommandConfig
    type_name: ClassVar[str] = "command"

    def __init__(self, config: CommandConfig, folder: Path) -> None:
        self._argv = [_program(config.argv[0], folder), *config.argv[1:]]
        self._name = Path(self._argv[0]).name
        self._folder = folder
        self._timeout = config.timeout
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")} | config.env

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:
        return cls(parse_config(CommandConfig, config, "command"), Path(ctx.folder or ".").absolute())

    def act(self, event: Event) -> None:
        # A file and not a pipe: nobody needs to read along, and a program that writes without end fills no memory.
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(  # noqa: S603 - running the user's program is what this action is for
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd=self._folder,
                env=self._env,
                start_new_session=True,
            )
            try:
                process.communicate(event.as_json().encode(), timeout=self._timeout)
            except subprocess.TimeoutExpired:
                raise CommandTimeoutError(
                    f"{self._name} did not end within {self._timeout:g} s and was killed{_tail(errors)}"
                ) from None
            finally:
                _end(process)
            if process.returncode:
                ended = f"exit code {process.returncode}" if process.returncode > 0 else _signal(-process.returncode)
                raise CommandError(f"{self._name} ended with {ended}{_tail(errors)}", received=process.returncode)

    def close(self) -> None:
        """Nothing is open."""


def _program(name: str, folder: Path) -> str:
    path = Path(name).expanduser()
    found = shutil.which(folder / path if "/" in name else name)
    if found is None:
        where = str(folder / path) if "/" in name else "PATH"
        raise ConfigError(f"command: there is no program `{name}` that can be run; looked at {where}", received=name)
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and what it started, unless it has ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _signal(number: int) -> str:
    try:
        return f"signal {signal.Signals(number).name}"
    except ValueError:
        return f"signal {number}"


def _tail(errors: IO[bytes]) -> str:
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - _TAIL))
    text = errors.read().decode(errors="replace").strip()
    return f": {text}" if text else ""
