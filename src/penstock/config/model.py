"""The base of all configuration models, and the error by which one of them points at a key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from penstock.core.secrets import MASK, is_secret_key, masked


class Model(BaseModel):
    """Frozen; unknown keys are errors; null counts as absent; `repr` hides secrets; docstrings make the reference."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True, defer_build=True
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None or key not in cls.model_fields}

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            shown = value if isinstance(value, BaseModel) else masked(value)
            yield name, (MASK if name and is_secret_key(name) and value else shown)

    def _settle(self, **values: Any) -> None:
        # A validator may replace what was written by its normal form; afterwards the model is frozen.
        self.__dict__.update(values)


class ProblemAt(ValueError):
    """Raised by a model's validator where the key at `path` below the model is to blame."""

    def __init__(
        self,
        path: Sequence[str | int],
        message: str,
        *,
        received: object = None,
        allowed: Iterable[str] | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.path = tuple(path)
        self.received = received
        self.allowed = tuple(allowed or ()) or None
        self.hint = hint
