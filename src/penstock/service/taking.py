"""Takes pipelines into an instance, and lets them go while it runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import structlog

from penstock.config.loading import Loaded
from penstock.config.problems import Problem
from penstock.config.settings import Settings
from penstock.config.spec import PipelineSpec
from penstock.core.errors import PenstockError
from penstock.engine.instance import Instance
from penstock.service.client_checks import client_problem
from penstock.service.logs import configure_logs
from penstock.service.trigger_specs import with_store
from penstock.store import StateRow

log = structlog.get_logger("penstock.run")


class Taking:
    """A pipeline that this machine cannot run (a key that is not there, for instance) stops nothing but itself."""

    def __init__(self, instance: Instance, settings: Settings, secrets: frozenset[str]) -> None:
        self._instance = instance
        self._settings = settings
        self._secrets = secrets
        self._problems: list[Problem] = []
        self._stale: Mapping[str, str] = {}
        self._shown: list[StateRow] = []
        self._lock = threading.RLock()
        """Files and the store are looked at by threads of their own."""
        self._refused: dict[str, str] = {}
        """By the instance, which is asked again only when the pipeline has changed."""

    def take(self, spec: PipelineSpec, loaded: Loaded) -> None:
        """Start it, in place of the one of its name; one that cannot be made leaves that one running."""
        with self._lock:
            self.learn(spec.secrets)
            self._refused.pop(spec.name, None)
            try:
                self._instance.add(with_store(spec, self._settings.store_url))
            except PenstockError as error:
                problem = client_problem(loaded, spec, error)
                log.error(str(problem))
                loaded.problems.append(problem)
                self._refused[spec.name] = str(problem)
            self._show()

    def learn(self, secrets: frozenset[str]) -> None:
        """Keep these out of the logs, too."""
        with self._lock:
            if not secrets <= self._secrets:
                self._secrets |= secrets
                configure_logs(**self._settings.log.model_dump(), secrets=self._secrets)

    def drop(self, name: str) -> None:
        """Finish what is under way, and leave the group."""
        with self._lock:
            self._refused.pop(name, None)
            self._instance.remove(name)

    def refuse(self, name: str, why: str | None) -> None:
        """Show why a pipeline cannot be used; one that runs goes on as it was. None: it can."""
        with self._lock:
            if why is None:
                self._refused.pop(name, None)
            else:
                self._refused[name] = why
            self._show()

    def tell(self, loaded: Loaded, stale: Mapping[str, str]) -> None:
        """Show what cannot be used; `stale` says so of pipelines that go on as they were."""
        with self._lock:
            self._problems, self._stale = loaded.problems, stale
            self._show()

    def _show(self) -> None:
        why = {**self._stale, **self._refused}
        for flow in self._instance.runners:
            flow.status.stale = why.get(flow.name)
        running = {flow.name for flow in self._instance.runners}
        shown = {name: text for name, text in why.items() if name not in running}
        for problem in self._problems:
            if not any(str(problem) in text for text in why.values()):
                file = str(problem.file)
                shown[file] = f"{shown[file]}; {problem}" if file in shown else str(problem)
        # What others have to say of theirs stays.
        others = [row for row in self._instance.invalid if row not in self._shown]
        self._shown = [
            StateRow(pipeline=name, instance=self._instance.id, state="invalid", reason=text)
            for name, text in shown.items()
        ]
        self._instance.invalid[:] = others + self._shown
        self._instance.metrics.config_problems.set(len(shown) + len(why.keys() & running))
