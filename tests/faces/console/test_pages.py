"""What an operator finds on each page, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.faces.console.conftest import served
from tests.faces.console.seeding import CROWD, PIPELINES


def open_page(page: Page, path: str) -> None:
    page.goto(path)
    expect(page.locator(".main")).to_be_visible()


def row(page: Page, name: str) -> object:
    return page.locator("tbody tr").filter(has_text=name)


def test_home_tells_what_is_wrong_first(page: Page) -> None:
    open_page(page, "/")
    banner = page.locator(".banner")
    expect(banner).to_contain_text("1 failed, 1 waiting, 1 behind of 7 pipelines, 3 healthy, 1 at rest.")
    expect(banner.get_by_role("link", name="payments")).to_be_visible()
    expect(banner.get_by_role("link", name="42 open dead letters")).to_be_visible()
    names = page.locator("tbody tr td.lead a").all_text_contents()
    assert names[:2] == ["payments", "catalogue-sync"]
    assert sorted(names) == sorted(each.name for each in PIPELINES)
    payments = page.locator("tbody tr").filter(has_text="payments")
    expect(payments.locator(".chip")).to_have_text("failed")
    expect(payments).to_contain_text("amount is not a number")


def test_failed_work_orders_are_told_on_every_page_and_found_from_there(page: Page) -> None:
    open_page(page, "/topics")
    page.locator(".banner").get_by_role("link", name="5 work orders failed within the hour").click()
    expect(page.locator("h1")).to_have_text("History")
    expect(page.locator("tbody tr")).to_have_count(5)


def test_home_search_is_kept_in_the_address(page: Page) -> None:
    open_page(page, "/")
    page.keyboard.press("/")
    page.keyboard.type("ship")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"\?q=ship$"))
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(1)


def test_home_shows_the_most_urgent_and_searches_among_all(context: BrowserContext, tmp_path: Path) -> None:
    every = len(PIPELINES) + CROWD
    with served(tmp_path, "--crowd") as address:
        page = context.new_page()
        open_page(page, address)
        expect(page.get_by_text(f"The 50 most urgent of {every} are shown.")).to_be_visible()
        expect(page.locator("tbody tr")).to_have_count(50)
        page.get_by_label("Search pipelines").fill(f"crowd-{CROWD - 1}")
        expect(page.locator("tbody tr td.lead a")).to_have_text([f"crowd-{CROWD - 1}"])
        expect(page.get_by_role("button", name="Show all")).to_be_hidden()
        page.get_by_label("Search pipelines").fill("")
        expect(page.locator("tbody tr")).to_have_count(50)
        page.get_by_role("button", name="Show all").click()
        expect(page.locator("tbody tr")).to_have_count(every)


def test_a_pipeline_is_paused_and_resumed_from_home(page: Page) -> None:
    open_page(page, "/")
    page.get_by_role("button", name="Pause large-orders").click()
    expect(page.get_by_text("large-orders: paused")).to_be_visible()
    page.goto("/audit")
    expect(page.locator("tbody tr").first).to_contain_text("pipelines.pause")
    page.goto("/pipelines/large-orders?tab=history")
    expect(page.locator("tbody tr").first).to_contain_text("paused")


def test_a_restart_is_asked_for_twice(page: Page) -> None:
    open_page(page, "/")
    page.get_by_role("button", name="Restart page-views").click()
    page.get_by_role("button", name="Cancel").click()
    page.goto("/pipelines/page-views?tab=history")
    expect(page.locator("tbody tr")).to_have_count(1)


def test_the_page_of_a_pipeline(page: Page) -> None:
    open_page(page, "/pipelines/payments")
    expect(page.locator(".stage .kind")).to_have_text(["source", "filter", "transform", "action"])
    expect(page.locator(".stage").first).to_contain_text("88,210 read")
    expect(page.get_by_text("payments/0")).to_be_visible()
    page.get_by_role("tab", name="Errors").click()
    expect(page).to_have_url(re.compile("tab=errors"))
    page.get_by_role("link", name="ValueError: amount is not a number").click()
    expect(page).to_have_url(re.compile("fingerprint=f-amount"))
    expect(page.locator("tbody tr")).to_have_count(30)


def test_a_stage_leads_to_its_dead_letters(page: Page) -> None:
    open_page(page, "/pipelines/payments")
    page.locator(".stage").first.get_by_role("link", name="7 dead letters").click()
    expect(page).to_have_url(re.compile("stage=decode"))
    expect(page.locator("tbody tr")).to_have_count(7)


def test_the_spec_is_shown_as_yaml(page: Page) -> None:
    open_page(page, "/pipelines/payments?tab=spec")
    expect(page.locator("pre.text")).to_contain_text("topics:")


def test_dead_letters_are_narrowed_by_facets_and_the_address_says_so(page: Page) -> None:
    open_page(page, "/dead-letters")
    page.get_by_role("link", name="decode 7").click()
    expect(page).to_have_url(re.compile("stage=decode"))
    expect(page.locator("tbody tr")).to_have_count(7)
    page.get_by_role("link", name="Without stage").click()
    expect(page.locator("tbody tr")).to_have_count(42)


def test_dead_letters_are_searched(page: Page) -> None:
    open_page(page, "/dead-letters")
    page.keyboard.press("/")
    page.keyboard.type("address")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("text=address"))
    expect(page.locator("tbody tr")).to_have_count(3)


def test_a_dead_letter_with_all_that_is_known_of_it(page: Page) -> None:
    open_page(page, "/dead-letters?fingerprint=f-binary")
    page.locator("tbody tr a").first.click()
    expect(page.locator("h1")).to_have_text("payments/0@60")
    expect(page.locator("pre.hex:visible")).to_contain_text("00 01 02 03")
    expect(page.get_by_text("00 01 fe (bytes)")).to_be_visible()
    expect(page.locator("pre.stack")).to_contain_text("booking.py")
    page.get_by_role("tab", name="Decoders").click()
    first = page.locator(".tab-panel .card").first
    expect(first).to_contain_text("json")
    expect(first).to_contain_text("the pipeline's own")
    expect(first).to_contain_text("not JSON")


def test_a_discard_wants_a_reason(page: Page) -> None:
    open_page(page, "/dead-letters?fingerprint=f-null")
    page.locator("tbody tr a").first.click()
    page.get_by_role("button", name="Discard…").click()
    page.get_by_role("button", name="Discard", exact=True).click()
    expect(page.get_by_text("A reason is wanted")).to_be_visible()
    page.get_by_label("Reason").fill("a test order")
    page.get_by_label("Reason").press("Enter")
    expect(page.get_by_text("1 dead letters are discarded.")).to_be_visible()
    page.goto("/dead-letters?status=discarded")
    expect(page.locator("tbody tr")).to_have_count(1)


def test_a_replay_is_tried_dry_first_and_needs_an_instance(page: Page) -> None:
    open_page(page, "/dead-letters?pipeline=shipments")
    page.get_by_role("button", name="Replay all…").click()
    expect(page.get_by_text("A dry run: nothing has been done yet.")).to_be_visible()
    page.get_by_role("button", name="Replay 3 dead letters").click()
    expect(page.get_by_text("the instance has not started yet")).to_be_visible()


def test_selected_letters_only(page: Page) -> None:
    open_page(page, "/dead-letters?pipeline=shipments")
    page.locator("tbody tr .q-checkbox").nth(0).click()
    page.locator("tbody tr .q-checkbox").nth(1).click()
    page.get_by_role("button", name="Replay 2…").click()
    expect(page.get_by_role("button", name="Replay 2 dead letters")).to_be_visible()


def test_an_edit_shows_its_difference(page: Page) -> None:
    open_page(page, "/dead-letters?fingerprint=f-amount")
    page.locator("tbody tr a").first.click()
    page.get_by_role("button", name="Edit and replay…").click()
    field = page.get_by_label("Value", exact=True)
    field.fill(field.input_value().replace('"twelve"', "12"))
    page.get_by_role("button", name="Show difference").click()
    expect(page.locator(".diff .del")).to_contain_text("twelve")
    expect(page.locator(".diff .add")).to_contain_text('"amount": 12')
    field.fill("null")
    expect(page.locator(".diff")).to_have_count(0)
    page.mouse.click(5, 400)  # beside it: what was written stays
    expect(field).to_have_value("null")
    field.press("Escape")
    expect(field).to_be_hidden()


def test_bytes_are_edited_as_hex_and_nonsense_is_refused(page: Page) -> None:
    open_page(page, "/dead-letters?fingerprint=f-binary")
    page.locator("tbody tr a").first.click()
    page.get_by_role("button", name="Edit and replay…").click()
    page.get_by_label("Value", exact=True).fill("zz")
    page.get_by_role("button", name="Replay with this value").click()
    expect(page.get_by_text("this is no hex")).to_be_visible()


def test_offsets_of_a_cluster_that_is_away_are_refused_in_words(page: Page) -> None:
    open_page(page, "/pipelines/payments")
    page.get_by_role("button", name="Offsets…").click()
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".ask .problem")).to_contain_text("127.0.0.1:1", timeout=30_000)
    expect(page.get_by_role("button", name="Reset offsets")).to_be_disabled()


def test_instances(page: Page) -> None:
    open_page(page, "/instances")
    expect(page.locator("tbody tr")).to_contain_text("plant-1-4711-a1b2c3")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/pipelines/nothing", "no such pipeline"),
        ("/dead-letters/999999", "no such dead letter"),
        ("/dead-letters/x", "named by its number"),
        ("/dead-letters?stage=nowhere", "stage"),
        ("/dead-letters?since=yesterday", "since is no time"),
        ("/jobs/replay-99", "no such job"),
        ("/topics/browse", "which topic?"),
    ],
)
def test_an_address_that_is_wrong_is_answered_in_words(page: Page, path: str, says: str) -> None:
    open_page(page, path)
    expect(page.locator(".problem")).to_contain_text(says)


def test_an_address_without_a_page_is_answered_with_the_way_on(context: BrowserContext) -> None:
    page = context.new_page()
    answer = page.goto("/pipelins/payments")
    assert answer is not None
    assert answer.status == 404
    expect(page.locator("h1")).to_have_text("There is no such page")
    page.locator(".main").get_by_role("link", name="Dead letters").click()
    expect(page.locator("h1")).to_have_text("Dead letters")


def test_keys_lead_to_places(page: Page) -> None:
    open_page(page, "/")
    page.keyboard.press("?")
    expect(page.locator("dialog.keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("d")
    expect(page).to_have_url(re.compile("/dead-letters$"))
    page.keyboard.press("g")
    page.keyboard.press("p")
    expect(page.locator("h1")).to_have_text("Pipelines")


def test_the_theme_is_remembered(page: Page) -> None:
    open_page(page, "/")
    page.get_by_role("button", name="Light or dark").click()
    expect(page.locator("body")).to_have_class(re.compile("body--light"))
    page.get_by_role("button", name="Light or dark").click()
    expect(page.locator("body")).to_have_class(re.compile("body--dark"))
    page.goto("/dead-letters")
    expect(page.locator("body")).to_have_class(re.compile("body--dark"))


def test_tokens_are_shown_once(page: Page) -> None:
    open_page(page, "/users")
    page.get_by_role("button", name="New token…").click()
    page.get_by_label("Name").fill("ci")
    page.get_by_role("button", name="Make").click()
    expect(page.locator(".ask pre.text")).to_contain_text("pst_")
    page.mouse.click(5, 400)
    page.keyboard.press("Escape")
    page.get_by_label("Name").press("Enter")
    expect(page.locator(".ask pre.text")).to_be_visible()
    page.get_by_role("button", name="Close").click()
    expect(page.locator("tbody tr")).to_contain_text("ci")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert page.locator("pre.text").count() == 0
