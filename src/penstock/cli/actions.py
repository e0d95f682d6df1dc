"""`penstock actions`: DataHub Actions' command line, on Penstock's engine."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.files import Strict
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.cli.running import Ended
    from penstock.config.settings import Settings
    from penstock.engine.instance import Instance
    from penstock.service.stopping import Stop

Debug = Annotated[
    bool, typer.Option("--debug/--no-debug", envvar="PENSTOCK_DEBUG", help="Log more, and show tracebacks.")
]
Config = Annotated[
    list[str] | None,
    typer.Option("-c", "--config", metavar="FILE", help="A file, folder or address; may be repeated."),
]
EnableMonitoring = Annotated[
    bool,
    typer.Option(
        "--enable-monitoring",
        envvar="DATAHUB_ACTIONS_MONITORING_ENABLED",
        help="Serve the metrics on a port of their own, too.",
    ),
]
MonitoringPort = Annotated[
    int,
    typer.Option(min=0, max=65535, envvar="DATAHUB_ACTIONS_MONITORING_PORT", help="That port."),
]
MonitoringHost = Annotated[
    str,
    typer.Option(
        envvar="DATAHUB_ACTIONS_MONITORING_HOST",
        help="Address of that port; 0.0.0.0 for a scraper on another machine, without a log-in.",
    ),
]
DetectLeaks = Annotated[bool, typer.Option("-dl", "--detect-memory-leaks", help="Accepted; it does nothing here.")]

# Words after the options are looked at by the command itself: DataHub takes any, and so do we, but we say so.
_LENIENT = {"ignore_unknown_options": True, "allow_extra_args": True}
_TRUE = {"1", "true", "yes", "y", "on", "t"}


def register(app: typer.Typer) -> None:
    command(app, "actions", debug=Debug, context=_LENIENT)(actions)


def actions(
    terminal: Terminal,
    ctx: typer.Context,
    config: Config = None,
    enable_monitoring: EnableMonitoring = False,
    monitoring_port: MonitoringPort = 8000,
    monitoring_host: MonitoringHost = "127.0.0.1",
    detect_memory_leaks: DetectLeaks = False,
    strict: Strict = False,
    version: Annotated[bool, typer.Option("--version", help="Show the version and end.")] = False,
) -> Exit | None:
    """DataHub Actions' command line: `penstock actions [OPTIONS] [run] -c FILE`, or `penstock actions version`.

    Without -c, the folders of DataHub's container image are read. Ends with 0 after a clean stop, with 1 when every
    pipeline has failed or none could be started.
    """
    words = list(ctx.args)
    if words[:1] == ["actions"]:
        # An alias for `datahub-actions` hands over that command's own name for its only group.
        words.pop(0)
    word = words.pop(0) if words and words[0] in ("run", "version") else "run"
    if version or word == "version":
        _show_version(terminal)
        return None
    from penstock.core.errors import ConfigError
    from penstock.service.container import container_files
    from penstock.service.logs import configure_logs

    settings = _settings(terminal)
    configure_logs(**settings.log.model_dump(), secrets=settings.secrets)
    files = config or container_files(os.environ)
    if files is None:
        raise ConfigError("no configuration is given", hint="penstock actions -c FILE")
    remarks = [f"{word!r} is not known here and was ignored" for word in words]
    if detect_memory_leaks:
        remarks.append("--detect-memory-leaks does nothing here")
    _warn(remarks)
    monitoring = (monitoring_host, monitoring_port) if enable_monitoring else None
    order = _Order(list(files), in_container=not config, monitoring=monitoring, strict=strict)
    return _run(terminal, settings, order)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What the command line asks for."""

    files: list[str | Path] = field(kw_only=False)
    in_container: bool
    monitoring: tuple[str, int] | None
    """Host and port; None: there is none."""
    strict: bool


def _warn(remarks: list[str]) -> None:
    import structlog

    for remark in remarks:
        structlog.get_logger("penstock.actions").warning(remark)


def _run(terminal: Terminal, settings: Settings, order: _Order) -> Exit:
    import structlog

    from penstock.core.errors import Unavailable
    from penstock.service.container import wait_for_catalogue
    from penstock.service.run import NoPipelineLeft
    from penstock.service.stopping import Stop

    log = structlog.get_logger("penstock.actions")
    with Stop() as stop:
        try:
            if order.in_container:
                wait_for_catalogue(os.environ, stop)
            if stop.asked.is_set():
                return Exit.OK
            ended = _run_instance(terminal, settings, order, stop)
        except NoPipelineLeft as error:
            log.error(str(error), configurations=len(order.files))
            return Exit.FAILED
        except Unavailable as error:
            log.error(str(error))
            return Exit.FAILED
    _show_statistics(terminal, ended)
    return _code(ended)


def _run_instance(terminal: Terminal, settings: Settings, order: _Order, stop: Stop) -> Ended:
    from penstock.service.warm_up import begin_spark

    # Before the imports below: the JVM takes as long to start as they do.
    spark = begin_spark(settings, quiet_output=terminal.as_json)

    import structlog

    from penstock.api.server import MonitoringServer
    from penstock.cli.running import run_with_server
    from penstock.core.metrics import METRICS

    log = structlog.get_logger("penstock.actions")
    with_lag = os.environ.get("DATAHUB_ACTIONS_KAFKA_LAG_ENABLED", "true").strip().lower() in _TRUE
    METRICS.positions.with_kafka_lag = with_lag
    monitoring = MonitoringServer(METRICS.exposition, *order.monitoring) if order.monitoring is not None else None
    if monitoring:
        log.info("monitoring", address=monitoring.start())

    def at_address(address: str | None) -> None:
        if address:
            log.info("metrics and health", address=address)

    def ready(instance: Instance) -> None:
        for view in instance.snapshot():
            log.info("pipeline", pipeline=view.name, state=view.state)

    try:
        return run_with_server(
            settings,
            order.files,
            on_address=at_address,
            on_ready=ready,
            until_over=True,
            strict=order.strict,
            stop=stop.asked,
            spark=spark,
        )
    finally:
        if monitoring:
            monitoring.stop()


def _settings(terminal: Terminal) -> Settings:
    from penstock.config.settings import Settings

    settings = Settings.load()
    changed: dict[str, str] = {} if terminal.as_json else {"output": "split"}
    if terminal.debug or os.environ.get("DATAHUB_DEBUG", "").strip().lower() in _TRUE:
        changed["level"] = "debug"
    return settings.model_copy(update={"log": settings.log.model_copy(update=changed)})


def _code(ended: Ended) -> Exit:
    run = ended.run
    if run.asked:
        return Exit.OK if run.clean else Exit.FAILED
    return Exit.FAILED if run.failed_pipelines or not run.pipelines else Exit.OK


def _show_statistics(terminal: Terminal, ended: Ended) -> None:
    from penstock.service.statistics import report

    if terminal.as_json:
        terminal.data({"pipelines": ended.run.statistics})
        return
    for name, stats in ended.run.statistics.items():
        terminal.line(report(name, stats))


def _show_version(terminal: Terminal) -> None:
    from importlib.metadata import version as installed

    versions = {"penstock": installed("penstock"), "python": platform.python_version()}
    if terminal.as_json:
        terminal.data(versions)
        return
    terminal.line(f"Penstock version: {versions['penstock']} (for DataHub Actions)")
    terminal.line(f"Python version: {versions['python']}")
