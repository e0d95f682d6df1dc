"""Virtual environments of peers, each made from its hash-pinned lock and made anew when the lock changes."""

from __future__ import annotations

import functools
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_HERE = Path(__file__).parent
_UV = ROOT / ".cache" / "uv" / "bin" / "uv"
_PEERS = ROOT / ".cache" / "peers"


def peer_environment() -> Path:
    """The folder of the environment in which `datahub-actions` is installed."""
    return _environment("datahub", _HERE / "requirements.txt")


def readers_environment() -> Path:
    """The folder of the environment with other Avro readers."""
    return _environment("readers", _HERE / "readers.txt")


def _environment(name: str, lock: Path) -> Path:
    folder = _PEERS / name
    stamp, wanted = folder / "lock.sha256", hashlib.sha256(lock.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing {lock.relative_to(ROOT)} into {folder.relative_to(ROOT)}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _install(folder, "--require-hashes", "-r", str(lock))
        stamp.write_text(wanted)
    return folder


def _install(folder: Path, *what: str) -> None:
    """Make an environment and install into it, from uv's cache where that has everything."""
    subprocess.run([_UV, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    command = [_UV, "pip", "install", "--quiet", "--python", folder / "bin" / "python", *what]
    if subprocess.run([*command, "--offline"], capture_output=True, check=False).returncode != 0:
        subprocess.run(command, check=True)


@functools.cache
def datahub_penstock() -> Path:
    """The command in an environment where the peer's own classes are installed beside Penstock."""
    subprocess.run(["make", "--quiet", "setup-datahub"], cwd=ROOT, check=True)
    return ROOT / ".cache" / "datahub" / "bin" / "penstock"


def schema(name: str) -> str:
    """An Avro schema's text as the peer's package brings it."""
    (folder,) = (peer_environment() / "lib").glob("python3*/site-packages/datahub/metadata/schemas")
    return (folder / f"{name}.avsc").read_text()
