"""A search among so many dead letters that one page cannot tell of all: it says so, and goes on when asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.faces.console.conftest import served


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("console"), "--slow") as address:
        yield address


def test_a_search_that_takes_long_goes_on_from_where_it_has_come_to(page: Page) -> None:
    page.goto("/dead-letters?text=address")
    further = page.get_by_role("button", name="Search further back")
    found: set[str | None] = set()
    for _ in range(60):
        expect(page.locator("h1")).to_have_text("Dead letters")
        expect(further.or_(page.get_by_text("No dead letter is like this."))).to_be_visible()
        found.update(row.get_attribute("href") for row in page.locator("tbody a[href^='/dead-letters/']").all())
        if not further.is_visible():
            break
        before = page.url
        further.click()
        page.wait_for_url(lambda url, before=before: url != before)  # type: ignore[misc]  # its types know no default
    assert len(found) == 3
