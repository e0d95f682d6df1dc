"""A browser, a console over a seeded store, and pages that may not go astray."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect

from tests.support.browser import chromium

ROOT = Path(__file__).resolve().parents[3]
LOG = "console.log"

_PATIENCE_MS = 60_000
"""How long a page may take: on a busy machine that is long, and a page that is right is not kept waiting."""
expect.set_options(timeout=_PATIENCE_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed behind each file: while it is open this thread has a running event loop, which other tests must not."""
    with chromium() as opened:
        yield opened


@contextlib.contextmanager
def served(folder: Path, *options: str, module: str = "serving") -> Iterator[str]:
    """The address of a console over a store in this folder. What it logs is held to have no traceback in it."""
    log = folder / LOG
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", f"tests.faces.console.{module}", str(folder), *options],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, f"the console did not start: {log.read_text()}"
        yield address
        assert "Traceback" not in log.read_text(), log.read_text()
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(20)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("console")) as address:
        yield address


@pytest.fixture
def context(browser: Browser, console: str) -> Iterator[BrowserContext]:
    made = browser.new_context(base_url=console, viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    made.set_default_timeout(_PATIENCE_MS)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext, console: str) -> Iterator[Page]:
    """A page that asks nobody but the console, and whose scripts make no mistakes."""
    opened = context.new_page()
    astray: list[str] = []
    wrong: list[str] = []

    def note(request: Request) -> None:
        if not request.url.startswith((console, "data:", "blob:")):
            astray.append(request.url)

    def say(message: ConsoleMessage) -> None:
        if message.type == "error":
            wrong.append(f"{message.text} at {message.location['url']}")

    opened.on("request", note)
    opened.on("console", say)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    yield opened
    assert astray == []
    assert wrong == []
