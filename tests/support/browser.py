"""A real Chromium for tests and screenshots: one that is installed, else one fetched into `.cache` by npm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright._impl._driver import compute_driver_executable
from playwright.sync_api import Browser, sync_playwright

from tests.support.fetch import CACHE, FetchError, made_once

_INSTALLED = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PACKAGE = "@sparticuz/chromium"
_VERSION = "147.0.0"
_UNPACK = """
const fs = require('fs'), zlib = require('zlib');
const [from, to] = process.argv.slice(1);
fs.writeFileSync(to, zlib.brotliDecompressSync(fs.readFileSync(from)));
"""
_FONTS = """<?xml version="1.0"?>
<fontconfig>
  <dir>/usr/share/fonts</dir>
  <dir prefix="relative">fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    path, environment = _found()
    with sync_playwright() as playwright:
        # It has no window, and draws with the processor; as root it refuses its sandbox.
        options = ["--no-sandbox", "--disable-gpu", "--headless=new", "--hide-scrollbars", "--font-render-hinting=none"]
        browser = playwright.chromium.launch(executable_path=path, args=options, env=dict(os.environ) | environment)
        try:
            yield browser
        finally:
            browser.close()


def _found() -> tuple[str, dict[str, str]]:
    for name in _INSTALLED:
        if path := shutil.which(name):
            return path, {}
    folder = made_once(CACHE / f"chromium-{_VERSION}", _fetch)
    libraries = f"{folder / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    return str(folder / "chromium"), {"LD_LIBRARY_PATH": libraries, "FONTCONFIG_FILE": str(folder / "fonts.conf")}


def _fetch(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise FetchError(f"no Chromium is installed ({', '.join(_INSTALLED)}) and there is no npm to fetch one with")
    sys.stderr.write(f"fetching {_PACKAGE} {_VERSION} into .cache\n")
    packed = subprocess.run(
        [npm, "pack", f"{_PACKAGE}@{_VERSION}"], cwd=folder, capture_output=True, text=True, check=False
    )
    if packed.returncode:
        raise FetchError(packed.stderr)
    archive = next(folder.glob("*.tgz"))
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    archive.unlink()
    parts = folder / "package" / "bin"
    _unpack(parts / "chromium.br", folder / "chromium")
    (folder / "chromium").chmod(0o755)
    for name in ("al2023", "swiftshader", "fonts"):
        _unpack(parts / f"{name}.tar.br", folder / f"{name}.tar")
        with tarfile.open(folder / f"{name}.tar") as opened:
            opened.extractall(folder, filter="data")
        (folder / f"{name}.tar").unlink()
    shutil.rmtree(folder / "package")
    (folder / "fonts.conf").write_text(_FONTS)


def _unpack(packed: Path, to: Path) -> None:
    node = compute_driver_executable()[0]  # the wheel brings one, which knows brotli
    subprocess.run([node, "-e", _UNPACK, str(packed), str(to)], check=True)
