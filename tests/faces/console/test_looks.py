"""Every page in light and dark, wide and on a phone: text can be read, controls have names, nothing is cut off."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from penstock.store import OwnedPartition, StateRow, Store
from tests.faces.console.conftest import served
from tests.faces.console.looks import looks
from tests.faces.console.seeding import INSTANCE, letter
from tests.support.waiting import until

PLACES = (
    *("/", "/dead-letters", "/dead-letters?fingerprint=f-markup", "/dead-letters/1", "/dead-letters/999999"),
    *(f"/pipelines/payments?tab={tab}" for tab in ("overview", "errors", "live", "spec", "history")),
    *("/history", "/history?search=nothing-like-it", "/workflows", "/triggers", "/triggers/new", "/jobs", "/topics"),
    *("/instances", "/notifications", "/audit", "/users", "/new/pipeline", "/new/workflow", "/login"),
)
FIRST_OF = {"/history": "td.lead a", "/workflows": "td.lead a", "/triggers": "td.lead a"}
"""Lists whose first row leads to a page of another kind."""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_can_be_read_and_used(browser: Browser, console: str, theme: str, width: int) -> None:
    context = browser.new_context(
        base_url=console,
        viewport={"width": width, "height": 800},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    wrong = {}
    for path in PLACES:
        page.goto(path)
        wrong[path] = _wrong(page, theme)
        if path in FIRST_OF:
            page.locator(FIRST_OF[path]).first.click()
            expect(page).not_to_have_url(re.compile(rf"{path}$"))
            wrong[f"first of {path}"] = _wrong(page, theme)
    context.close()
    assert {path: found for path, found in wrong.items() if found} == {}


@pytest.mark.parametrize("width", [1280, 390])
def test_long_names_are_broken_and_leave_room(browser: Browser, tmp_path: Path, width: int) -> None:
    long, topic = "n" * 200, "t" * 200
    with Store.open(f"sqlite:///{tmp_path / 'penstock.db'}") as store:
        state = StateRow(pipeline=long, instance=INSTANCE, state="waiting", reason="r" * 2_000)
        store.pipelines.put_states([state])
        store.partitions.put(long, INSTANCE, [OwnedPartition(topic, 0, 1, 2)])
        headers = [("h" * 300, b"v" * 300)]
        failed = letter(7, value=b"{}", pipeline=long, topic=topic, error=f"E: {'e' * 2_000}", headers=headers)
        store.dead_letters.record([failed])
    with served(tmp_path) as address:
        page = browser.new_page(base_url=address, viewport={"width": width, "height": 800}, reduced_motion="reduce")
        wider = {}
        for path in ("/", f"/pipelines/{long}", "/dead-letters/1", f"/dead-letters?pipeline={long}"):
            page.goto(path)
            expect(page.locator("h1")).to_be_visible()
            _settled(page)
            wider[path] = looks(page)["wider"]
        assert set(wider.values()) == {0}, wider
        page.goto("/")
        state_of_it = page.locator("tbody tr").filter(has_text=long).locator(".chip")
        assert state_of_it.evaluate("(e) => e.getBoundingClientRect().right <= innerWidth")
        page.get_by_role("button", name=f"Restart {long}").click()
        asked = page.get_by_role("dialog").get_by_role("heading")
        expect(asked).to_contain_text(long)
        assert asked.evaluate("(e) => e.scrollWidth <= e.clientWidth")
        page.close()


def _wrong(page: Page, theme: str) -> dict[str, object]:
    expect(page.locator(f"body.body--{theme} :is(.main, .login)").first).to_be_visible()
    expect(page.locator(".main h1, .main .problem, .main .empty, .login h2").first).to_be_visible()
    _settled(page)
    titled = page.title().endswith("Penstock")
    return {name: found for name, found in looks(page).items() if found} | ({} if titled else {"title": page.title()})


def _settled(page: Page) -> None:
    """Half a second in which nothing new is drawn; an open page goes on asking, so that the network is never idle."""
    drawn: list[object] = []

    def is_calm() -> bool:
        drawn.append(page.evaluate("[document.querySelectorAll('*').length, document.fonts.status]"))
        return len(drawn) > 5 and all(each == drawn[-1] for each in drawn[-6:])

    until(is_calm, 60, "the page does not settle", every_s=0.1)


def test_a_page_whose_server_is_gone_says_that_it_is_old(browser: Browser, tmp_path: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    with served(tmp_path) as address:
        page.goto(address)
        expect(page.locator("tbody tr")).to_have_count(7)
        expect(page.locator("#popup")).to_be_hidden()
    expect(page.locator("#popup")).to_be_visible()
    expect(page.locator("#popup")).to_be_in_viewport()
    shown = page.evaluate("getComputedStyle(document.querySelector('#popup > span:last-child'), '::after').content")
    assert "as it was before" in shown
    page.close()
