"""Exit codes, the same for every command."""

from __future__ import annotations

from enum import IntEnum

from penstock.core.errors import ConfigError, PenstockError, Transient


class Exit(IntEnum):
    """What a process tells the script that started it."""

    OK = 0
    FAILED = 1
    """The command ran, and something it looked at or worked on failed."""
    USAGE = 2
    """The command line or a configuration cannot be used as written."""
    UNREACHABLE = 3
    """A broker, registry, store or target does not answer; the same command may succeed later."""
    BUG = 70
    """Penstock itself failed in a way it did not expect."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C before it was done."""


def code_of(error: PenstockError) -> Exit:
    """The exit code an error ends a command with."""
    if isinstance(error, Transient):
        return Exit.UNREACHABLE
    return Exit.USAGE if isinstance(error, ConfigError) else Exit.FAILED
