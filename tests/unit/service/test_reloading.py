"""Files and jobs are looked at again: only what has changed is restarted, and what cannot be used changes nothing."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from watchfiles import Change

from penstock.config.loading import Loaded, load
from penstock.config.spec import PipelineSpec
from penstock.service.reloading import Reloader, Watched
from tests.support.waiting import until

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
        self.stale: Mapping[str, str] = {}

    def take(self, spec: PipelineSpec, loaded: Loaded) -> None:
        self.done.append(f"take {spec.name} {spec.source.config.topics}")

    def drop(self, name: str) -> None:
        self.done.append(f"drop {name}")

    def tell(self, loaded: Loaded, stale: Mapping[str, str]) -> None:
        self.told, self.stale = len(loaded.problems), stale

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


@pytest.fixture
def noted() -> Noted:
    return Noted()


@pytest.fixture
def reloader(folder: Path, noted: Noted) -> Iterator[Reloader]:
    made = Reloader([folder], loaded(folder), noted, loaded, 3600.0)
    yield made
    made.stop(30.0)
    assert not made.is_alive()


def test_only_what_has_changed_is_restarted(folder: Path, noted: Noted, reloader: Reloader) -> None:
    reloader.look()
    assert noted.since() == []
    (folder / "one.job").write_text(job("one", "B"))
    (folder / "native.yaml").write_text(NATIVE.replace("[a]", "[b]"))
    (folder / "three.job").write_text(job("three"))
    reloader.look()
    assert sorted(noted.since()) == ["take native ['b']", "take one ['B']", "take three ['A']"]
    reloader.look()
    assert noted.since() == []
    (folder / "two.job").unlink()
    (folder / "native.yaml").unlink()
    reloader.look()
    assert sorted(noted.since()) == ["drop native", "drop two"]


def test_a_comment_or_another_order_of_keys_restarts_nothing(folder: Path, noted: Noted, reloader: Reloader) -> None:
    lines = NATIVE.splitlines(keepends=True)
    (folder / "native.yaml").write_text("# as before\n" + "".join(reversed(lines)))
    reloader.look()
    assert noted.since() == []


def test_a_job_that_cannot_be_read_goes_on_as_it_was(folder: Path, noted: Noted, reloader: Reloader) -> None:
    (folder / "one.job").write_text(job("one").replace("group.id", "gruppe.id"))
    (folder / "two.job").unlink()
    reloader.look()
    assert (noted.since(), noted.told) == ([], 1)
    (folder / "one.job").write_text(job("one"))
    reloader.look()
    assert (noted.since(), noted.told) == (["drop two"], 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (NATIVE.replace("hello_world", "[unclosed"), "native.yaml:3"),
        (NATIVE.replace("action:", "acton:"), "did you mean 'action'?"),
        ("- a\n- list\n", "a map with name"),
    ],
)
def test_a_file_that_cannot_be_used_leaves_its_pipeline_running(
    text: str, said: str, folder: Path, noted: Noted, reloader: Reloader
) -> None:
    (folder / "native.yaml").write_text(text)
    (folder / "other.yaml").write_text(NATIVE.replace("native", "other"))
    reloader.look()
    assert noted.since() == ["take other ['a']"]
    assert noted.told >= 1
    assert said in noted.stale["native"]
    (folder / "other.yaml").unlink()
    reloader.look()
    assert noted.since() == ["drop other"]
    (folder / "native.yaml").write_text(NATIVE.replace("[a]", "[c]"))
    reloader.look()
    assert (noted.since(), noted.told, noted.stale) == (["take native ['c']"], 0, {})


def test_a_file_may_get_another_name(folder: Path, noted: Noted, reloader: Reloader) -> None:
    (folder / "native.yaml").rename(folder / "renamed.yaml")
    reloader.look()
    assert noted.since() == []
    (folder / "renamed.yaml").write_text(NATIVE.replace("action:", "acton:"))
    reloader.look()
    assert noted.since() == [], "it goes on as it was, by its new file"
    assert "renamed.yaml" in noted.stale["native"]


def test_a_copy_under_another_name_does_not_take_the_place_of_what_runs(
    folder: Path, noted: Noted, reloader: Reloader
) -> None:
    """`native-old.yaml` comes before `native.yaml` where files are sorted."""
    copy = folder / "native-old.yaml"
    copy.write_text(NATIVE.replace("[a]", "[old]"))
    reloader.look()
    assert noted.since() == []
    assert "is taken by" in noted.stale["native"]
    copy.unlink()
    reloader.look()
    assert (noted.since(), noted.told, noted.stale) == ([], 0, {})
    copy.write_text(NATIVE.replace("[a]", "[old]"))
    (folder / "native.yaml").unlink()
    reloader.look()
    assert noted.since() == ["take native ['old']"], "it is the only one now"


def test_one_of_two_documents_may_be_bad(folder: Path, noted: Noted, reloader: Reloader) -> None:
    second = NATIVE.replace("native", "second")
    (folder / "native.yaml").write_text(f"{NATIVE}---\n{second}")
    reloader.look()
    assert noted.since() == ["take second ['a']"]
    (folder / "native.yaml").write_text(f"{NATIVE.replace('[a]', '[b]')}---\n{second.replace('topics', 'topcs')}")
    reloader.look()
    assert noted.since() == ["take native ['b']"]
    assert list(noted.stale) == ["second"]


def test_it_sees_changes_by_itself(folder: Path, noted: Noted, reloader: Reloader) -> None:
    reloader.start()
    # Until it watches, a change may pass unseen: the file is replaced, as editors do, until it is seen.
    turn = iter(range(1000))

    def changed() -> list[str]:
        fresh = folder / ".fresh"
        fresh.write_text(NATIVE.replace("[a]", f"[b{next(turn)}]"))
        fresh.rename(folder / "native.yaml")
        return noted.done

    until(changed, 30, "nothing was taken", every_s=1.0)
    assert all(done.startswith("take native") for done in noted.since())


def test_a_folder_that_cannot_be_watched_is_looked_at(folder: Path, noted: Noted) -> None:
    paths = [folder / "sub" / "late.yaml"]
    reloader = Reloader(paths, Loaded(), noted, loaded, 0.05)
    reloader.start()
    try:
        until(lambda: noted.told == 1, 10, "no look")
        paths[0].parent.mkdir()
        paths[0].write_text(NATIVE)
        until(lambda: noted.done == ["take native ['a']"], 10, lambda: noted.done)
    finally:
        reloader.stop(10.0)


def test_a_folder_that_is_away_for_a_moment_stops_nothing(tmp_path: Path, noted: Noted) -> None:
    folder, aside = tmp_path / "pipelines", tmp_path / "aside"
    folder.mkdir()
    (folder / "native.yaml").write_text(NATIVE)
    reloader = Reloader([folder], loaded(folder), noted, loaded, 3600.0)
    folder.rename(aside)
    reloader.look()
    assert noted.since() == []
    assert "no such file or folder" in noted.stale["native"]
    aside.rename(folder)
    reloader.look()
    assert (noted.since(), noted.told, noted.stale) == ([], 0, {})
    (folder / "native.yaml").unlink()
    reloader.look()
    assert noted.since() == ["drop native"], "an empty folder says that there is no pipeline"


def test_a_folder_that_was_made_anew_is_seen(tmp_path: Path, noted: Noted) -> None:
    """As `git` and `rsync` do it: the folder that is watched is no more."""
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (folder / "native.yaml").write_text(NATIVE)
    reloader = Reloader([folder], loaded(folder), noted, loaded, 0.2)
    (folder / "native.yaml").write_text(NATIVE.replace("[a]", "[b]"))
    reloader.start()
    try:
        until(lambda: noted.done == ["take native ['b']"], 20, "what changed before the watch began is not seen")
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / "native.yaml").write_text(NATIVE.replace("[a]", "[c]"))
        until(lambda: noted.done[-1:] == ["take native ['c']"], 20, lambda: noted.done)
        (folder / "native.yaml").write_text(NATIVE.replace("[a]", "[dd]"))
        until(lambda: noted.done[-1:] == ["take native ['dd']"], 20, lambda: noted.done)
    finally:
        reloader.stop(10.0)


def test_a_configmap_is_seen_as_kubernetes_changes_it(tmp_path: Path, noted: Noted) -> None:
    """Files are links through `..data`, a link that is replaced as a whole."""
    folder = tmp_path / "mounted"
    for number, topic in ((1, "a"), (2, "b")):
        (folder / f"..{number}").mkdir(parents=True)
        (folder / f"..{number}" / "native.yaml").write_text(NATIVE.replace("[a]", f"[{topic}]"))
    (folder / "..data").symlink_to("..1")
    (folder / "native.yaml").symlink_to("..data/native.yaml")
    reloader = Reloader([folder], loaded(folder), noted, loaded, 3600.0)
    turn = iter(range(1000))
    reloader.start()

    def swapped() -> list[str]:
        # Until it watches, a change may pass unseen.
        (folder / "..data_tmp").symlink_to("..2" if next(turn) % 2 == 0 else "..1")
        (folder / "..data_tmp").rename(folder / "..data")
        return noted.done

    try:
        until(swapped, 30, "the new files are not seen", every_s=1.5)
    finally:
        reloader.stop(10.0)
    assert noted.done[0] == "take native ['b']"


def test_jobs_are_looked_at_in_a_folder_in_which_something_is_written_all_the_time(folder: Path, noted: Noted) -> None:
    """A log, or the database that the jobs come from."""
    looks, busy = [], folder / "busy.log"

    def counted(paths: object) -> Loaded:
        looks.append(time.monotonic())
        return loaded(paths)

    made = Reloader([folder], loaded(folder), noted, counted, 0.3)
    made.start()

    def looked() -> bool:
        busy.write_text(str(time.monotonic()))
        return len(looks) >= 2

    until(looked, 60, "it looks though the folder is never quiet", every_s=0.02)
    made.stop(30.0)


def test_what_could_not_be_looked_at_is_looked_at_again(tmp_path: Path, noted: Noted) -> None:
    (tmp_path / "native.yaml").write_text(NATIVE)
    looks: list[int] = []

    def flaky(paths: object) -> Loaded:
        looks.append(1)
        if len(looks) == 1:
            raise OSError("the disk is away")
        return loaded(paths)

    reloader = Reloader([tmp_path], Loaded(), noted, flaky, 0.2)
    reloader.start()
    try:
        until(lambda: (tmp_path / "native.yaml").write_text(NATIVE) and looks, 20, "no look", every_s=0.5)
        until(lambda: noted.done == ["take native ['a']"], 20, lambda: (looks, noted.done))
    finally:
        reloader.stop(10.0)


def test_it_ends_at_once(folder: Path) -> None:
    reloader = Reloader([folder], loaded(folder), Noted(), loaded, 3600.0)
    reloader.stop(1.0)
    reloader.start()
    reloader.stop(30.0)
    assert not reloader.is_alive()


@pytest.mark.parametrize(
    ("name", "matters"),
    [
        ("folder/orders.yaml", True),
        ("folder/..data", True),
        ("folder/out.jsonl", False),
        ("folder/penstock.yaml", False),
        ("folder/orders.test.yaml", False),
        ("folder/.orders.yaml.swp", False),
        ("alone.yaml", True),
        ("other.yaml", False),
    ],
)
def test_only_pipeline_files_matter(name: str, matters: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a case
    (tmp_path / "folder").mkdir()
    watched = Watched([tmp_path / "folder", tmp_path / "alone.yaml", "https://example.org/pipeline.yaml"])
    assert watched.folders == [tmp_path, tmp_path / "folder"]
    assert watched.concerns(Change.modified, str(tmp_path / name)) is matters


def test_only_files_of_jobs_are_another_systems(folder: Path) -> None:
    assert loaded(folder).has_jobs
    assert not loaded(folder / "native.yaml").has_jobs
    (folder / "bad.job").write_text("job.type=kafka\n")
    assert loaded(folder / "bad.job").has_jobs
