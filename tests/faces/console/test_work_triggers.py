"""Triggers in a real browser: made, tried, changed, switched and deleted; their secrets are never shown again."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.faces.console.work_seeding import SECRET


def open_lab_topic(page: Page) -> None:
    page.goto("/triggers")
    page.get_by_role("link", name="lab-topic").click()
    expect(page.locator("h1")).to_have_text("lab-topic")


def test_triggers_are_listed(page: Page) -> None:
    page.goto("/triggers")
    row = page.locator("tbody tr").filter(has_text="lab-topic")
    expect(row).to_contain_text("clinic/Lab results")
    expect(row.locator(".chip")).to_have_text("disabled")
    expect(row).to_contain_text("lab-results")


def test_a_form_says_what_is_wrong_on_each_field(page: Page) -> None:
    page.goto("/triggers/new")
    page.get_by_label("Hosts").fill("broker-a:99999")
    page.get_by_label("Topics").fill("")
    page.get_by_label("Begin at, without a committed offset").fill("175500000012")
    expect(page.get_by_label("Password", exact=True)).not_to_be_visible()
    page.get_by_label("Authentication (SASL)").click()
    page.get_by_role("option", name="plain").click()
    page.get_by_label("Password", exact=True).fill("x")
    page.get_by_role("button", name="Save trigger").click()
    wrong = page.locator(".q-field--error")
    expect(wrong).to_have_count(4)
    expect(wrong.filter(has=page.get_by_label("Hosts"))).to_contain_text("host:port")
    expect(wrong.filter(has=page.get_by_label("Topics"))).to_contain_text("topic_1, topic_2")
    expect(wrong.filter(has=page.get_by_label("Begin at"))).to_contain_text("12 digits")
    expect(wrong.filter(has=page.get_by_label("User name"))).to_contain_text("required with SASL")
    page.goto("/triggers")
    expect(page.locator("tbody tr")).to_have_count(1)


def test_a_cluster_that_is_away_is_told_step_by_step(page: Page) -> None:
    open_lab_topic(page)
    page.get_by_role("button", name="Test connection").click()
    step = page.locator(".step")
    expect(step.filter(has_text="TCP")).to_contain_text("failed", timeout=30_000)
    expect(step.filter(has_text="DNS")).to_contain_text("ok")
    expect(step.filter(has_text="Metadata")).to_contain_text("not tried")
    page.get_by_role("button", name="Preview messages").click()
    expect(page.locator(".problem")).to_contain_text("127.0.0.1:1", timeout=30_000)


def test_addresses_inside_the_house_are_not_connected_to(page: Page) -> None:
    page.goto("/triggers/new")
    page.get_by_label("Hosts").fill("169.254.169.254:80")
    page.get_by_label("Topics").fill("lab")
    page.get_by_role("button", name="Test connection").click()
    expect(page.locator(".q-field--error")).to_contain_text("169.254.169.254 is not a public address")


def test_a_trigger_is_made_changed_switched_and_deleted(page: Page) -> None:
    page.goto("/triggers/new")
    page.get_by_label("Name", exact=True).fill("second")
    page.get_by_label("Hosts").fill("127.0.0.1:1")
    page.get_by_label("Topics").fill("one, two")
    page.get_by_text("Enable it at once").click()
    page.get_by_role("button", name="Save trigger").click()
    expect(page.locator("h1")).to_have_text("second")
    expect(page.locator(".head .chip")).to_have_text("disabled")
    page.get_by_label("Topics").fill("one, three")
    page.get_by_text("More settings").click()
    page.get_by_label("Ordering").click()
    page.get_by_role("option", name="key").click()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved; instances")).to_be_visible()
    expect(page.get_by_label("Topics")).to_have_value("one, three")
    page.get_by_text("More settings").click()
    expect(page.get_by_label("Ordering")).to_have_value("key")
    page.get_by_role("button", name="Enable", exact=True).click()
    expect(page.get_by_text("second: enabled")).to_be_visible(timeout=30_000)
    page.get_by_role("button", name="Disable", exact=True).click()
    page.locator(".ask").get_by_role("button", name="Disable", exact=True).click()
    expect(page.locator(".head .chip")).to_have_text("disabled")
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator("h1")).to_have_text("Triggers")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.goto("/audit")
    expect(page.locator("tbody tr").first).to_contain_text("triggers.delete")


def test_a_password_is_kept_and_never_shown(page: Page) -> None:
    open_lab_topic(page)
    expect(page.get_by_label("Password", exact=True)).to_have_value("")
    expect(page.get_by_text("One is kept and not shown").first).to_be_visible()
    page.get_by_text("More settings").click()
    page.get_by_label("Comment").fill("of the laboratory")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved; instances")).to_be_visible()
    page.get_by_text("More settings").click()
    expect(page.get_by_label("Comment")).to_have_value("of the laboratory")
    assert SECRET not in page.content()
    page.goto("/audit")
    expect(page.locator("tbody tr").first).to_contain_text("triggers.replace")
    assert SECRET not in page.content()


def test_two_people_do_not_overwrite_each_other(page: Page) -> None:
    open_lab_topic(page)
    other = page.context.new_page()
    open_lab_topic(other)
    other.get_by_label("Topics").fill("lab-results, more")
    other.get_by_role("button", name="Save", exact=True).click()
    expect(other.get_by_text("Saved; instances")).to_be_visible()
    page.get_by_label("Topics").fill("something")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".problem")).to_contain_text(re.compile("changed|revision"))
    page.reload()
    expect(page.get_by_label("Topics")).to_have_value("lab-results, more")
