"""Jobs over dead letters that another instance does, on the pages of this one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from penstock.service.letter_jobs import LetterJobs
from penstock.store import Store
from tests.faces.console.conftest import served
from tests.support.letter_jobs import Steps


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jobs")


@pytest.fixture(scope="module")
def console(folder: Path) -> Iterator[str]:
    with served(folder) as address:
        yield address


def test_a_job_of_another_instance_is_followed_stopped_and_kept(page: Page, folder: Path) -> None:
    with Store.open(f"sqlite:///{folder / 'penstock.db'}") as store:
        work, jobs = Steps(total=5_000), LetterJobs(store, lambda: "plant-2-815-d4e5f6")
        jobs.begin("replay", work, by="ada", what="pipeline=orders", pipelines=["orders"])
        page.goto("/jobs")
        row = page.locator("tbody tr").filter(has_text="pipeline=orders")
        expect(row).to_contain_text("running")
        row.get_by_role("link", name="replay of dead letters").click()
        expect(page.get_by_role("heading", name="Replay of dead letters")).to_be_visible()
        expect(page.get_by_text("plant-2-815-d4e5f6")).to_be_visible()
        for turns, done in ((7, "7 of 5,000"), (3, "10 of 5,000")):
            work.turns.release(turns)
            expect(page.get_by_text(done, exact=True)).to_be_visible()
        page.get_by_role("button", name="Stop").click()
        expect(page.locator(".chip").filter(has_text="stopped")).to_be_visible()
        expect(page.get_by_text("10 succeeded, 0 failed again.")).to_be_visible()
        jobs.close()
    page.reload()
    expect(page.locator(".chip").filter(has_text="stopped")).to_be_visible()
