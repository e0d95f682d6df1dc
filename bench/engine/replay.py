"""How fast dead letters are replayed: from the store through a no-op function and back, marks included."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.instance import PenstockProcess
from tests.support.postgres import PostgresServer

from bench.engine.rig import Rig
from bench.engine.seen import Seen
from bench.report import Bar, Result
from penstock.core.dead_letter import DeadLetter, Failure
from penstock.store import Store

PARTITIONS = 4
_PAGE = 5_000


def replay(rig: Rig, options: Namespace) -> list[Result]:
    """Dead letters of four partitions, from SQLite and from PostgreSQL."""
    results = []
    for name, kept in (("SQLite", _sqlite), ("PostgreSQL", _postgres)):
        with kept(rig) as url:
            results.append(_measured(rig, name, url, options.letters))
    return results


@contextmanager
def _sqlite(rig: Rig) -> Iterator[str]:
    yield f"sqlite:///{rig.folder / 'letters.db'}"


@contextmanager
def _postgres(rig: Rig) -> Iterator[str]:  # noqa: ARG001 - the same shape
    # As a server is run, not as the tests run theirs.
    with PostgresServer(fsync="on") as server:
        yield server.create_database()


def _measured(rig: Rig, store_name: str, url: str, letters: int) -> Result:
    stem = f"replay-{store_name.lower()}"
    pipelines = rig.pipelines(stem, ["letters"], "counted")
    pipeline = f"{stem}-letters"
    with Store.open(url) as store:
        for first in range(0, letters, _PAGE):
            store.dead_letters.record([_letter(pipeline, n) for n in range(first, min(first + _PAGE, letters))])
    sink = rig.folder / f"{stem}-sink"
    sink.mkdir()
    command = ["dead-letters", "replay", "--pipeline", pipeline, "--config", pipelines, "--yes", "--json"]
    env = {"BENCH_SINK": str(sink), "PENSTOCK_HOME": str(rig.home), "PENSTOCK_STORE_URL": url}
    problems = []
    with PenstockProcess(command, folder=rig.folder / f"{stem}-run", env=env) as process:
        code = process.wait(120 + letters / 1_000)
        if code != 0:
            raise RuntimeError(f"penstock ended with {code}: {process.stdout[-1500:]}\n{process.log[-1500:]}")
        ended = process.summary()["pipelines"][pipeline]
    seen = Seen(sink).count()
    if seen != letters or ended["replayed"] != letters:
        problems.append(f"of {letters:,} letters the sink saw {seen:,}, and {ended['replayed']:,} are marked")
    figures = {
        "letters": ended["replayed"],
        "letters_per_s": round(ended["replayed"] / ended["seconds"]),
        "seconds": ended["seconds"],
    }
    what = (
        f"{letters:,} letters of 300 B in {PARTITIONS} partitions, from {store_name}; claimed, acted on by a no-op "
        "function and marked with their histories, from the first window to the last mark."
    )
    bars = [Bar(figure="letters_per_s", at_least=5_000)]
    return Result(name=f"replay from {store_name}", what=what, figures=figures, bars=bars, problems=problems)


def _letter(pipeline: str, number: int) -> DeadLetter:
    now = 1_790_000_000_000 + number
    failure = Failure(
        stage="act",
        error_code="ValueError",
        error_class="builtins.ValueError",
        error=f"order {number} is refused",
        traceback="Traceback (most recent call last): ...",
        fingerprint="f0f0f0f0f0f0f0f0",
        attempts=1,
        first_failed_at=now,
        last_failed_at=now,
    )
    return DeadLetter(
        pipeline=pipeline,
        spec_version="v1",
        group=pipeline,
        topic="letters",
        topic_id="bench",
        partition=number % PARTITIONS,
        offset=number // PARTITIONS,
        key=b"%d" % number,
        value=b'{"n": %d, "pad": "%s"}' % (number, b"x" * 270),
        headers=[("trace", b"1")],
        timestamp=now,
        timestamp_type=1,
        failure=failure,
    )
