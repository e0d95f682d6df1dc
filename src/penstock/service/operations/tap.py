"""A tap of a pipeline's stages: a few events as each stage leaves them, for as long as somebody looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, get_args

import orjson

from penstock.core.deadline import Deadline
from penstock.core.errors import ConfigError, PenstockError, Terminal
from penstock.core.secrets import MASK
from penstock.engine.taps import MOST_PER_SECOND, Tap
from penstock.pipeline.samples import Became, Sample, TapStage
from penstock.service.access import Actor, allows
from penstock.service.masking import UNTOLD
from penstock.service.operations.desk import Desk
from penstock.service.operations.models import View
from penstock.service.status import INSTANCE_SILENCE

__all__ = ["LONGEST", "MOST", "STAGES", "NotHere", "SampleView", "TapStage", "Tapping", "look", "tap"]

STAGES: Final[tuple[TapStage, ...]] = get_args(TapStage)
LONGEST: Final = 300.0
"""Seconds: whoever wants more asks again."""
MOST: Final = 100_000
_WAIT: Final = 0.5
"""Seconds that one look waits."""
_AT_ONCE: Final = 100
"""Samples of one look."""
_STEPS: Final[dict[TapStage, str]] = {"filter": "filters", "transform": "transform"}
"""Stages that a pipeline may be without, by the name that the spec has for their steps."""
_MOVED: Final = "rules hide fields of it, and nobody knows where they are now"
_AS_READ: Final = ("json", "avro")
"""Formats whose decoded values have the fields of their records, by which rules name them."""


class NotHere(PenstockError, Terminal):
    """The instance that answers does not run the pipeline."""

    code = "not_here"


class SampleView(View):
    """An event as a stage left it."""

    stage: TapStage
    step: int
    """Place among the filters, or among the transforms, counted from 0."""
    topic: str
    partition: int
    offset: int
    timestamp: int | None = None
    """Of the record; epoch milliseconds."""
    key: str | None = None
    event_type: str = ""
    became: Became
    """`passed` on, `dropped` by a filter or transform, `failed`, `acted` on, or `waiting` for another attempt."""
    value: str | None = None
    """JSON, its end cut off where it is long; null: it is not shown."""
    cut: bool = False
    why: str | None = None
    """Why it failed, or is not shown."""
    masked: bool = False


class Tapping:
    """A bounded series of samples as they come. Close it: units hand over samples until then."""

    def __init__(self, desk: Desk, tap: Tap, *, plain: bool, seconds: float, limit: int) -> None:
        """`plain`: what decoders make of records has their fields."""
        self._desk, self._tap, self._plain = desk, tap, plain
        self._deadline, self._left = Deadline.after(seconds), limit

    def some(self) -> list[dict[str, Any]]:
        """The next ones, as data; none where none came for a moment."""
        return self._taken(min(_WAIT, self._deadline.remaining))

    def there(self) -> list[SampleView]:
        """Those that are there already."""
        return [SampleView(**data) for data in self._taken(0)]

    def _taken(self, wait: float) -> list[dict[str, Any]]:
        found = self._tap.take(min(self._left, _AT_ONCE), wait)
        self._left -= len(found)
        return [self._data(sample) for sample in found]

    @property
    def over(self) -> bool:
        return not self._left or self._deadline.expired

    @property
    def dropped(self) -> int:
        """Samples that came faster than they were taken."""
        return self._tap.dropped

    def close(self) -> None:
        self._tap.close()

    def _data(self, sample: Sample) -> dict[str, Any]:
        """The fields of a `SampleView`, which nobody has to check: a thousand of them are streamed in a second."""
        masked = self._desk.masking.applies(sample.topic)
        value, why = sample.value, sample.why
        if masked:
            value, why = self._masked(sample)
        return {
            "stage": sample.stage,
            "step": sample.step,
            "topic": sample.topic,
            "partition": sample.partition,
            "offset": sample.offset,
            "timestamp": sample.timestamp if sample.timestamp >= 0 else None,
            "key": sample.key,
            "event_type": sample.event_type,
            "became": sample.became,
            "value": value,
            "cut": sample.is_cut and value != MASK,
            "why": why,
            "masked": masked,
        }

    def _masked(self, sample: Sample) -> tuple[str | None, str | None]:
        """The value, and why it failed, without the masked fields, where they are still in their places; otherwise
        nothing of either."""
        if sample.value is None:
            return None, UNTOLD if sample.why else None
        decoded = self._decoded(sample)
        if decoded is None:
            return MASK, UNTOLD if sample.why else _MOVED
        words = self._desk.masking.words(sample.topic, sample.value.encode("utf-8", "surrogatepass"))
        why = words(sample.why) if sample.why else None
        return orjson.dumps(self._desk.masking.value(sample.topic, decoded)).decode(), why

    def _decoded(self, sample: Sample) -> Any:
        """The value whose fields are where rules look for them; None: they may be anywhere."""
        if not (self._plain and sample.as_read) or sample.is_cut or sample.value is None:
            return None
        try:
            decoded: Any = orjson.loads(sample.value)
        except orjson.JSONDecodeError:
            return None
        return decoded if isinstance(decoded, dict | list) else None


def tap(
    desk: Desk,
    actor: Actor,
    name: str,
    *,
    stages: Sequence[TapStage] = STAGES,
    seconds: float = 30.0,
    limit: int = 1_000,
    per_second: float = 20.0,
) -> Tapping:
    """Samples of what passes these stages from now on, on the instance that answers; so many, or so long."""
    desk.pipeline(actor, "topics.view", name)
    wanted = [stage for stage in STAGES if stage in stages]
    bounded = 0 < seconds <= LONGEST and 1 <= limit <= MOST and 0 < per_second <= MOST_PER_SECOND
    if not wanted or not bounded:
        raise ConfigError(
            "a tap is bounded",
            allowed=f"some of {', '.join(STAGES)}; {LONGEST:g} seconds, {MOST} samples, {MOST_PER_SECOND} a second",
        )
    instance = desk.instance()
    flow = next((flow for flow in list(instance.runners) if flow.name == name), None) if instance else None
    if instance is None or flow is None:
        raise NotHere(
            f"{name} does not run in the instance that answers", received=name, hint=_elsewhere(desk, actor, name)
        )
    there = [stage for stage in wanted if stage not in _STEPS or getattr(flow.spec, _STEPS[stage])]
    if not there:
        raise ConfigError(f"{name} has no such stage", received=", ".join(wanted), allowed="decode, act")
    desk.note_read(actor, "pipelines.tap", f"pipeline/{name}", desk.project_of(name))
    source = flow.spec.source
    plain = not source.is_foreign and source.config.format in _AS_READ
    opened = instance.taps.open(name, there, per_second, seconds)
    return Tapping(desk, opened, plain=plain, seconds=seconds, limit=limit)


def look(desk: Desk, actor: Actor, name: str, tapping: Tapping) -> list[SampleView]:
    """What an open tap has now, if the actor may still see it."""
    desk.pipeline(actor, "topics.view", name)
    return tapping.there()


def _elsewhere(desk: Desk, actor: Actor, name: str) -> str:
    """Who can be asked instead; addresses are for those whose role holds everywhere."""
    if not allows(actor, "instances.view"):
        return "start it, or ask an instance that runs it"
    wanted = desk.snapshot().wanted.get(name)
    running = set(wanted.instances) if wanted else set()
    alive = desk.store.instances.alive(INSTANCE_SILENCE)
    places = [row.http_address for row in alive if row.id in running and row.http_address]
    return f"ask {' or '.join(places)}" if places else "start it, or ask an instance that runs it"
