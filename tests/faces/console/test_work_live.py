"""The console of a real instance: a trigger is made with a wrong password, corrected, and its work order arrives."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from penstock.config.spec import ConnectionSpec
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.producer import NewRecord, produce
from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaBroker

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

STEP = """\
def check(state):
    print("patient", state["data"]["patient"])
    return state
"""
WORKFLOW = """\
kind: workflow
project: clinic
name: Lab results
steps: [{name: check, python: "./lab.py:check"}]
"""
WRONG, RIGHT = "s3cret-wrong", "s3cret-app"


@pytest.fixture(scope="module")
def topic(secure_kafka: KafkaBroker) -> str:
    name = secure_kafka.create_topic(f"lab-{os.getpid()}", 1)
    client = KafkaClientConfig.of(ConnectionSpec(bootstrap=secure_kafka.bootstrap))
    produce(client, [NewRecord(name, value, b"p-88") for value in (b"no json", b'{"patient": "p-88"}')])
    return name


@pytest.fixture(scope="module")
def console(topic: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of an instance, in place of the seeded one."""
    folder: Path = tmp_path_factory.mktemp("live")
    (folder / "lab.py").write_text(STEP)
    (folder / "lab.yaml").write_text(WORKFLOW)
    env = {"PENSTOCK_API_NETWORKS": "127.0.0.1"}
    with PenstockProcess(["run", folder / "lab.yaml"], folder=folder, env=env) as process:
        process.wait_ready(120)
        yield f"http://127.0.0.1:{process.http_port}"


def test_a_wrong_password_is_read_corrected_and_a_work_order_arrives(
    page: Page, secure_kafka: KafkaBroker, topic: str
) -> None:
    page.goto("/triggers")
    page.get_by_role("button", name="New trigger…").click()
    page.get_by_label("Hosts").fill(secure_kafka.bootstrap_for("SASL_PLAINTEXT"))
    page.get_by_label("Topics").fill(topic)
    page.get_by_label("Authentication (SASL)").click()
    page.get_by_role("option", name="plain").click()
    page.get_by_label("User name").fill("app")
    page.get_by_label("Password", exact=True).fill(WRONG)
    page.get_by_role("button", name="Test connection").click()
    step = page.locator(".step")
    expect(step.filter(has_text="SASL")).to_contain_text("failed", timeout=60_000)
    expect(step.filter(has_text="TCP")).to_contain_text("ok")
    assert WRONG not in page.locator(".steps").inner_text()

    page.get_by_label("Password", exact=True).fill(RIGHT)
    page.get_by_role("button", name="Test connection").click()
    expect(page.get_by_text("The cluster can be reached with these settings.")).to_be_visible(timeout=60_000)
    page.get_by_role("button", name="Preview messages").click()
    preview = page.get_by_label("What messages would become").locator("tbody tr")
    expect(preview).to_have_count(2, timeout=60_000)
    expect(preview.filter(has_text="dead letter")).to_have_count(1)
    expect(preview.filter(has_text="work order")).to_contain_text("p-88")

    page.get_by_role("button", name="Save trigger").click()
    expect(page.locator("h1")).to_have_text("kafka")
    assert RIGHT not in page.content()
    page.goto("/history")
    expect(page.locator("tbody tr .chip")).to_have_text("Success", timeout=60_000)
    page.locator("td.lead a").click()
    expect(page.locator("pre.text").first).to_contain_text("p-88")
    page.get_by_role("link", name="Run 1").click()
    expect(page.get_by_label("Log lines", exact=True)).to_contain_text("patient p-88")
    page.goto("/triggers")
    expect(page.locator("tbody tr")).to_contain_text(re.compile("running|idle"))

    page.goto("/")
    page.locator("tbody").get_by_role("link", name="clinic/Lab results/kafka").click()
    expect(page.locator("h1")).to_have_text("clinic/Lab results/kafka")
    page.get_by_role("link", name="The trigger that it runs for").click()
    expect(page).to_have_url(re.compile("/triggers/"))
