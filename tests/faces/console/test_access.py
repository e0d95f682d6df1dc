"""Who is let in, and what each role is shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.faces.console.conftest import served
from tests.faces.console.seeding import PASSWORD


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("login")


@pytest.fixture(scope="module")
def console(home: Path) -> Iterator[str]:
    with served(home, "--login") as address:
        yield address


def log_in(page: Page, user: str, password: str = PASSWORD) -> None:
    page.get_by_label("E-mail address").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def test_whoever_logs_in_comes_to_where_they_wanted_to_go(page: Page) -> None:
    page.goto("/dead-letters?stage=decode")
    expect(page).to_have_url(re.compile("/login"))
    log_in(page, "ada@example.org")
    expect(page).to_have_url(re.compile(r"/dead-letters\?stage=decode"))
    expect(page.locator("tbody tr")).to_have_count(7)
    expect(page.get_by_text("ada@example.org")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile("/login"))
    page.goto("/")
    expect(page).to_have_url(re.compile("/login"))


def test_a_wrong_password_is_refused_in_words(context: BrowserContext) -> None:
    page = context.new_page()
    page.goto("/login")
    log_in(page, "ada@example.org", "something else")
    expect(page.locator("#refused")).to_contain_text("the user or the password is wrong")


def test_the_first_admin_logs_in_with_the_first_token(page: Page, home: Path) -> None:
    page.goto("/users")
    page.get_by_text("Log in with a token").click()
    page.get_by_label("Token").fill((home / "first-token").read_text().strip())
    page.get_by_role("button", name="Use token").click()
    expect(page).to_have_url(re.compile("/users"))
    expect(page.get_by_role("button", name="New user…")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile("/login"))


def test_a_link_logs_nobody_out(context: BrowserContext) -> None:
    page = context.new_page()
    page.goto("/")
    log_in(page, "ada@example.org")
    expect(page.locator("h1")).to_have_text("Pipelines")
    page.goto("/logout")
    page.goto("/")
    expect(page.locator("h1")).to_have_text("Pipelines")


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example/", "/\\evil.example"])
def test_a_log_in_leads_nowhere_else(page: Page, console: str, elsewhere: str) -> None:
    page.goto(f"/login?next={elsewhere}")
    log_in(page, "vera@example.org")
    expect(page).to_have_url(f"{console}/")


def test_a_viewer_is_shown_no_buttons(page: Page) -> None:
    page.goto("/")
    log_in(page, "vera@example.org")
    expect(page.locator("h1")).to_have_text("Pipelines")
    assert page.locator("button.act").filter(has_text="Pause").count() == 0
    expect(page.get_by_role("link", name="Audit")).to_have_count(0)
    page.keyboard.press("?")
    expect(page.locator("dialog.keys")).to_contain_text("Dead letters")
    expect(page.locator("dialog.keys")).not_to_contain_text("Audit")
    page.keyboard.press("Escape")
    page.goto("/pipelines/payments")
    expect(page.locator("h1")).to_have_text("payments")
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)
    page.goto("/audit")
    expect(page.locator(".problem")).to_contain_text("admin")
    page.goto("/dead-letters/1")
    expect(page.locator("h1")).to_be_visible()
    expect(page.get_by_role("button", name="Replay")).to_have_count(0)


def test_a_viewer_looks_at_work_orders_and_changes_none(page: Page) -> None:
    page.goto("/history")
    log_in(page, "vera@example.org")
    expect(page.locator("h1")).to_have_text("History")
    expect(page.locator("tbody tr")).to_have_count(10)
    expect(page.get_by_role("button", name="Retry all…")).not_to_be_visible()
    page.locator("td.lead a").first.click()
    expect(page.locator("pre.text")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Retry|Cancel"))).to_have_count(0)
    page.goto("/history/bulk?kind=retry&state=failed")
    expect(page.locator(".problem")).to_contain_text("operator")
    page.goto("/triggers/new")
    expect(page.locator(".empty")).to_contain_text("Your role lets you look")
    page.goto("/triggers")
    page.get_by_role("link", name="lab-topic").click()
    expect(page.locator("h1")).to_have_text("lab-topic")
    expect(page.get_by_role("button", name=re.compile("Save|Enable|Delete|Test"))).to_have_count(0)


def test_a_page_that_stays_open_after_the_log_out_can_do_nothing(page: Page) -> None:
    page.goto("/")
    log_in(page, "otto@example.org")
    expect(page.get_by_role("button", name="Pause large-orders")).to_be_visible()
    other = page.context.new_page()
    other.goto("/")
    other.get_by_role("button", name="Log out").click()
    expect(other).to_have_url(re.compile("/login"))
    # A page asks again who has opened it after ten seconds.
    expect(page.locator(".banner")).to_contain_text("Log in again", timeout=30_000)
    page.get_by_role("button", name="Pause large-orders").click()
    expect(page.get_by_text("nobody has logged in")).to_be_visible()


def test_a_role_is_changed(page: Page) -> None:
    page.goto("/users")
    log_in(page, "ada@example.org")
    row = page.get_by_label("Users", exact=True).locator("tbody tr").filter(has_text="otto@example.org")
    for before, after in (("operator", "admin"), ("admin", "operator")):
        expect(row).to_contain_text(before)
        page.get_by_role("button", name="Role… otto@example.org").click()
        page.get_by_label("Role", exact=True).click()
        page.get_by_role("option", name=after).click()
        page.get_by_role("button", name="Set role").click()
        expect(row).to_contain_text(after)
