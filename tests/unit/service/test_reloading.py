"""Jobs of another system are looked at again: only those that have changed are restarted."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.loading import Loaded, load
from penstock.config.spec import PipelineSpec
from penstock.service.reloading import Reloader

NATIVE = "name: native\nsource: {config: {topics: [a]}}\naction: {type: hello_world}\n"
ENVIRON = {"WHZ_DB_URL": "sqlite:////nowhere.db"}


def job(group: str, topic: str = "A") -> str:
    return (
        f"job.type=kafka\ngroup.id={group}\nschemaRegistryUrl=http://r\nbootstrap.servers=b:9092\n"
        f"kafka.topics={topic}\nkafka.processors=gobblin-compaction\nkafka.db.tables=t\n"
    )


class Noted:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.told = 0

    def take(self, spec: PipelineSpec, loaded: Loaded) -> None:
        self.done.append(f"take {spec.name} {spec.source.config.topics}")

    def drop(self, name: str) -> None:
        self.done.append(f"drop {name}")

    def tell(self, loaded: Loaded) -> None:
        self.told = len(loaded.problems)

    def since(self) -> list[str]:
        done, self.done = self.done, []
        return done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "native.yaml").write_text(NATIVE)
    for name in ("one", "two"):
        (tmp_path / f"{name}.job").write_text(job(name))
    return tmp_path


def loaded(paths: object) -> Loaded:
    return load([paths] if isinstance(paths, Path) else list(paths), dict(ENVIRON))  # type: ignore[call-overload]


def test_only_what_has_changed_is_restarted(folder: Path) -> None:
    noted = Noted()
    reloader = Reloader([folder], loaded(folder), noted, loaded, 60.0)
    reloader.look()
    assert noted.since() == []
    (folder / "one.job").write_text(job("one", "B"))
    (folder / "native.yaml").write_text(NATIVE.replace("[a]", "[b]"))
    (folder / "three.job").write_text(job("three"))
    reloader.look()
    assert noted.since() == ["drop one", "take one ['B']", "take three ['A']"]
    reloader.look()
    assert noted.since() == []
    (folder / "two.job").unlink()
    reloader.look()
    assert noted.since() == ["drop two"]


def test_a_job_that_cannot_be_read_goes_on_as_it_was(folder: Path) -> None:
    noted = Noted()
    reloader = Reloader([folder], loaded(folder), noted, loaded, 60.0)
    (folder / "one.job").write_text(job("one").replace("group.id", "gruppe.id"))
    (folder / "two.job").unlink()
    reloader.look()
    assert (noted.since(), noted.told) == ([], 1)
    (folder / "one.job").write_text(job("one"))
    reloader.look()
    assert (noted.since(), noted.told) == (["drop two"], 0)


def test_it_ends_at_once(folder: Path) -> None:
    reloader = Reloader([folder], loaded(folder), Noted(), loaded, 3600.0)
    reloader.stop(1.0)
    reloader.start()
    reloader.stop(30.0)
    assert not reloader.is_alive()


def test_only_files_of_jobs_are_another_systems(folder: Path) -> None:
    assert loaded(folder).has_jobs
    assert not loaded(folder / "native.yaml").has_jobs
    (folder / "bad.job").write_text("job.type=kafka\n")
    assert loaded(folder / "bad.job").has_jobs
