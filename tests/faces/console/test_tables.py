"""Tables that somebody sorts, searches, selects in and opens while they change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from penstock.store import DeadLetterFilter, OwnedPartition, Store
from tests.faces.console.conftest import served
from tests.faces.console.seeding import INSTANCE


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def console(folder: Path) -> Iterator[str]:
    with served(folder, "--pulse") as address:
        yield address


def rows(page: Page) -> Locator:
    return page.locator("tbody tr:not(.inside)")


def names(page: Page) -> Locator:
    return page.locator("tbody td.lead a")


def refreshed(page: Page) -> None:
    """The table has been sent anew: something in it is another than it was."""
    body = page.locator("tbody").first
    before = body.inner_html()
    page.wait_for_function(
        "([body, before]) => body.innerHTML !== before", arg=[body.element_handle(), before], timeout=60_000
    )


def test_a_column_is_sorted_by_the_keyboard_and_stays_so(page: Page) -> None:
    page.goto("/")
    lag = page.get_by_role("columnheader", name="Lag")
    expect(lag).to_have_attribute("aria-sort", "none")
    lag.focus()
    page.keyboard.press("Enter")
    expect(lag).to_have_attribute("aria-sort", "ascending")
    expect(names(page).first).to_have_text("invoices-to-sql")
    page.keyboard.press("Space")
    expect(lag).to_have_attribute("aria-sort", "descending")
    expect(names(page).first).to_have_text("shipments")
    before = names(page).all_inner_texts()
    refreshed(page)
    expect(names(page)).to_have_text(before)
    expect(lag).to_be_focused()


def test_a_way_to_dead_letters_stays_in_focus_while_figures_of_its_stage_change(page: Page) -> None:
    page.goto("/pipelines/shipments")
    letters = page.locator(".stage").last.get_by_role("link", name="3 dead letters")
    read = page.locator(".stage").first.locator(".count")
    letters.focus()
    before = read.inner_text()
    expect(read).not_to_have_text(before)
    expect(letters).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("stage=act"))


def test_a_table_comes_with_its_page_and_is_not_sent_again_for_being_sorted(page: Page) -> None:
    sent: list[str] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: sent.append(str(frame))))
    page.goto("/workflows")
    header = page.get_by_role("columnheader").first
    header.click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("button", name="Light or dark").click()  # what the server was told before is answered before
    expect(page.get_by_role("button", name="Light or dark")).to_have_text("Light")
    assert sent
    assert [frame for frame in sent if "nicegui-rows" in frame] == []


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("pause", ["returns"]),  # its state, and no button
        ("REGISTRY ", ["catalogue-sync"]),  # what it waits for
        ("1480", []),  # a number that is not shown like this
        ("restart", []),
    ],
)
def test_pipelines_are_found_by_names_and_states(page: Page, written: str, found: list[str]) -> None:
    page.goto("/")
    expect(names(page)).to_have_count(7)
    page.get_by_label("Search pipelines").fill(written)
    expect(names(page)).to_have_text(found)
    if not found:
        expect(page.get_by_text("Nothing is like this.")).to_be_visible()


def test_what_is_selected_and_open_stays_so_while_rows_change(page: Page) -> None:
    page.goto("/history?workflow=Lab+results&state=failed,pending,success&size=25")
    rows(page).nth(1).get_by_role("checkbox").click()
    order = names(page).nth(1).inner_text()
    rows(page).nth(1).get_by_role("button", name=re.compile("Open")).click()
    inside = page.locator("tr.inside")
    runs = inside.locator(".run")
    expect(runs).to_have_count(1)
    page.get_by_role("columnheader", name="Status").click()
    inside.get_by_role("button", name="Rerun from here").first.dblclick()
    expect(runs).to_have_count(2)
    page.get_by_role("columnheader", name="Runs").click()
    page.get_by_role("columnheader", name="Runs").click()
    expect(page.get_by_role("columnheader", name="Runs")).to_have_attribute("aria-sort", "descending")
    refreshed(page)
    expect(runs).to_have_count(2)  # pressed twice, begun once
    expect(page.locator("tr:has(+ tr.inside) td.lead a")).to_have_text(order)
    expect(page.locator("tr.selected td.lead a")).to_have_text(order)
    expect(page.get_by_text("selected.")).to_have_text("1 selected.")
    expect(page.get_by_role("button", name="Retry 1…")).to_be_visible()


def test_what_is_pressed_twice_is_done_once(page: Page) -> None:
    page.goto("/dead-letters?fingerprint=f-null")
    names(page).first.click()
    page.get_by_role("button", name="Discard…").dblclick()
    page.get_by_label("Reason").fill("a test order")
    page.get_by_role("button", name="Discard", exact=True).dblclick()
    expect(page.get_by_text("1 dead letters are discarded.")).to_be_visible()
    page.goto("/jobs")
    expect(rows(page)).to_have_count(1)


def test_what_is_pressed_while_it_is_under_way_is_done_once(page: Page) -> None:
    """As by a screen that is touched twice: no browser calls that a double click."""
    page.goto("/workflows")
    names(page).first.click()
    page.get_by_role("button", name="Run…").click()
    page.get_by_role("button", name="Run", exact=True).evaluate("(run) => { run.click(); run.click(); }")
    expect(page).to_have_url(re.compile("/runs/"))
    page.goto("/audit")
    made = rows(page).filter(has_text="workflows.run")
    expect(made).to_have_count(1)


def test_a_link_of_the_banner_stays_in_focus_while_figures_change(page: Page, folder: Path) -> None:
    page.goto("/")
    banner = page.locator(".banner")
    link = banner.get_by_role("link", name="shipments")
    link.focus()
    letters = banner.get_by_role("link", name="open dead letters")
    before = letters.inner_text()
    with Store.open(f"sqlite:///{folder / 'penstock.db'}") as store:
        store.partitions.put("shipments", INSTANCE, [OwnedPartition("shipments", 0, 50_000, 150_000)])
        store.dead_letters.discard(DeadLetterFilter(pipeline="shipments"), by="test")
    expect(banner).to_contain_text("shipments 100,000 events behind")
    expect(letters).not_to_have_text(before)
    expect(link).to_be_focused()


def test_errors_of_a_pipeline_are_sorted_by_what_they_say(page: Page) -> None:
    page.goto("/pipelines/payments?tab=errors")
    page.get_by_role("columnheader", name="Error").click()
    expect(page.get_by_role("columnheader", name="Error")).to_have_attribute("aria-sort", "ascending")
    said = names(page).all_inner_texts()
    assert len(said) > 2
    assert said == sorted(said)
