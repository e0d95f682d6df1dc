"""The console over three hundred pipelines and a million dead letters: how soon the home page is there, what three of
them cost, and how long lists take by any filter."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any, Final

import httpx
import orjson
from playwright.sync_api import Browser, expect
from tests.support.browser import chromium
from tests.support.instance import PenstockProcess
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

from bench.engine.rig import SINK, Rig, Usage
from bench.report import Bar, Result
from bench.store.letters import fill, filters, hard_filters
from penstock.store import Store

PIPELINES: Final = 300
LETTERS: Final = 1_000_000
COPIES: Final = 10
LOADS: Final = 20
TABS: Final = 3
SECONDS: Final = 60
_ROUNDS: Final = 5
_LISTS: Final = {
    "pipelines": "/api/v1/pipelines",
    "pipelines, by name": "/api/v1/pipelines?text=pipeline-29",
    "work orders": "/api/v1/work-orders",
    "audit": "/api/v1/audit",
}


def console(rig: Rig, _: Namespace) -> list[Result]:
    """Home page, lists and cost of the console with 300 pipelines and 1,000,000 dead letters in PostgreSQL."""
    topics = rig.topics("console", PIPELINES, 1)
    folder = rig.folder / "pipelines"
    folder.mkdir()
    for number, topic in enumerate(topics):
        source = {"connection": {"bootstrap": rig.broker.bootstrap}, "topics": [topic], "format": "json"}
        spec = {
            "name": f"pipeline-{number}",
            "source": {"type": "kafka", "config": source},
            "action": {"type": "python", "config": {"callable": f"{SINK}:timed"}},
        }
        (folder / f"{number}.yaml").write_bytes(orjson.dumps(spec))
    with _store() as url:
        sink = rig.folder / "sink"
        sink.mkdir()
        env = {"BENCH_SINK": str(sink), "PENSTOCK_HOME": str(rig.home), "PENSTOCK_STORE_URL": url}
        with PenstockProcess(["run", folder], folder=rig.folder / "run", env=env) as process:
            process.wait_ready(300)
            until(lambda: _listed(process) == PIPELINES, 120, lambda: f"{_listed(process)} pipelines are listed")
            alone = _usage(process)
            with chromium() as browser:
                loaded = _loads(browser, process.url)
                with ExitStack() as tabs:
                    for _number in range(TABS):
                        tabs.enter_context(_tab(browser, process.url))
                    watched = _usage(process)
            again = _usage(process)
            lists = _lists(process)
            process.stop(120)
    return [_home(loaded), _cost(alone, watched, again), lists]


@contextmanager
def _store() -> Iterator[str]:
    with PostgresServer(shared_buffers="512MB") as server:
        url = server.create_database()
        with Store.open(url) as store:
            fill(store, LETTERS, COPIES)
        yield url


def _listed(process: PenstockProcess) -> int:
    return len(process.get("/api/v1/pipelines?limit=1000").json()["items"])


def _usage(process: PenstockProcess) -> float:
    usage = Usage(process)
    time.sleep(SECONDS)  # what is measured
    return float(usage.close()["cpu_percent_of_a_core"])


@contextmanager
def _tab(browser: Browser, url: str) -> Iterator[Any]:
    context = browser.new_context()
    page = context.new_page()
    page.goto(url)
    expect(page.get_by_role("link", name="pipeline-0", exact=True)).to_be_visible(timeout=30_000)
    yield page
    context.close()


def _loads(browser: Browser, url: str) -> list[float]:
    """Milliseconds from the navigation to the rows, each in a browser without a cache."""
    taken = []
    for _ in range(LOADS):
        began = time.perf_counter()
        with _tab(browser, url):
            taken.append(1000 * (time.perf_counter() - began))
    return sorted(taken)


def _home(taken: list[float]) -> Result:
    figures = {
        "p50_ms": round(taken[len(taken) // 2]),
        "p95_ms": round(taken[int(len(taken) * 0.95) - 1]),
        "slowest_ms": round(taken[-1]),
    }
    what = (
        f"From the navigation to visible rows in Chromium on the same machine, {LOADS} loads without a cache; "
        f"{PIPELINES} pipelines run, {LETTERS:,} dead letters in PostgreSQL."
    )
    return Result(name="home page", what=what, figures=figures, bars=[Bar(figure="p95_ms", at_most=1_500)])


def _cost(alone: float, watched: float, again: float) -> Result:
    figures = {
        "cpu_percent_without": alone,
        "cpu_percent_with_tabs": watched,
        "cpu_percent_without_again": again,
        "console_cpu_percent": round(watched - (alone + again) / 2, 1),
    }
    what = (
        f"All processes of the instance over {SECONDS} s: nobody looks, {TABS} home pages are open, nobody looks. "
        "The browser is not counted."
    )
    bars = [Bar(figure="console_cpu_percent", at_most=5)]
    return Result(name="cost of the console", what=what, figures=figures, bars=bars)


def _lists(process: PenstockProcess) -> Result:
    asked: dict[str, str] = dict(_LISTS)
    for name, which in (filters(LETTERS, LETTERS // COPIES) | hard_filters(LETTERS)).items():
        given = httpx.QueryParams({key: str(value) for key, value in asdict(which).items() if value is not None})
        asked[f"dead letters, {name}"] = f"/api/v1/dead-letters?{given}"
        asked[f"facets, {name}"] = f"/api/v1/dead-letters/facets?{given}"
    figures, problems = {}, []
    # One client: making one takes as long as most answers.
    with httpx.Client(base_url=process.url, timeout=30) as client:
        for name, path in asked.items():
            taken = []
            for _ in range(_ROUNDS):
                began = time.perf_counter()
                answer = client.get(path)
                taken.append(1000 * (time.perf_counter() - began))
                if not answer.is_success:
                    problems.append(f"{name}: {answer.status_code} {answer.text[:200]}")
                    break
            figures[f"{name}: ms"] = round(max(taken), 1)
    what = f"Lists of the API as a client sees them, the slowest of {_ROUNDS} times."
    bars = [Bar(figure=figure, at_most=300) for figure in figures]
    return Result(name="lists of the API", what=what, figures=figures, bars=bars, problems=problems)
