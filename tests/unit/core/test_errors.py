"""Errors carry data and survive the way from executor to driver."""

from __future__ import annotations

import pickle

import pytest

from penstock.core.errors import ConfigError, DecodeError, PenstockError, PluginError, Terminal, Transient, Unavailable


class OddError(PenstockError, Transient):
    """An error whose constructor has another shape than its base's."""

    code = "odd"

    def __init__(self, number: int, *, colour: str) -> None:
        super().__init__(f"number {number}", received=number, allowed=[1, 2], hint=f"paint it {colour}")
        self.colour = colour


ERRORS = [
    PenstockError("plain"),
    ConfigError("bad", received=1, allowed=["a"], hint="do this"),
    PluginError("no such plug-in"),
    DecodeError("not JSON"),
    Unavailable("registry is away"),
    OddError(3, colour="red"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_survive_pickling(error: PenstockError) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.as_dict() == error.as_dict()
    assert again.__dict__ == error.__dict__


def test_errors_as_data() -> None:
    error = ConfigError("bad", received=1, allowed=["a"], hint="do this")
    assert str(error) == "bad (do this)"
    assert error.as_dict() == {"code": "config", "message": "bad", "received": 1, "allowed": ["a"], "hint": "do this"}
    assert PenstockError("x").as_dict() == {"code": "penstock", "message": "x"}


def test_the_type_decides_about_retries() -> None:
    assert all(isinstance(error, Terminal) for error in ERRORS[1:4])
    assert all(isinstance(error, Transient) for error in ERRORS[4:])
