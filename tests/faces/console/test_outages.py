"""The store goes away while pages are open, and comes back: they say so in words, and go on by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.faces.console.conftest import served
from tests.faces.console.seeding import PASSWORD, PIPELINES
from tests.support.postgres import PostgresServer

AWAY = "The store is away"


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="module")
def console(database: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Whose log has no traceback in it, whatever is opened and pressed while the store is away."""
    folder: Path = tmp_path_factory.mktemp("outages")
    with served(folder, "--login", f"--store={database.create_database()}") as address:
        yield address


def test_a_store_that_goes_away_and_comes_back(
    browser: Browser, context: BrowserContext, console: str, database: PostgresServer
) -> None:
    open_before = context.new_page()
    log_in(open_before)
    rows = open_before.locator("tbody tr")
    expect(rows).to_have_count(len(PIPELINES))
    letters = context.new_page()
    letters.goto("/dead-letters")
    opened_while_away = {path: context.new_page() for path in ("/", "/dead-letters", "/history", "/triggers/new")}

    database.kill()
    expect(open_before.locator(".banner")).to_contain_text(AWAY)
    expect(open_before.locator(".banner")).to_contain_text("What is shown is as it was before.")
    expect(rows).to_have_count(len(PIPELINES))
    open_before.get_by_role("button", name="Pause large-orders").click()
    expect(open_before.locator(".q-notification").first).to_contain_text("the store is away")
    for path, page in opened_while_away.items():
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 503
        expect(page.locator(".problem")).to_contain_text("the store is away")
        expect(page.get_by_text("This page is shown as soon as the store answers again.")).to_be_visible()
    nobody = browser.new_context(base_url=console)
    at_the_door = nobody.new_page()
    log_in(at_the_door)
    expect(at_the_door.locator("#refused")).to_contain_text("the store is away")

    database.start()
    for page in opened_while_away.values():
        expect(page.locator(".banner")).to_contain_text("of 7 pipelines")
    expect(opened_while_away["/"].locator("tbody tr")).to_have_count(len(PIPELINES))
    expect(opened_while_away["/dead-letters"].locator("tbody tr")).to_have_count(42)
    expect(open_before.locator(".banner")).to_contain_text("1 failed")
    open_before.get_by_role("button", name="Pause large-orders").click()
    expect(open_before.get_by_text("large-orders: paused")).to_be_visible()
    at_the_door.get_by_role("button", name="Log in").click()
    expect(at_the_door.locator("h1")).to_have_text("Pipelines")
    nobody.close()


def log_in(page: Page) -> None:
    page.goto("/")
    page.get_by_label("E-mail address").fill("ada@example.org")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
