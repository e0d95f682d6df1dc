"""New pipelines and workflows are written in a real browser, refused with reasons, kept, changed and taken back."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from penstock.console import starters
from tests.faces.console.conftest import served
from tests.faces.console.steering import KEPT

TAKEN = KEPT.replace("kept-orders", "orders-by-hand")
FLOW = """\
kind: workflow
project: health
name: by hand
steps:
  - name: first
    http: http://localhost/first
"""
SECOND = """\
  - name: second
    http: http://localhost/second
edges:
  - {from: first, to: second, when: success}
"""


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("documents"), module="steering") as address:
        yield address


def write(page: Page, document: str) -> None:
    page.get_by_label("Document").fill(document)


def steps(page: Page) -> Locator:
    return page.locator("svg.workflow .node .what")


def test_a_pipeline_is_made(page: Page) -> None:
    page.goto("/")
    page.get_by_role("button", name="New pipeline…").click()
    write(page, TAKEN.replace("format: json", "format: jsn"))
    page.get_by_role("button", name="Create").click()
    expect(page.locator(".finding.bad")).to_contain_text("Problem: line 7, column 5, source.config.format")
    write(page, KEPT)
    page.get_by_role("button", name="Create").click()
    expect(page.locator(".problem")).to_contain_text("of this name")
    write(page, TAKEN)
    page.get_by_role("button", name="Create").click()
    expect(page).to_have_url(re.compile(r"/pipelines/orders-by-hand\?tab=spec"))
    expect(page.get_by_label("Document")).to_have_value(TAKEN)
    page.goto("/")
    expect(page.get_by_role("link", name="orders-by-hand")).to_be_visible()


def test_what_is_being_written_outlives_a_reload_and_nothing_more(page: Page) -> None:
    page.goto("/new/pipeline")
    write(page, "name: half-written\n")
    page.reload()
    expect(page.get_by_label("Document")).to_have_value("name: half-written\n")
    # The server knows it too.
    page.get_by_role("button", name="Check").click()
    expect(page.locator(".finding.bad").first).to_contain_text("Problem")
    page.goto("/workflows")
    page.goto("/new/pipeline")
    expect(page.get_by_label("Document")).to_have_value(next(iter(starters.PIPELINES.values())))


@pytest.mark.parametrize(("kind", "documents"), [("pipeline", starters.PIPELINES), ("workflow", starters.WORKFLOWS)])
def test_what_new_ones_begin_with_can_be_used(page: Page, kind: str, documents: dict[str, str]) -> None:
    page.goto(f"/new/{kind}")
    for name, document in documents.items():
        page.get_by_label("Begin with").click()
        page.get_by_role("option", name=name).click()
        expect(page.get_by_label("Document")).to_have_value(document)
        # Addresses are another's; whether they can be reached from here is not what is asked.
        write(page, document.replace("https://example.org", "http://localhost"))
        page.get_by_role("button", name="Check").click()
        expect(page.get_by_text("No problem was found.")).to_be_visible()


def test_a_workflow_is_made_changed_and_taken_back(page: Page) -> None:
    page.goto("/workflows")
    page.get_by_role("button", name="New workflow…").click()
    write(page, FLOW.replace("http:", "htp:", 1))
    page.get_by_role("button", name="Create").click()
    expect(page.locator(".finding.bad").first).to_contain_text("Problem: line")
    write(page, FLOW)
    page.get_by_role("button", name="Create").click()
    expect(page.locator("h1")).to_have_text("by hand")
    expect(steps(page)).to_have_text(["first"])

    write(page, FLOW + SECOND)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved; runs that begin from now on use it.")).to_be_visible()
    expect(steps(page)).to_have_text(["first", "second"])
    versions = page.get_by_label("Versions").locator("tbody tr")
    expect(versions).to_have_count(2)
    page.get_by_role("button", name=re.compile("^Compare")).click()
    expect(page.locator(".diff .add").filter(has_text="second").first).to_be_visible()
    page.get_by_role("button", name="Close").click()

    other = page.context.new_page()
    other.goto(page.url)
    page.get_by_role("button", name=re.compile("^Write it here")).click()
    expect(page.get_by_label("Document")).not_to_have_value(re.compile("second"))
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved; runs that begin from now on use it.")).to_be_visible()
    expect(steps(page)).to_have_text(["first"])

    write(other, FLOW.replace("/first", "/other"))
    other.get_by_role("button", name="Save").click()
    expect(other.get_by_text("the workflow was changed meanwhile")).to_be_visible()
    expect(other.locator(".diff .add").filter(has_text="/other")).to_be_visible()
    other.get_by_role("button", name="Begin again from what is kept now").click()
    expect(steps(other)).to_have_text(["first"])
