"""The peer's own virtual environment, made from its hash-pinned lock and made anew when the lock changes."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = Path(__file__).with_name("requirements.txt")
_UV = ROOT / ".cache" / "uv" / "bin" / "uv"
_FOLDER = ROOT / ".cache" / "peers" / "datahub"


def peer_environment() -> Path:
    """The folder of the environment in which `datahub-actions` is installed."""
    stamp, wanted = _FOLDER / "lock.sha256", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing the peer into {_FOLDER.relative_to(ROOT)}", flush=True)
        shutil.rmtree(_FOLDER, ignore_errors=True)
        _install(_FOLDER, "--require-hashes", "-r", str(LOCK))
        stamp.write_text(wanted)
    return _FOLDER


def _install(folder: Path, *what: str) -> None:
    """Make an environment and install into it, from uv's cache where that has everything."""
    subprocess.run([_UV, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    command = [_UV, "pip", "install", "--quiet", "--python", folder / "bin" / "python", *what]
    if subprocess.run([*command, "--offline"], capture_output=True, check=False).returncode != 0:
        subprocess.run(command, check=True)


def datahub_penstock() -> Path:
    """The command in an environment where the peer's own classes are installed beside Penstock."""
    subprocess.run(["make", "--quiet", "setup-datahub"], cwd=ROOT, check=True)
    return ROOT / ".cache" / "datahub" / "bin" / "penstock"


def schema(name: str) -> str:
    """An Avro schema's text as the peer's package brings it."""
    (folder,) = (peer_environment() / "lib").glob("python3*/site-packages/datahub/metadata/schemas")
    return (folder / f"{name}.avsc").read_text()
