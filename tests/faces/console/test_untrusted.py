"""Events are text, wherever they are shown."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.faces.console.seeding import MARKUP

PLACES = ("/dead-letters?fingerprint=f-markup", "/pipelines/payments?tab=errors", "/dead-letters?text=onerror")


def unharmed(page: Page) -> None:
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src=x]").count() == 0


@pytest.mark.parametrize("path", PLACES)
def test_markup_in_lists_stays_text(page: Page, path: str) -> None:
    page.goto(path)
    expect(page.locator("tbody").get_by_text(MARKUP).first).to_be_visible()
    unharmed(page)


def test_markup_and_marks_in_a_letter_stay_text(page: Page) -> None:
    page.goto("/dead-letters?fingerprint=f-markup")
    page.locator("tbody tr a").first.click()
    expect(page.locator("pre.text:visible").first).to_contain_text("<img src=x onerror=")
    expect(page.locator(".main")).to_contain_text("safe\\u202etxt.exe\\u2066 \\x1b[31mred")
    assert "\u202e" not in page.locator(".main").inner_text()
    unharmed(page)
    page.get_by_role("button", name="Edit and replay…").click()
    assert "\u202e" not in page.get_by_label("Value", exact=True).input_value()
    page.get_by_role("button", name="Show difference").click()
    unharmed(page)


def test_a_name_in_the_address_stays_text(page: Page) -> None:
    page.goto("/pipelines/%3Cscript%3Ewindow.hacked%3D1%3C%2Fscript%3E")
    expect(page.locator(".problem")).to_contain_text("<script>window.hacked=1</script>")
    unharmed(page)


def test_scripts_that_the_server_did_not_write_do_not_run(context: BrowserContext) -> None:
    page = context.new_page()
    policy = page.goto("/instances").all_headers()["content-security-policy"]
    assert "'unsafe-inline'" not in policy.partition("style-src")[0]
    assert "frame-ancestors 'none'" in policy
    violated = page.evaluate(
        """() => new Promise(done => {
            addEventListener('securitypolicyviolation', event => done(event.violatedDirective));
            document.body.insertAdjacentHTML('beforeend', '<img src=/_console/mark.svg onload="window.hacked=1">');
        })"""
    )
    assert violated == "script-src-attr"
    unharmed(page)
