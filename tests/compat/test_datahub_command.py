"""A file written for DataHub Actions, run by `penstock actions` on a real broker: Slack gets its messages through an
outage, a refused one is kept, and the statistics are DataHub's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.behaviour.act.hook_server import Answer, HookServer, Request
from tests.support.datahub import Records
from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaBroker
from tests.support.registry import RegistryServer
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FILE = """\
name: Tell Tags
enabled: ${{TELL_TAGS_ENABLED:-yes}}
source:
  type: "kafka"
  config:
    connection:
      bootstrap: ${{KAFKA_BOOTSTRAP_SERVER}}
      schema_registry_url: ${{SCHEMA_REGISTRY_URL:-http://localhost:8081}}
      consumer_config:
        auto.offset.reset: earliest
        max.poll.interval.ms: 10000
    topic_routes: {{pe: "{topic}"}}
    async_commit_enabled: false
filters:
  - type: event_type
    config:
      filter:
        EntityChangeEvent_v1:
          event: [{{category: TAG}}, {{category: OWNERSHIP}}]
filter:
  event_type: EntityChangeEvent_v1
  event: {{operation: ADD}}
action:
  type: slack
  config:
    bot_token: ${{SLACK_BOT_TOKEN}}
    signing_secret: ${{SLACK_SIGNING_SECRET}}
    default_channel: data
    api_url: ${{SLACK_API}}
    allow_private: true
options:
  retry_count: 1
  failed_events_dir: {failed}
"""


class Slack:
    """Is away for the second message, and refuses the one about table 7."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self._away = [False, True, True]

    def __call__(self, request: Request) -> Answer:
        if self._away and self._away.pop(0):
            return Answer(503, {"Retry-After": "1"})
        text = json.loads(request.body)["text"]
        if "shop.table7" in text:
            return Answer(body=b'{"ok": false, "error": "msg_too_long"}')
        self.told.append(text)
        return Answer(body=b'{"ok": true}')


def test_a_file_of_a_site(
    kafka: KafkaBroker, registry: RegistryServer, topic: Callable[..., str], tmp_path: Path
) -> None:
    records, events, slack = Records(registry), topic(), Slack()
    kafka.produce(
        events,
        [
            records.entity_change(1, "TAG", modifier="urn:li:tag:pii"),
            records.entity_change(2, "TAG", "REMOVE"),
            records.entity_change(3, "DOMAIN"),
            records.platform_event("somethingElse", {}),
            records.entity_change(7, "TAG"),
            records.entity_change(4, "OWNERSHIP", modifier="urn:li:corpuser:jdoe"),
        ],
    )
    failed = tmp_path / "failed"
    (tmp_path / "tags.yaml").write_text(FILE.format(topic=events, failed=failed))
    with HookServer(slack) as server:
        env = {
            "KAFKA_BOOTSTRAP_SERVER": kafka.bootstrap,
            "SCHEMA_REGISTRY_URL": registry.url,
            "SLACK_BOT_TOKEN": "xoxb-topsecret9",
            "SLACK_SIGNING_SECRET": "hunter22",
            "SLACK_API": f"http://127.0.0.1:{server.port}/api",
        }
        args = ["actions", "--debug", "run", "-c", tmp_path / "tags.yaml"]
        with PenstockProcess(args, folder=tmp_path / "run", env=env) as process:
            until(lambda: len(slack.told) == 3, 120, lambda: (slack.told, process._story()))
            until(lambda: process.metric("kafka_offset", pipeline_name="Tell Tags") == 5, 30, process._story)
            assert process.stop() == 0
    welcome, first, second = slack.told
    assert "*Tell Tags*" in welcome
    assert first.startswith("*user1* added tag *pii* on hive dataset <http://localhost:9002/dataset/urn:li:dataset:")
    assert second.startswith("*user1* added ownership *jdoe* on hive dataset <")
    stats = json.loads(process.stdout.partition("Statistics of pipeline Tell Tags")[2].partition("\n\n")[2])
    assert stats["filter_stats"] == {
        "EventTypeFilter": {"processed_count": 5, "filtered_count": 1, "exception_count": 0}
    }
    passed = stats["transformer_stats"]["FilterTransformer"]
    assert (passed["filtered_count"], passed["exception_count"]) == (1, 0)
    assert stats["action_stats"]["success_count"] == 2
    assert stats["action_stats"]["exception_count"] == 1, "what can never succeed is not tried twice"
    assert (stats["failed_event_count"], stats["success_count"]) == (1, 5)
    (line,) = (failed / "tell_tags" / "failed_events.log").read_text().splitlines()
    assert json.loads(line)["event"]["entityUrn"].endswith("shop.table7,PROD)")
    assert "topsecret9" not in process.stdout + process.log
    assert "hunter22" not in process.stdout + process.log
    assert "once per window" in process.stdout  # the note on async_commit_enabled
