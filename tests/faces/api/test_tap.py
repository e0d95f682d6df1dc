"""The tap over the API: bounded, masked, and closed when nobody looks any more."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.config.http_settings import MaskRule
from penstock.config.spec import PipelineSpec
from penstock.core.secrets import MASK
from penstock.engine.taps import Taps
from penstock.pipeline.samples import Sample, TapStage
from penstock.service.masking import UNTOLD, Masking
from tests.faces.api.conftest import Api
from tests.support.waiting import until

RULE = MaskRule(topic="orders*", fields=["card", "items.price"])


@dataclass
class Flow:
    name: str
    spec: PipelineSpec


@dataclass
class Instance:
    """As much of an instance as a tap needs."""

    id: str = "i-1"
    taps: Taps = field(default_factory=Taps)
    runners: list[Flow] = field(default_factory=list)

    def snapshot(self) -> list[Any]:
        return []


def spec(*, steps: bool = True, **source: Any) -> PipelineSpec:
    config = {"topics": ["orders-in"], "format": "json", "connection": {"bootstrap": "127.0.0.1:1"}} | source
    return PipelineSpec.model_validate(
        {
            "name": "orders",
            "source": {"type": "kafka", "config": config},
            "filters": [{"type": "cel", "config": {"expression": "event.id > 1"}}] * steps,
            "transform": [{"type": "drop", "config": {"fields": ["internal"]}}] * steps,
            "action": {"type": "hello_world"},
        }
    )


def sample(stage: TapStage, value: str | None, **more: Any) -> Sample:
    made = Sample(stage, 0, more.pop("topic", "orders-in"), 0, 7, 1_700_000_000_000, "k")
    made.value = value
    for name, given in more.items():
        setattr(made, name, given)
    return made


class Tapped:
    def __init__(self, api: Api, **given: Any) -> None:
        self.api, self.instance = api, Instance(runners=[Flow("orders", spec(**given))])
        api.desk.instance = lambda: self.instance  # type: ignore[assignment, return-value]  # a part of one

    def look(self, samples: list[Sample], query: str = "") -> list[dict[str, Any]]:
        """What the stream gives while the pipeline hands these over."""
        taps = self.instance.taps

        def hand_over() -> None:
            until(lambda: taps.wish("orders", 1) is not None, 10, "nobody looks")
            taps.give("orders", samples)

        handing = threading.Thread(target=hand_over)
        handing.start()
        answer = self.api.ask("GET", f"/pipelines/orders/tap?limit={len(samples)}&seconds=10{query}", "viewer")
        handing.join()
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert taps.wish("orders", 1) is None, "whoever has gone looks no more"
        parts = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
        return [found for found in map(json.loads, parts) if found]


@pytest.fixture
def masked(api: Api) -> Api:
    api.desk.masking = Masking([RULE])
    return api


def test_samples_come_as_events_until_so_many_came(api: Api) -> None:
    wrong = "ValueError: <b>no</b> \ud800"
    found = Tapped(api).look([sample("decode", '{"n":1}'), sample("act", None, became="failed", why=wrong)])
    assert [(each["stage"], each["became"], each["value"]) for each in found] == [
        ("decode", "passed", '{"n":1}'),
        ("act", "failed", None),
    ]
    assert found[1]["why"] == wrong
    assert (found[0]["topic"], found[0]["offset"], found[0]["timestamp"]) == ("orders-in", 7, 1_700_000_000_000)


def test_only_the_stages_that_were_asked_for(api: Api) -> None:
    tapped = Tapped(api)
    wishes = []
    tapped.instance.taps.open("orders", ["filter"], 5, 60).close()
    opened = tapped.instance.taps.open

    def noted(pipeline: str, stages: Any, per_second: float, seconds: float) -> Any:
        wishes.append((list(stages), per_second, seconds))
        return opened(pipeline, stages, per_second, seconds)

    tapped.instance.taps.open = noted  # type: ignore[method-assign]  # to see what it is asked
    tapped.look([sample("act", "{}")], "&stage=act&stage=decode&per_second=3")
    assert wishes == [(["decode", "act"], 3.0, 10.0)]


def test_stages_that_a_pipeline_does_not_have_take_no_share_of_the_samples(api: Api) -> None:
    tapped = Tapped(api, steps=False)
    wishes: list[Any] = []
    opened = tapped.instance.taps.open
    tapped.instance.taps.open = lambda *asked: (wishes.append(asked[1]), opened(*asked))[1]  # type: ignore[method-assign]  # to see what it is asked
    tapped.look([sample("act", "{}")])
    assert wishes == [["decode", "act"]]
    answer = api.ask("GET", "/pipelines/orders/tap?stage=filter&stage=transform", "viewer")
    assert (answer.status_code, answer.json()["detail"]) == (422, "orders has no such stage")


def test_rules_mask_fields_and_hide_what_may_have_moved(masked: Api) -> None:
    value = '{"card":"4111","items":[{"price":3,"n":1}],"id":9}'
    found = Tapped(masked).look(
        [
            sample("decode", value),
            sample("transform", value, as_read=False),
            sample("filter", value[:20], is_cut=True),
            sample("filter", '"4111"'),
            sample("decode", value, topic="others"),
        ]
    )
    assert json.loads(found[0]["value"]) == {"card": MASK, "items": [{"price": MASK, "n": 1}], "id": 9}
    assert [each["value"] for each in found[1:4]] == [MASK] * 3
    assert [each["masked"] for each in found] == [True, True, True, True, False]
    assert "4111" not in json.dumps(found[:4])
    assert found[4]["value"] == value


def test_values_of_other_formats_are_hidden_where_rules_apply(masked: Api) -> None:
    (found,) = Tapped(masked, format="text").look([sample("decode", '{"card":"4111"}')])
    assert found["value"] == MASK


def test_a_pipeline_that_runs_elsewhere_says_where_to_ask(api: Api) -> None:
    answer = api.ask("GET", "/pipelines/orders/tap", "viewer")
    assert (answer.status_code, answer.json()["code"]) == (409, "not_here")
    assert "an instance that runs it" in answer.json()["hint"]


def test_a_tap_is_bounded(api: Api) -> None:
    Tapped(api)
    for bad in ("seconds=301", "limit=100001", "per_second=1001", "per_second=0", "stage=nowhere", "seconds=x"):
        assert api.ask("GET", f"/pipelines/orders/tap?{bad}", "viewer").status_code == 422
    assert api.ask("GET", "/pipelines/nothing/tap", "viewer").status_code == 404


def test_why_an_event_failed_says_nothing_of_masked_fields(masked: Api) -> None:
    value, why = '{"card":"4111-CANARY","id":9}', "ValueError: no such card 4111-CANARY"
    found = Tapped(masked).look(
        [
            sample("act", value, became="failed", why=why),
            sample("act", value, became="failed", why=why, as_read=False),
            sample("decode", None, became="failed", why=why),
            sample("act", "no JSON 4111-CANARY", became="failed", why=why),
            sample("act", value, became="failed", why=why, topic="others"),
        ]
    )
    assert found[0]["why"] == f"ValueError: no such card {MASK}"
    assert [each["why"] for each in found[1:4]] == [UNTOLD] * 3
    assert "CANARY" not in json.dumps(found[:4])
    assert found[4]["why"] == why
