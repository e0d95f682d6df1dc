"""A user's own event source, written for DataHub Actions, in its lane: acknowledged through its own `ack` once an event
is settled, delivered again after a death, stopped in DataHub's order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.pipelines.runner import PipelineRunner
from penstock.service.validation import load_checked
from tests.support.catalogue import Call, Catalogue
from tests.support.engine import Engine
from tests.support.instance import PenstockProcess
from tests.support.waiting import until

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
WAIT_S = 150.0

SOURCES = '''
    import json, os, sqlite3, threading, time
    from pathlib import Path

    from datahub_actions.event.event_envelope import EventEnvelope
    from datahub_actions.event.event_registry import ENTITY_CHANGE_EVENT_V1_TYPE, EntityChangeEvent
    from datahub_actions.source.event_source import EventSource

    class FileQueue(EventSource):
        """A file of events; another remembers what was acknowledged. What was not comes again at the next start."""

        def __init__(self, folder, config):
            self.folder, self.config = folder, config
            self.running = False

        @classmethod
        def create(cls, config_dict, ctx):
            made = cls(Path(config_dict["folder"]), config_dict)
            made.note("created", ctx.pipeline_name)
            return made

        def note(self, *words):
            with open(self.folder / "log", "a") as log:
                log.write(" ".join(map(str, words)) + "\\n")

        def acked(self):
            lines = (self.folder / "log").read_text().splitlines()
            return {int(line.split()[1]) for line in lines if line.startswith("ack ")}

        def envelope(self, line):
            number = json.loads(line)["version"]
            event = EntityChangeEvent.from_json(line)
            return EventEnvelope(ENTITY_CHANGE_EVENT_V1_TYPE, event, {"queue": {"id": number}})

        def events(self):
            self.running, at, done = True, 0, self.acked()
            while self.running and not self.stop_requested():
                lines = (self.folder / "queue").read_text().splitlines()
                for line in lines[at:]:
                    at += 1
                    if at - 1 not in done:
                        self.note("gives", at - 1)
                        yield self.envelope(line)
                    if not self.running:
                        break
                self.after(at)
                time.sleep(0.02)
            self.note("ended")

        def after(self, at):
            """Called when the file is read to its end."""

        def ack(self, event, processed=True):
            number = event.meta["queue"]["id"]
            if number == self.config.get("refuses"):
                raise RuntimeError("no such message")
            if processed and "store" in self.config:
                self.note("stored", number, self.letters())
            self.note("ack" if processed else "later", number)

        def letters(self):
            with sqlite3.connect(self.config["store"]) as store:
                asked = "select count(*) from penstock_dead_letters where pipeline = ?"
                return store.execute(asked, [self.config["pipeline"]]).fetchone()[0]

        def close(self):
            self.note("source closed")

    class Finite(FileQueue):
        def after(self, at):
            self.running = False

    class Broken(FileQueue):
        def after(self, at):
            raise ValueError("the queue is corrupt")

    class Flaky(FileQueue):
        def after(self, at):
            mark = self.folder / "was away"
            if not mark.exists():
                mark.touch()
                raise ConnectionError("the queue is away")

    class OldStyle(FileQueue):
        """Ends only when it is closed, as sources of older days do."""

        def request_stop(self):
            pass

        def close(self):
            super().close()
            self.running = False

    class Deaf(FileQueue):
        """Waits for its next message for ever."""

        def after(self, at):
            threading.Event().wait()
'''
ACTIONS = '''
    import os, threading, time
    from pathlib import Path

    from datahub_actions.action.action import Action

    class Recorder(Action):
        """Does to an event what the configuration says for its number."""

        def __init__(self, config, ctx):
            self.log, self.config, self.ctx = Path(config["folder"]) / "log", config, ctx
            self.kept = []

        @classmethod
        def create(cls, config_dict, ctx):
            return cls(config_dict, ctx)

        def note(self, *words):
            with open(self.log, "a") as log:
                log.write(" ".join(map(str, words)) + "\\n")

        def act(self, event):
            number = str(event.event.version)
            how = self.config.get(number)
            if how == "kill":
                os._exit(1)
            if how == "hang":
                time.sleep(600)
            if how == "fail":
                raise ValueError(f"cannot act on {number}")
            if how == "later":
                threading.Thread(target=self.release, args=(event,), daemon=True).start()
                return False
            if how == "keep":
                self.kept.append(event)
                return False
            if how == "slow":
                self.note("begins", number)
                time.sleep(1.5)
            self.note("acts", number)

        def release(self, event):
            self.note("releases", event.event.version)
            self.ctx.event_source.ack(event, processed=True)

        def flush(self):
            self.note("flushed")
            for event in self.kept:
                self.ctx.event_source.ack(event)

        def close(self):
            self.note("action closed")
'''


class Site:
    """One pipeline with its queue and the log in which source and action write what happens to them."""

    def __init__(self, engine: Engine, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.engine, self.folder, self.name = engine, folder, name
        (folder / "queue").touch()
        engine.module("own_sources.py", SOURCES)
        engine.module("own_actions.py", ACTIONS)

    def put(self, count: int) -> None:
        with (self.folder / "queue").open("a") as queue:
            first = len((self.folder / "queue").read_text().splitlines())
            for number in range(first, first + count):
                queue.write(json.dumps(change(number)) + "\n")

    def document(self, source: str, *, action: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        own = more.pop("own", {})
        return {
            "name": self.name,
            "source": {"type": f"./own_sources.py:{source}", "config": {"folder": str(self.folder)} | own},
            "action": {"type": "own_actions:Recorder", "config": {"folder": str(self.folder)} | (action or {})},
            # A window on a crowded machine may take longer than the fifteen seconds of the default.
            "options": {"failed_events_dir": str(self.folder / "failed"), "drain_timeout": "90s"}
            | more.pop("options", {}),
        } | more

    def run(self, source: str, **more: Any) -> PipelineRunner:
        return self.engine.run(self.document(source, **more))

    @property
    def log(self) -> list[str]:
        file = self.folder / "log"
        return file.read_text().splitlines() if file.exists() else []

    def numbers(self, word: str) -> list[int]:
        return [int(line.split()[1]) for line in self.log if line.startswith(f"{word} ")]

    def wait(self, line: str, flow: PipelineRunner) -> None:
        until(lambda: line in self.log, WAIT_S, lambda: f"{line!r}: {flow.state} {flow.reason} {self.log[-20:]}")

    def wait_state(self, state: str, flow: PipelineRunner) -> None:
        until(lambda: flow.state == state, WAIT_S, lambda: f"{state}: {flow.state} {flow.reason} {self.log[-20:]}")


def change(number: int) -> dict[str, Any]:
    return {
        "entityType": "dataset",
        "entityUrn": f"urn:li:dataset:{number}",
        "category": "TAG",
        "operation": "ADD",
        "auditStamp": {"time": 1755000000000, "actor": "urn:li:corpuser:user1"},
        "version": number,
    }


@pytest.fixture
def site(engine: Engine, tmp_path: Path, request: pytest.FixtureRequest) -> Site:
    return Site(engine, tmp_path / "site", request.node.name.removeprefix("test_").replace("_", "-"))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(tmp_path_factory.mktemp("sources")) as running:
        yield running


def test_events_are_acknowledged_in_order_after_they_are_acted_on(site: Site) -> None:
    site.put(20)
    flow = site.run("FileQueue")
    site.wait("ack 19", flow)
    site.put(5)
    site.wait("ack 24", flow)
    site.engine.stop(flow)
    site.wait("source closed", flow)
    assert site.numbers("ack") == site.numbers("acts") == list(range(25))
    between = [line for line in site.log if line.split()[0] in ("gives", "acts", "ack")]
    # The next one is asked for when the one before is acknowledged, as in DataHub.
    assert between[:6] == ["gives 0", "acts 0", "ack 0", "gives 1", "acts 1", "ack 1"]
    assert site.log[-4:] == ["ended", "flushed", "action closed", "source closed"]
    assert flow.stats.summary().acted == 25
    assert (flow.state, flow.partition_statuses()) == ("stopped", [])


def test_a_failed_event_is_acknowledged_once_its_dead_letter_is_durable(site: Site) -> None:
    site.put(12)
    store = site.engine.settings.store_url.removeprefix("sqlite:///")
    flow = site.run("FileQueue", action={"3": "fail", "7": "fail"}, own={"store": store, "pipeline": site.name})
    site.wait("ack 11", flow)
    site.engine.stop(flow)
    letters = sorted(site.engine.dead_letters(site.name), key=lambda letter: letter.offset)
    assert site.numbers("ack") == list(range(12))
    assert site.numbers("acts") == [n for n in range(12) if n not in (3, 7)]
    # What the source saw in the store when the failed ones were acknowledged.
    stored = dict(line.split()[1:] for line in site.log if line.startswith("stored "))
    assert int(stored["3"]) >= 1
    assert int(stored["7"]) == 2
    assert [(letter.stage, letter.error_code, letter.partition) for letter in letters] == [("act", "ValueError", 0)] * 2
    kept = site.engine.store.dead_letters.get(letters[0].id)
    assert kept is not None
    envelope = {"event_type": "EntityChangeEvent_v1", "event": change(3), "meta": {"queue": {"id": 3}}}
    assert json.loads(kept.letter.value or b"") == envelope
    (failed_events,) = (site.folder / "failed").rglob("failed_events.log")
    lines = failed_events.read_text().splitlines()
    assert json.loads(lines[0]) == envelope
    assert len(lines) == 2


def test_a_deferred_event_is_acknowledged_by_the_plug_in_and_holds_those_behind_it(site: Site) -> None:
    site.put(8)
    action = {"2": "later", "5": "keep"}
    flow = site.run("FileQueue", action=action, own={"refuses": 1})
    site.wait("acts 7", flow)
    until(lambda: flow.stats.counts.failed_acks == 1, WAIT_S, lambda: str(site.log))
    # The other one may be released before `act` has returned: then it was never deferred.
    assert 5 in site.numbers("later")
    assert site.numbers("ack") == [0, 2, 3, 4], "nothing is acknowledged before the one that is kept"
    site.engine.stop(flow)
    site.wait("source closed", flow)
    # What `flush` releases still reaches the source; the source refused one, and the others did not wait for it.
    assert site.numbers("ack") == [0, 2, 3, 4, 5, 6, 7]
    assert site.engine.dead_letters(site.name) == []


def test_a_killed_worker_loses_nothing(site: Site) -> None:
    site.put(6)
    flow = site.run("FileQueue", action={"3": "slow"})
    site.wait("begins 3", flow)
    pid = _process_of(site, flow)
    os.kill(pid, signal.SIGKILL)
    site.wait("ack 5", flow)
    site.engine.stop(flow)
    assert site.numbers("ack") == list(range(6))
    assert site.numbers("gives") == [0, 1, 2, 3, 3, 4, 5], "what was acknowledged does not come again"
    assert [line for line in site.log if line.startswith("created")] == [f"created {site.name}"] * 2
    assert site.engine.dead_letters(site.name) == []


def test_an_event_that_kills_or_hangs_is_one_dead_letter(site: Site) -> None:
    site.put(8)
    flow = site.run("FileQueue", action={"2": "kill", "5": "hang"}, options={"timeout": "2s"})
    site.wait("ack 7", flow)
    site.engine.stop(flow)
    letters = sorted(site.engine.dead_letters(site.name), key=lambda letter: letter.offset)
    assert [letter.stage for letter in letters] == ["crash", "timeout"]
    assert site.numbers("ack") == list(range(8))
    assert site.numbers("acts") == [0, 1, 3, 4, 6, 7]


def test_a_source_that_ends_ends_its_pipeline(site: Site) -> None:
    site.put(3)
    flow = site.run("Finite", action={"2": "fail"})
    site.wait_state("stopped", flow)
    site.wait("source closed", flow)
    assert flow.reason == "its source has ended"
    assert site.numbers("ack") == [0, 1, 2], "the dead letter of the last one is settled before the source is closed"
    assert len(site.engine.dead_letters(site.name)) == 1
    site.engine.stop(flow)


def test_a_source_that_raises_fails_its_pipeline_and_no_other(site: Site, tmp_path: Path) -> None:
    beside = Site(site.engine, tmp_path / "beside", f"{site.name}-beside")
    beside.put(2)
    good = beside.run("Flaky", action={"1": "fail"})
    site.put(2)
    flow = site.run("Broken")
    site.wait_state("failed", flow)
    assert "the queue is corrupt" in (flow.reason or "")
    site.wait("source closed", flow)
    assert site.numbers("ack") == [0, 1]
    beside.put(2)
    beside.wait("ack 3", good)
    assert beside.numbers("ack") == [0, 1, 2, 3], "an outage of the source is waited out"
    assert len(site.engine.dead_letters(beside.name)) == 1, "what was settled before it is not repeated"
    for each in (flow, good):
        site.engine.stop(each)


def test_throw_stops_at_the_event_and_does_not_acknowledge_it(site: Site) -> None:
    site.put(4)
    flow = site.run("FileQueue", action={"2": "fail"}, options={"failure_mode": "THROW"})
    site.wait_state("failed", flow)
    site.wait("source closed", flow)
    site.engine.stop(flow)
    assert site.numbers("ack") == [0, 1]
    assert len(site.engine.dead_letters(site.name)) == 1


def test_sources_that_do_not_know_how_to_stop_are_stopped(site: Site, tmp_path: Path) -> None:
    deaf = Site(site.engine, tmp_path / "deaf", f"{site.name}-deaf")
    site.put(2)
    deaf.put(2)
    both = [(site, site.run("OldStyle")), (deaf, deaf.run("Deaf"))]
    for each, flow in both:
        each.wait("gives 1", flow)
    held = _process_of(site, both[1][1])
    for each, flow in both:
        each.engine.stop(flow)
    site.wait("ended", both[0][1])
    assert site.log[-4:] == ["flushed", "action closed", "source closed", "ended"]
    deaf.wait("source closed", both[1][1])
    # Its thread never comes back: the process that holds it goes.
    until(lambda: not _is_alive(held), WAIT_S, lambda: f"{held} lives")


def test_sigterm_stops_sources_in_order_and_exits_well(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "queue").write_text("".join(json.dumps(change(number)) + "\n" for number in range(3)))
    (tmp_path / "own_sources.py").write_text(textwrap.dedent(SOURCES))
    (tmp_path / "own_actions.py").write_text(textwrap.dedent(ACTIONS))
    document = {
        "name": "terminated",
        "source": {"type": "own_sources:FileQueue", "config": {"folder": str(folder)}},
        "action": {"type": "own_actions:Recorder", "config": {"folder": str(folder), "2": "keep"}},
        "options": {"failed_events_dir": str(tmp_path / "failed")},
    }
    (tmp_path / "pipeline.json").write_text(json.dumps(document))
    log = folder / "log"
    with PenstockProcess(["run", tmp_path / "pipeline.json"], folder=tmp_path / "run") as running:
        until(lambda: log.exists() and "later 2" in log.read_text(), WAIT_S, lambda: running.log[-2000:])
        assert running.stop() == 0
    assert log.read_text().splitlines()[-5:] == ["ended", "flushed", "ack 2", "action closed", "source closed"]


class Cloud(Catalogue):
    """Three platform events to poll, and nothing after them."""

    def _answer(self, call: Call) -> Any:
        if not call.path.startswith(_POLL):
            return super()._answer(call)
        payloads = [{"value": json.dumps(change(n)), "contentType": "application/json"} for n in range(3)]
        events = [{"name": "entityChangeEvent", "header": {"timestampMillis": 1}, "payload": p} for p in payloads]
        given = [{"contentType": "application/json", "value": json.dumps(event)} for event in events]
        if sum(each.path.startswith(_POLL) for each in self.calls) > 1:
            given = []
        return {"offsetId": "offset-3", "count": len(given), "events": given}


_POLL = "/openapi/v1/events/poll"


def test_the_cloud_source_of_datahubs_package_runs_and_ends(tmp_path: Path) -> None:
    subprocess.run(["make", "--silent", "setup-datahub"], cwd=ROOT, check=True, timeout=600)
    out = tmp_path / "out.jsonl"
    with Cloud() as cloud:
        document = {
            "name": "cloudy",
            "datahub": {"server": cloud.url, "token": "t0ken"},
            "source": {
                "type": "datahub-cloud",
                "config": {"kill_after_idle_timeout": True, "idle_timeout_duration_seconds": 1, "reset_offsets": True},
            },
            "action": {"type": "file", "config": {"path": str(out)}},
            "options": {"failed_events_dir": str(tmp_path / "failed")},
        }
        (tmp_path / "pipeline.json").write_text(json.dumps(document))
        run = PenstockProcess(
            ["run", tmp_path / "pipeline.json", "--json"],
            folder=tmp_path / "run",
            env={"DATAHUB_TELEMETRY_ENABLED": "false"},
            executable=ROOT / ".cache" / "datahub" / "bin" / "penstock",
        )
        with run as running:
            assert running.wait(2 * WAIT_S) == 0
        assert running.summary()["pipelines"]["cloudy"]["acted"] == 3
        kept = [each for each in cloud.proposals() if each["aspectName"] == "platformResourceInfo"]
    assert [json.loads(line)["event"]["version"] for line in out.read_text().splitlines()] == [0, 1, 2]
    # All were acknowledged, so the source keeps its place when it is closed.
    assert "offset-3" in str(kept)


def test_a_source_that_is_not_there_is_a_problem_of_its_key(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    text = "name: p\nsource:\n  type: {}\n  config: {{poll_interval_seconds: 2}}\naction: {{type: hello_world}}\n"
    file.write_text(text.format("pg_queue"))
    loaded = load_checked([file])
    assert [(problem.line, problem.path) for problem in loaded.problems] == [(3, "source.type")]
    assert "install penstock[datahub]" in str(loaded.problems[0])
    assert [(warning.line, warning.path) for warning in loaded.warnings] == [(4, "source.config.poll_interval_seconds")]
    (tmp_path / "mine.py").write_text(textwrap.dedent(SOURCES))
    file.write_text(text.format("mine:FileQueue").replace("hello_world", "kafka, config: {topic: t}"))
    (problem,) = load_checked([file]).problems
    assert (problem.path, problem.line) == ("action.config.connection", 5)
    file.write_text(text.format("pathlib:Path"))
    (problem,) = load_checked([file]).problems
    assert "does not extend EventSource" in str(problem)


def _process_of(site: Site, flow: PipelineRunner) -> int:
    """Of the one lane that has the pipeline."""
    dispatcher = site.engine.instance.dispatcher
    (lane,) = dispatcher.lanes_of(flow)
    process = dispatcher.lanes[lane].worker._process
    assert process is not None
    return process.pid


def _is_alive(pid: int | None) -> bool:
    return pid is not None and Path(f"/proc/{pid}").exists()
