"""The console of a real instance: what failed is found, fixed, replayed and seen to succeed."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from penstock.config.spec import ConnectionSpec
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.producer import NewRecord, produce
from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaBroker
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

BOOK = """\
def book(event):
    amount = float(event.event["amount"])
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{event.event['id']} {amount}\\n")
"""
PIPELINE = """\
name: payments
source:
  type: kafka
  config: {{connection: {{bootstrap: "{bootstrap}"}}, topics: [{topic}], format: json, start: earliest}}
action: {{type: python, config: {{callable: "booking.py:book"}}}}
"""
TABLE = """\
name: archive
source:
  type: kafka
  config: {{connection: {{bootstrap: "{bootstrap}"}}, topics: [{topic}], format: json, start: earliest}}
action:
  type: table
  config: {{url: "sqlite:///{folder}/archive.db", table: archive, columns: {{id: event.id}}, create: true}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("live")


@pytest.fixture(scope="module")
def topic(kafka: KafkaBroker) -> str:
    name = kafka.create_topic(f"payments-{os.getpid()}", 1)
    client = KafkaClientConfig.of(ConnectionSpec(bootstrap=kafka.bootstrap))
    values = [b'{"id": "p1", "amount": 10}', b'{"id": "p2", "amount": "twelve"}', b'{"id": "p3", "amount": 3.5}']
    produce(client, [NewRecord(name, value, b"k") for value in values])
    return name


@pytest.fixture(scope="module")
def console(kafka: KafkaBroker, topic: str, folder: Path) -> Iterator[str]:
    """Of an instance, in place of the seeded one."""
    (folder / "booking.py").write_text(BOOK)
    (folder / "payments.yaml").write_text(PIPELINE.format(bootstrap=kafka.bootstrap, topic=topic))
    (folder / "archive.yaml").write_text(TABLE.format(bootstrap=kafka.bootstrap, topic=topic, folder=folder))
    with PenstockProcess(["run", folder / "payments.yaml", folder / "archive.yaml"], folder=folder) as process:
        process.wait_ready(120)
        yield f"http://127.0.0.1:{process.http_port}"


def ledger(folder: Path) -> list[str]:
    file = folder / "ledger.txt"
    return file.read_text().splitlines() if file.exists() else []


def test_a_failing_pipeline_is_found_its_event_fixed_replayed_and_seen_to_succeed(page: Page, folder: Path) -> None:
    page.goto("/")
    row = page.locator("tbody tr").filter(has_text="payments")
    expect(row.get_by_role("link", name="1", exact=True)).to_be_visible(timeout=60_000)
    row.get_by_role("link", name="1", exact=True).click()
    expect(page).to_have_url(re.compile("pipeline=payments"))
    page.locator("tbody tr a").filter(has_text="could not convert").click()
    expect(page.locator("pre.text:visible").first).to_contain_text("twelve")
    page.get_by_role("button", name="Edit and replay…").click()
    field = page.get_by_label("Value", exact=True)
    field.fill(field.input_value().replace('"twelve"', "12"))
    page.get_by_role("button", name="Show difference").click()
    expect(page.locator(".diff .add")).to_contain_text('"amount": 12')
    page.get_by_role("button", name="Replay with this value").click()
    expect(page.get_by_text("1 succeeded, 0 failed again.")).to_be_visible(timeout=60_000)
    assert ledger(folder) == ["p1 10.0", "p3 3.5", "p2 12.0"]
    page.goto("/dead-letters?status=replayed")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.goto("/audit")
    expect(page.locator("tbody tr").first).to_contain_text("dead_letters.edit")


def test_the_stages_tell_how_long_they_take(page: Page) -> None:
    page.goto("/pipelines/payments")
    expect(page.locator(".stage").first).to_contain_text("3 read")
    expect(page.locator(".stage").last).to_contain_text("p50")


def test_a_topic_is_looked_into_with_every_decoder(page: Page, topic: str) -> None:
    page.goto(f"/topics/browse?pipeline=payments&topic={topic}")
    expect(page.locator("tbody tr")).to_have_count(3, timeout=30_000)
    page.locator("tbody tr").filter(has_text="twelve").get_by_role("button").click()
    first = page.locator(".ask .card").first
    expect(first).to_contain_text("json", timeout=30_000)
    expect(first).to_contain_text("decoded")
    expect(page.locator(".ask .card").filter(has_text="avro")).to_contain_text("failed")
    value = page.locator(".ask pre.text").first
    assert value.evaluate("(e) => e.clientHeight >= e.scrollHeight"), "the value is cut off where the dialog is full"


def test_errors_appear_on_a_page_that_is_open(page: Page, kafka: KafkaBroker, topic: str) -> None:
    page.goto("/pipelines/payments?tab=errors")
    rows = page.get_by_label("Errors", exact=True).locator("tbody tr")
    expect(rows.filter(has_text="could not convert")).to_have_count(1)
    expect(page.locator(".banner")).not_to_contain_text("open dead letter")
    letters = page.context.new_page()
    letters.goto("/dead-letters?pipeline=payments")
    expect(letters.locator("tbody tr")).to_have_count(1)
    since = letters.get_by_text("Others have failed since this list was made.")
    expect(since).to_be_hidden()
    client = KafkaClientConfig.of(ConnectionSpec(bootstrap=kafka.bootstrap))
    produce(client, [NewRecord(topic, b'{"id": "p9"}', b"k")])
    expect(rows.filter(has_text="KeyError")).to_have_count(1)
    expect(page.locator(".banner")).to_contain_text("1 open dead letter")
    expect(since).to_be_visible()
    letters.get_by_role("link", name="Show them").click()
    expect(letters.locator("tbody tr")).to_have_count(2)
    expect(since).to_be_hidden()


def test_offsets_are_reset_after_a_look_at_what_that_does(page: Page, folder: Path) -> None:
    before = ledger(folder)
    page.goto("/pipelines/payments")
    page.get_by_role("button", name="Offsets…").click()
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".ask")).to_contain_text("4 would be worked on again", timeout=30_000)
    assert ledger(folder) == before
    reset, partition = page.get_by_role("button", name="Reset offsets"), page.get_by_label("Only partition")
    expect(reset).to_be_enabled()
    partition.fill("1.5")
    expect(reset).to_be_disabled()
    expect(page.locator(".ask")).not_to_contain_text("would be worked on again")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".ask .problem")).to_contain_text("a partition is named by its number")
    partition.fill("")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".ask")).to_contain_text("4 would be worked on again")
    reset.click()
    expect(page.get_by_text("payments: offsets are set")).to_be_visible(timeout=60_000)
    page.goto("/pipelines/payments?tab=history")
    expect(page.locator("tbody")).to_contain_text("offsets set to earliest")


def archived(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "archive.db")) as database:
        return sorted(row[0] for row in database.execute("SELECT id FROM archive"))


def test_offsets_of_a_table_are_reset_with_its_cursor(page: Page, folder: Path) -> None:
    until(lambda: len(archived(folder)) >= 3, 60, lambda: archived(folder))
    before = archived(folder)
    page.goto("/pipelines/archive")
    page.get_by_role("button", name="Offsets…").click()
    expect(page.locator(".ask .note")).to_contain_text("what is repeated is written again")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".ask")).to_contain_text(f"{len(before)} would be worked on again")
    page.get_by_role("button", name="Reset offsets").click()
    expect(page.get_by_text("archive: offsets are set")).to_be_visible()
    until(lambda: archived(folder) == sorted(before * 2), 60, lambda: archived(folder))
