"""Takes the pictures of the console for README and docs: `make screenshots`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page

from tests.faces.console.conftest import served
from tests.support.browser import chromium

WIDE = (1280, 800)
PHONE = (390, 844)
PLACES = {
    "home": "/",
    "pipeline": "/pipelines/shipments",
    "dead-letters": "/dead-letters",
    "dead-letter": "/dead-letters/1",
    "history": "/history",
    "workflows": "/workflows",
    "triggers": "/triggers",
}
ON_THE_PHONE = {"phone": "/", "phone-history": "/history", "phone-triggers": "/triggers"}
Theme = Literal["light", "dark"]


def take(folder: Path, places: dict[str, str], address: str, browser: Browser) -> None:
    for theme in ("light", "dark"):
        for name, path in places.items():
            _shoot(browser, address + path, folder / f"{name}-{theme}.png", theme, WIDE)
        for name, path in ON_THE_PHONE.items():
            _shoot(browser, address + path, folder / f"{name}-{theme}.png", theme, PHONE)


def _shoot(browser: Browser, url: str, file: Path, theme: Theme, size: tuple[int, int]) -> None:
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=theme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(url)
    page.locator(".main h1").first.wait_for()
    _drawn(page)
    page.screenshot(path=file)
    context.close()


def _drawn(page: Page) -> None:
    """Fonts are there, and the first look has been followed by another, so that curves have points."""
    page.evaluate("document.fonts.ready")
    page.wait_for_load_state("networkidle")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as store, served(Path(store), "--pulse") as address, chromium() as browser:
        page = browser.new_page()
        page.goto(address)
        # A curve wants some looks.
        page.wait_for_function("document.querySelector('.spark polyline').points.numberOfItems > 15", timeout=120_000)
        page.close()
        take(folder, PLACES, address, browser)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
