"""Workflows, work orders and runs in a real browser."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect


def open_lab(page: Page) -> None:
    page.goto("/workflows")
    page.get_by_role("link", name="Lab results").click()
    expect(page.locator("h1")).to_have_text("Lab results")


def test_workflows_are_listed_and_searched(page: Page) -> None:
    page.goto("/workflows")
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("tbody tr").first).to_contain_text("check → book → tell → archive")
    page.keyboard.press("/")
    page.keyboard.type("ward")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"\?q=ward"))
    expect(page.locator("tbody tr")).to_have_count(1)


def test_a_workflow_is_drawn(page: Page) -> None:
    open_lab(page)
    picture = page.locator("svg.workflow")
    expect(picture.locator(".node .what")).to_have_text(["lab-topic", "check", "book", "tell", "archive"])
    expect(picture.locator(".edge")).to_have_count(4)
    expect(picture.locator(".edge .when")).to_have_text(["success", "failure", "state.data.urgen…"])
    # The columns: what follows stands to the right of what it follows.
    places = {
        name: picture.locator(".node").filter(has_text=name).locator("rect").bounding_box()
        for name in ("lab-topic", "check", "book", "archive")
    }
    lefts = [box["x"] for box in places.values() if box]
    assert lefts == sorted(lefts)
    assert len(lefts) == len(set(lefts)) == 4


def test_a_workflow_is_run_by_hand(page: Page) -> None:
    open_lab(page)
    page.get_by_role("button", name="Run…").click()
    page.get_by_label("Input", exact=True).fill("[1, 2]")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".ask .problem")).to_contain_text("no object")
    page.get_by_label("Input", exact=True).fill('{"data": {"patient": "p-500"}}')
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page).to_have_url(re.compile("/runs/"))
    expect(page.locator("h1")).to_contain_text("Run")
    expect(page.locator(".head .chip")).to_have_text("Enqueued")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".head .chip")).to_have_text("Cancelled")


def test_a_run_shows_how_far_it_came(page: Page) -> None:
    page.goto("/history?search=p-6")
    page.locator("td.lead a").first.click()
    expect(page.locator(".head .chip")).to_have_text("Failed")
    expect(page.locator("pre.text").first).to_contain_text("p-6")
    page.get_by_role("link", name="Run 1").click()
    expect(page.locator("svg.workflow .node.bad .what")).to_have_text("check")
    expect(page.locator("svg.workflow .node.good .what")).to_have_text("tell")
    lines = page.get_by_label("Log lines").locator("tbody tr")
    expect(lines).to_have_count(3)
    page.get_by_label("Level", exact=True).click()
    page.get_by_role("option", name="error").click()
    expect(lines).to_have_count(1)
    expect(lines.first).to_contain_text("amount is no number")
    page.get_by_role("button", name="Output").first.click()
    expect(page.locator(".ask pre.text")).to_contain_text('"step": "check"')


def test_a_run_is_run_again_from_a_step(page: Page) -> None:
    page.goto("/history?search=p-9")
    page.locator("td.lead a").first.click()
    page.get_by_role("link", name="Run 1").click()
    page.get_by_role("button", name=re.compile("Rerun from here")).last.click()
    expect(page.get_by_text("from tell, by")).to_be_visible()
    expect(page.locator(".head .chip")).to_have_text("Enqueued")


def test_an_order_is_retried_and_cancelled(page: Page) -> None:
    page.goto("/history?search=p-12")
    page.locator("td.lead a").first.click()
    page.get_by_role("button", name="Retry", exact=True).click()
    expect(page.get_by_role("link", name="Run 2")).to_be_visible()
    expect(page.locator(".head .chip")).to_have_text("Enqueued")
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.locator(".head .chip")).to_have_text("Cancelled")


def test_keys_lead_to_history_workflows_and_triggers(page: Page) -> None:
    page.goto("/instances")
    for key, name in (("h", "History"), ("w", "Workflows"), ("r", "Triggers")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.locator("h1")).to_have_text(name)


def test_home_leads_to_the_work_orders(page: Page) -> None:
    page.goto("/")
    page.locator(".main").get_by_role("link", name="History of work orders").click()
    expect(page.locator("h1")).to_have_text("History")


def test_a_deleted_workflow_leaves_its_history(page: Page) -> None:
    page.goto("/workflows?q=ward")
    page.get_by_role("link", name="Ward visits").click()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.goto("/history?workflow=Ward+visits&any_time=true")
    expect(page.locator("tbody tr").first).to_contain_text("deleted")
