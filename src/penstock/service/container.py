"""The conventions of DataHub's container image: folders of files, and a catalogue to wait for."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import structlog

from penstock.core.deadline import Deadline
from penstock.core.errors import ConfigError, Unavailable
from penstock.service.stopping import Stop

log = structlog.get_logger("penstock.actions")

_FOLDERS = (
    ("DATAHUB_ACTIONS_SYSTEM_CONFIGS_PATH", "/etc/datahub/actions/system/conf"),
    ("DATAHUB_ACTIONS_USER_CONFIGS_PATH", "/etc/datahub/actions/conf"),
)
_PATIENCE = "DATAHUB_GMS_STARTUP_TIMEOUT_SEC"
_LOOK_EVERY = 1.0


def container_files(environ: Mapping[str, str]) -> list[Path] | None:
    """The files of the image's folders, the system's first; None: this is no such container."""
    folders = [(Path(environ.get(name) or default), bool(environ.get(name))) for name, default in _FOLDERS]
    if not any(named or folder.is_dir() for folder, named in folders):
        return None
    files: list[Path] = []
    for folder, named in folders:
        if folder.is_dir():
            files += [file for suffix in ("*.yml", "*.yaml") for file in sorted(folder.glob(suffix))]
        elif named:
            log.warning("there is no such folder", folder=str(folder))
    return files


def catalogue_address(environ: Mapping[str, str]) -> str | None:
    """Where the catalogue tells whether it is well; None: nothing says where it is."""
    base = environ.get("DATAHUB_GMS_URL", "").rstrip("/")
    if not base and (host := environ.get("DATAHUB_GMS_HOST")):
        scheme, port = environ.get("DATAHUB_GMS_PROTOCOL") or "http", environ.get("DATAHUB_GMS_PORT") or "8080"
        base = f"{scheme}://{host}:{port}{environ.get('DATAHUB_GMS_BASE_PATH', '').rstrip('/')}"
    return f"{base}/health" if base.startswith(("http://", "https://")) else None


def wait_for_catalogue(environ: Mapping[str, str], stop: Stop) -> None:
    """Until the catalogue is well or a stop is asked for; `Unavailable` when its time is over."""
    address = catalogue_address(environ)
    if address is None:
        return
    written = environ.get(_PATIENCE) or "240"
    if not written.isdecimal():
        raise ConfigError(f"{_PATIENCE} is a number of seconds", received=written)
    deadline = Deadline.after(float(written))
    log.info("waiting for the catalogue", address=address, seconds=int(written))
    while (reason := _well(address)) and not stop.asked.is_set():
        if deadline.expired:
            raise Unavailable(f"the catalogue is not well after {written} s: {reason}", received=address)
        stop.asked.wait(min(_LOOK_EVERY, deadline.remaining))


def _well(address: str) -> str:
    """Empty when it is; else what is wrong."""
    try:
        with urllib.request.urlopen(address, timeout=5.0):  # noqa: S310 - `catalogue_address` gives http and https only
            return ""
    except urllib.error.HTTPError as error:
        return f"it answers {error.code}"
    except OSError as error:
        return str(error)
