"""Watches the files that pipelines come from, and restarts those that have changed; jobs that another system manages
are looked at again now and then."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog
from watchfiles import Change, watch

from penstock.config.dialects.wherehows_job import JobDocument
from penstock.config.loading import Loaded, is_pipeline_file
from penstock.config.remote import is_url
from penstock.config.spec import PipelineSpec

log = structlog.get_logger("penstock.reload")

# It tells of every change; in the log of an instance that lies in a folder that is watched, that is a change again.
logging.getLogger("watchfiles").setLevel(logging.WARNING)

_QUIET_MS = 200
"""A change is looked at when nothing more has changed for so long: an editor or a checkout writes several times."""
_BURST_MS = 2_000
"""The same at most: a folder in which something is written all the time is looked at, too."""
_MOUNTED = "..data"
"""The link that Kubernetes puts in place of another when it changes the files of a ConfigMap."""


class Runner(Protocol):
    """What takes pipelines in and lets them go."""

    def take(self, spec: PipelineSpec, loaded: Loaded) -> None:
        """Start it, in place of the one of its name; one that cannot be made leaves that one running."""

    def drop(self, name: str) -> None:
        """Finish what is under way, and leave the group."""

    def tell(self, loaded: Loaded, stale: Mapping[str, str]) -> None:
        """Show what cannot be used; `stale` says so of pipelines that go on as they were."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A pipeline as it was last taken in."""

    version: str
    file: str
    is_job: bool


class Reloader(threading.Thread):
    """Compares what the files say with what runs."""

    def __init__(
        self,
        paths: Sequence[Path | str],
        loaded: Loaded,
        runner: Runner,
        load: Callable[[Sequence[Path | str]], Loaded],
        every: float,
    ) -> None:
        super().__init__(name="reload", daemon=True)
        self._paths = paths
        self._watched = Watched(paths)
        self._runner = runner
        self._load = load
        self._every = every
        self._has_jobs = loaded.has_jobs
        self._known = _known(loaded)
        self._told = set(map(str, loaded.problems))
        self._over = threading.Event()

    def run(self) -> None:
        # Empty: what has changed before the watch began is seen at the first look.
        seen: frozenset[object] = frozenset()
        for changed in self._occasions():
            # Not every change is told of: a folder that was made anew is another one than that which is watched.
            now = self._watched.state()
            if not (changed or now != seen or self._has_jobs):
                continue
            try:
                self.look()
                seen = now
            except Exception:
                seen = frozenset()
                log.exception("pipelines could not be looked at again; what runs goes on")

    def _occasions(self) -> Iterator[bool]:
        """True: something has changed in the files. False: some time has passed."""
        due = time.monotonic() + self._every
        try:
            for changes in watch(
                *self._watched.folders,
                # Not filtered there: a folder in which something else is written all the time would never time out.
                watch_filter=None,
                debounce=_BURST_MS,
                step=_QUIET_MS,
                stop_event=self._over,
                rust_timeout=int(self._every * 1000),
                yield_on_timeout=True,
                raise_interrupt=False,
                recursive=False,
            ):
                concerned = any(self._watched.concerns(*change) for change in changes)
                if concerned or time.monotonic() >= due:
                    due = time.monotonic() + self._every
                    yield concerned
        except (OSError, RuntimeError) as error:
            # The folder is gone, or the system watches no more files: slower, but as sure.
            log.warning("files cannot be watched; they are looked at now and then", reason=str(error))
            while not self._over.wait(self._every):
                yield True

    def stop(self, timeout: float) -> None:
        """No pipeline is begun or ended afterwards, unless that takes longer than the timeout."""
        self._over.set()
        if self.is_alive():
            self.join(timeout)

    def look(self) -> None:
        """Compare once."""
        fresh = self._load(self._paths)
        self._has_jobs = fresh.has_jobs
        found = _known(fresh)
        gone = [name for name in self._known if name not in found]
        # A second file with its name, a copy put aside for instance, does not take the place of the one that runs.
        copied = [name for name, known in self._known.items() if name in found and found[name].file != known.file]
        kept = {name: why for name in gone + copied if (why := _why_kept(self._known[name], fresh))}
        self._tell(fresh, kept)
        self._drop([name for name in gone if name not in kept], fresh, kept)
        for spec in fresh.specs:
            if spec.name not in kept:
                self._compare(spec, found[spec.name], fresh)

    def _drop(self, names: Sequence[str], fresh: Loaded, stale: Mapping[str, str]) -> None:
        for name in names:
            if not self._over.is_set():
                self._runner.drop(name)
                self._say(self._known.pop(name), "is gone and was stopped", name)
        if names:
            # What was wrong with them, a key that this machine does not have for instance, is gone with them.
            self._runner.tell(fresh, stale)

    def _compare(self, spec: PipelineSpec, now: _Known, fresh: Loaded) -> None:
        before = self._known.get(spec.name)
        if before is not None and before.version == now.version:
            self._known[spec.name] = now  # its file may have another name
            return
        if self._over.is_set():
            return
        self._runner.take(spec, fresh)
        self._known[spec.name] = now
        self._say(now, "has changed and was restarted" if before else "is new and was started", spec.name)

    @staticmethod
    def _say(known: _Known, what: str, name: str) -> None:
        log.info("%s %s", "job" if known.is_job else "pipeline", what, pipeline=name)

    def _tell(self, fresh: Loaded, stale: Mapping[str, str]) -> None:
        problems = {str(problem): problem for problem in fresh.problems}
        if problems.keys() == self._told:
            return
        self._runner.tell(fresh, stale)
        for text in problems.keys() - self._told:
            log.error(text)
        self._told = set(problems)


class Watched:
    """The folders to watch, and which changes in them matter. Files are replaced more often than written to, so that
    watching one means watching its folder."""

    def __init__(self, paths: Sequence[Path | str]) -> None:
        local = [Path(path).absolute() for path in paths if not (isinstance(path, str) and is_url(path))]
        self._whole = {path for path in local if path.is_dir()}
        self._files = {path for path in local if path not in self._whole}
        self.folders = sorted(self._whole | {path.parent for path in self._files})

    def state(self) -> frozenset[object]:
        """What tells a file from another one, of every file that pipelines come from."""
        inside = (entry for folder in self._whole for entry in _listed(folder) if is_pipeline_file(entry.name))
        return frozenset(
            (str(file), stat.st_ino, stat.st_mtime_ns, stat.st_size)
            for file in (*self._files, *inside)
            if (stat := _stat(file)) is not None
        )

    def concerns(self, _change: Change, name: str) -> bool:
        """Whether a change of this path may change a pipeline."""
        path = Path(name)
        if path in self._files or path.name == _MOUNTED:
            return True
        return path.parent in self._whole and is_pipeline_file(path.name)


def _known(loaded: Loaded) -> dict[str, _Known]:
    documents = loaded.documents
    return {
        spec.name: _Known(spec.version, documents[spec.name].file, isinstance(documents[spec.name], JobDocument))
        for spec in loaded.specs
    }


def _why_kept(known: _Known, fresh: Loaded) -> str | None:
    """Why a pipeline that is no longer there goes on: its file cannot be used as it is now. None: it is gone."""
    if known.is_job and fresh.problems:
        return str(fresh.problems[0])  # its row may just not have been readable
    places = {known.file, *(str(folder) for folder in Path(known.file).parents if not _can_be_listed(folder))}
    return "; ".join(str(problem) for problem in fresh.problems if problem.file in places) or None


def _can_be_listed(folder: Path) -> bool:
    """False: the folder itself is away, as a mount or a checkout is for a moment; that says nothing of its files."""
    try:
        with os.scandir(folder):
            return True
    except OSError:
        return False


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _stat(file: Path) -> os.stat_result | None:
    try:
        return file.stat()
    except OSError:
        return None
