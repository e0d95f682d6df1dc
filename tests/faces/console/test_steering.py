"""A pipeline that is kept in the store is edited, compared and rolled back; its stages are looked into; notices and
Spark are shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.faces.console.conftest import served
from tests.faces.console.seeding import MARKUP
from tests.faces.console.steering import KEPT

SPEC = "/pipelines/kept-orders?tab=spec"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("steering"), module="steering") as address:
        yield address


def write(page: Page, document: str) -> None:
    page.get_by_label("Document").fill(document)


def test_a_mistake_is_named_by_line_and_column_and_nothing_is_kept(page: Page) -> None:
    page.goto(SPEC)
    expect(page.get_by_text("No problem was found.")).to_be_visible()
    write(page, KEPT.replace("format: json", "format: jsn"))
    page.get_by_role("button", name="Check").click()
    finding = page.locator(".finding.bad")
    expect(finding).to_contain_text("Problem: line 7, column 5, source.config.format")
    expect(finding.locator(".excerpt")).to_contain_text("7      format: jsn\n          ^")
    write(page, KEPT.replace("topics: [orders]", "topics: [orders"))
    page.get_by_role("button", name="Save").click()
    expect(finding.first).to_contain_text("line")
    page.goto("/")
    page.goto(SPEC)
    expect(page.get_by_label("Document")).to_have_value(KEPT)


def test_a_document_is_compared_saved_and_rolled_back(page: Page) -> None:
    page.goto(SPEC)
    write(page, KEPT.replace("[orders]", "[orders, returns]"))
    page.get_by_role("button", name="Compare with what runs").click()
    expect(page.locator(".diff .add").filter(has_text="returns")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved as version 2")).to_be_visible()
    versions = page.get_by_label("Versions").locator("tbody tr")
    expect(versions).to_have_count(2)
    expect(versions.first).to_contain_text("2 (current)")
    page.get_by_role("button", name="Compare 1").click()
    expect(page.locator(".diff .add")).to_have_text("+    topics: [orders, returns]")
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Roll back 1").click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back", exact=True).click()
    expect(page.get_by_text("Version 1 is kept again, as version 3.")).to_be_visible()
    expect(page.get_by_label("Document")).to_have_value(KEPT)
    page.goto("/audit")
    expect(page.locator("tbody tr").first).to_contain_text("pipelines.replace")


def test_who_was_second_sees_what_the_first_has_changed(page: Page) -> None:
    page.goto(SPEC)
    expect(page.get_by_label("Document")).to_have_value(KEPT)
    other = page.context.new_page()
    other.goto(SPEC)
    write(other, KEPT + "# first\n")
    other.get_by_role("button", name="Save").click()
    expect(other.get_by_text("Saved as version")).to_be_visible()
    write(page, KEPT + "# second\n")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("changed by somebody else meanwhile")).to_be_visible()
    expect(page.locator(".diff .del")).to_have_text("-# first")
    page.get_by_role("button", name="Begin again from what is kept now").click()
    expect(page.get_by_label("Document")).to_have_value(KEPT + "# first\n")


def test_the_stages_are_looked_into_masked_and_as_text(page: Page) -> None:
    page.goto("/pipelines/large-orders?tab=live")
    page.get_by_role("checkbox", name="transform").click()
    page.get_by_role("button", name="Look").click()
    rows = page.get_by_label("Samples").locator("tbody tr")
    expect(rows.filter(has_text="decode").first).to_be_visible()
    expect(rows.filter(has_text="filter 1").first).to_contain_text("dropped")
    failed = rows.filter(has_text="failed").first
    expect(failed).to_contain_text(MARKUP)
    expect(rows.filter(has_text="decode").first).to_contain_text('"card":"********"')
    assert "4111-1111-1111" not in page.content()
    expect(rows.filter(has_text="transform")).to_have_count(0)
    page.get_by_role("button", name="Stop", exact=True).last.click()
    failed.get_by_role("button").click()
    expect(page.get_by_role("dialog")).to_contain_text("safe\\u202etxt.exe")
    assert page.evaluate("window.hacked") is None


def test_a_pipeline_that_does_not_run_here_cannot_be_tapped(page: Page) -> None:
    page.goto("/pipelines/payments?tab=live")
    page.get_by_role("button", name="Look").click()
    expect(page.locator(".problem")).to_contain_text("payments does not run in the instance that answers")


def test_notices_tell_who_was_told_and_what_waits(page: Page) -> None:
    page.goto("/notifications")
    waiting = page.get_by_label("Waiting").locator("tbody tr")
    expect(waiting).to_contain_text("7 messages")
    expect(waiting).to_contain_text("not before 2096-10-02 08:06:40 UTC")
    expect(waiting).to_contain_text("nobody")
    sent = page.get_by_label("Sent").locator("tbody tr")
    expect(sent).to_contain_text("ada@example.org, slack")
    expect(sent).to_contain_text("lab/0@1 and 30 more")
    expect(sent).to_contain_text(MARKUP)


def test_spark_of_this_instance_is_shown(page: Page) -> None:
    page.goto("/instances")
    lane = page.get_by_label("Lanes").locator("tbody tr")
    expect(lane).to_contain_text("shared-0")
    expect(lane).to_contain_text("large-orders, kept-orders")
    expect(page.locator(".figure").filter(has_text="slots")).to_contain_text("2")


def test_a_letter_of_ten_megabytes_is_shown_in_part_and_not_edited_here(page: Page) -> None:
    page.goto("/dead-letters")
    page.locator("tbody tr a").first.click()
    expect(page.get_by_text("10.0 MB")).to_be_visible()
    expect(page.locator("pre.text:visible").first).to_contain_text("more characters")
    page.get_by_role("tab", name="Hex").click()
    expect(page.locator("pre.hex:visible")).to_contain_text("more bytes")
    page.get_by_role("button", name="Edit and replay…").click()
    expect(page.get_by_text("a value of 10.0 MB is too large to be edited in a browser")).to_be_visible()
