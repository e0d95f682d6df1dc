"""Fixtures every test may ask for, and the rule that nothing is skipped in silence."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.support.certs import make_certificates
from tests.support.children import CHILDREN
from tests.support.kafka import KafkaBroker, Security
from tests.support.registry import RegistryServer

SKIP = frozenset(name.strip() for name in os.environ.get("PENSTOCK_TEST_SKIP", "").split(",") if name.strip())
"""Pieces this machine cannot have (`kafka`, `postgres`, `registry`, `spark`): tests that need one are skipped."""

_PIECE_OF_FIXTURE = {
    "kafka": "kafka",
    "secure_kafka": "kafka",
    "topic": "kafka",
    "postgres": "postgres",
    "apicurio_url": "registry",
}
_numbers = itertools.count(1)

# How long an example takes says more of the machine than of the code.
hypothesis.settings.register_profile(
    "penstock", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], print_blob=True
)
hypothesis.settings.load_profile("penstock")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "registry: needs a real schema registry (Apicurio)")


_LONGEST_FIRST = ("engine", "promises", "faces", "compat", "behaviour", "deploy", "docs", "unit")
"""Folders: two processes share the run, and short files at its end let both finish together."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the pieces their fixtures need, and skip those that PENSTOCK_TEST_SKIP names."""
    items.sort(key=_rank)
    for item in items:
        names = getattr(item, "fixturenames", ())
        needed = {_PIECE_OF_FIXTURE[name] for name in names if name in _PIECE_OF_FIXTURE}
        needed |= {mark.name for mark in item.iter_markers() if mark.name in ("kafka", "postgres", "registry", "spark")}
        for piece in needed:
            item.add_marker(piece)
            if piece in SKIP:
                item.add_marker(pytest.mark.skip(reason=f"PENSTOCK_TEST_SKIP names {piece}"))


def _rank(item: pytest.Item) -> int:
    here = Path(__file__).parent
    folder = item.path.relative_to(here).parts[0] if item.path.is_relative_to(here) else ""
    return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)


_LEFT: list[str] = []
"""Processes that outlived their tests, told by the processes that share the run."""


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _LEFT.extend(getattr(node, "workeroutput", {}).get("left", ()))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process that outlives its test is a failure of the run."""
    left = CHILDREN.left()
    CHILDREN.close()
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left"] = left
    elif left := [*left, *_LEFT]:
        sys.stderr.write(f"\nleft running by the tests: {', '.join(left)}\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def penstock_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Penstock home of the test's own; no setting of the developer's environment is seen."""
    for name in [name for name in os.environ if name.startswith("PENSTOCK_") and not name.startswith("PENSTOCK_TEST_")]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    monkeypatch.setenv("PENSTOCK_HOME", str(home))
    return home


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """One plain broker for the whole run; a test that stops or kills a broker starts a `KafkaBroker` of its own."""
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def secure_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker with SASL (PLAIN, SCRAM), TLS and mTLS listeners; user `app`, password `s3cret-app`."""
    users = {"app": "s3cret-app"}
    security = Security(users, make_certificates(tmp_path_factory.mktemp("certificates")))
    with KafkaBroker(security=security) as broker:
        for user, password in users.items():
            broker.add_scram_user(user, password)
        yield broker


@pytest.fixture
def topic(kafka: KafkaBroker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Make a topic with a name nobody else uses: `topic(partitions=4, config={…})`."""
    stem = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:60]

    def make(partitions: int = 1, config: dict[str, str] | None = None) -> str:
        return kafka.create_topic(f"{stem}-{os.getpid()}-{next(_numbers)}", partitions, config)

    return make


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    """A schema registry of the test's own, with faults to switch on."""
    with RegistryServer() as server:
        yield server


@pytest.fixture(scope="session")
def apicurio_url() -> Iterator[str]:
    """Apicurio's Confluent API, one process for the whole run."""
    from tests.support.apicurio import Apicurio  # noqa: PLC0415 - needs a Java of its own, which a skipping machine lacks

    with Apicurio() as server:
        yield server.url
