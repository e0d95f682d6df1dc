"""Work orders in a real browser: found, opened, run again, cancelled, exported."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.faces.console.seeding import MARKUP


def rows(page: Page) -> Locator:
    return page.locator("tbody tr:not(.inside)")


def open_history(page: Page, address: str = "/history") -> None:
    page.goto(address)
    expect(page.locator("h1")).to_have_text("History")


def test_the_newest_come_first_and_filters_stand_in_the_address(page: Page) -> None:
    open_history(page)
    expect(rows(page)).to_have_count(10)
    expect(rows(page).first).to_contain_text("Ward visits")
    expect(rows(page).first.locator(".chip")).to_have_text("Enqueued")
    page.get_by_role("link", name="Failed", exact=True).click()
    expect(page).to_have_url(re.compile("state=failed"))
    expect(rows(page)).to_have_count(5)
    page.get_by_role("link", name="Enqueued", exact=True).click()
    expect(page).to_have_url(re.compile("state=failed%2Cpending"))
    expect(rows(page)).to_have_count(8)
    page.get_by_role("link", name="Without state").click()
    expect(rows(page)).to_have_count(10)


def test_pages_are_turned(page: Page) -> None:
    open_history(page)
    first = rows(page).first.locator("td.lead a").inner_text()
    page.get_by_role("link", name="Next page").click()
    expect(rows(page)).to_have_count(8)
    expect(page.locator("tbody")).not_to_contain_text(first)
    page.get_by_role("link", name="First page").click()
    expect(rows(page).first.locator("td.lead a")).to_have_text(first)
    page.get_by_role("link", name="25", exact=True).click()
    expect(rows(page)).to_have_count(18)


def test_inputs_and_logs_are_searched(page: Page) -> None:
    open_history(page)
    page.keyboard.press("/")
    page.keyboard.type("p-7")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("search=p-7"))
    expect(rows(page)).to_have_count(1)
    open_history(page, "/history?search=amount")
    expect(rows(page)).to_have_count(4)


def test_a_workflow_is_chosen_and_times_are_written(page: Page) -> None:
    open_history(page)
    page.get_by_label("Workflow").click()
    page.get_by_role("option", name="Ward visits").click()
    expect(page).to_have_url(re.compile("workflow="))
    expect(rows(page)).to_have_count(3)
    page.get_by_role("link", name="last hour").click()
    expect(page).to_have_url(re.compile("active_after=1h"))
    expect(rows(page)).to_have_count(3)
    page.get_by_text("Times", exact=True).click()
    page.get_by_label("Received before").fill("1h")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("No work order is like this.")).to_be_visible()


def test_an_order_is_opened_and_run_again_from_a_step(page: Page) -> None:
    open_history(page, "/history?search=p-3")
    rows(page).first.get_by_role("button", name=re.compile("Open")).click()
    inside = page.locator("tr.inside")
    expect(inside.locator(".run-step")).to_have_count(2)
    expect(inside.locator(".run-step").first).to_contain_text("check")
    expect(inside.locator(".run-step").first).to_contain_text("ValueError")
    inside.locator(".run-step").last.get_by_role("button", name="Rerun from here").click()
    expect(page.get_by_text("It runs again from tell.")).to_be_visible()
    expect(inside.locator(".run")).to_have_count(2)
    expect(inside.locator(".run").first).to_contain_text("from tell")
    expect(rows(page).first.locator(".chip").first).to_have_text("Enqueued")
    page.goto("/audit")
    expect(page.locator("tbody tr").first).to_contain_text("work_orders.retry")


def test_many_are_run_again_after_a_dry_run_and_progress_is_seen(page: Page) -> None:
    open_history(page, "/history?search=p-1&state=success")
    found = rows(page).count()
    page.get_by_role("button", name="Retry all…").click()
    expect(page.get_by_text("A dry run: nothing has been done yet.")).to_be_visible()
    page.get_by_role("button", name=re.compile(f"Retry {found} work order")).click()
    expect(page).to_have_url(re.compile("/history/jobs/"))
    expect(page.get_by_text(f"{found} of {found} work orders are run again.")).to_be_visible()
    page.goto("/jobs")
    expect(page.locator("tbody tr").first).to_contain_text("retry")


def test_a_bulk_that_cannot_be_is_refused_in_words(page: Page) -> None:
    open_history(page, "/history?state=failed")
    page.get_by_role("button", name="Cancel all…").click()
    expect(page.locator(".problem")).to_contain_text("cannot be cancelled")


def test_selected_ones_are_cancelled(page: Page) -> None:
    open_history(page, "/history?workflow=Ward+visits&state=pending")
    expect(rows(page)).to_have_count(3)
    page.locator("tbody tr .q-checkbox").nth(0).click()
    page.locator("tbody tr .q-checkbox").nth(1).click()
    page.get_by_role("button", name="Cancel 2…").click()
    page.get_by_role("button", name="Cancel 2 work orders").click()
    expect(page.get_by_text("2 of 2 work orders are cancelled.")).to_be_visible()
    open_history(page, "/history?workflow=Ward+visits&state=cancelled")
    expect(rows(page)).to_have_count(2)


def test_what_is_shown_is_exported(page: Page, tmp_path: Path) -> None:
    open_history(page, "/history?search=p-2")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    file = tmp_path / "export.zip"
    download.value.save_as(file)
    with zipfile.ZipFile(file) as opened:
        assert "work_orders.csv" in opened.namelist()
        assert len(opened.read("work_orders.csv").splitlines()) == 2


def test_markup_in_inputs_and_logs_stays_text(page: Page) -> None:
    open_history(page, "/history?search=p-99")
    page.locator("td.lead a").first.click()
    expect(page.locator("pre.text").first).to_contain_text("<img src=x onerror=")
    expect(page.locator("pre.text").first).to_contain_text("\\u202e")
    page.get_by_role("link", name="Run 1").click()
    expect(page.locator("tbody").get_by_text(MARKUP).first).to_be_visible()
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src=x]").count() == 0


WRONG = {
    "/history?state=nowhere": "allowed: pending, running, success, failed",
    "/history?active_after=yesterday": "no time",
    "/history?workflow=nothing": "no such workflow",
    "/history/bulk?kind=burn": "what is to be done",
    "/history/jobs/x": "no such job",
    "/work-orders/x": "no such work order",
    "/runs/x": "no such",
    "/workflows/x": "no such workflow",
    "/triggers/x": "no such trigger",
}


def test_an_address_that_is_wrong_is_answered_in_words(page: Page) -> None:
    for path, says in WRONG.items():
        page.goto(path)
        expect(page.locator(".problem")).to_contain_text(says)
