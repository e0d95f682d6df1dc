"""Documents that new ones begin with: each can be used as soon as its addresses are one's own."""

from __future__ import annotations

from typing import Final

_SOURCE: Final = """\
source:
  type: kafka
  config:
    connection: {bootstrap: "localhost:9092"}
    topics: [orders]
    format: json
    start: earliest
"""

PIPELINES: Final = {
    "Post events to an HTTP address": f"""\
name: large-orders
{_SOURCE}\
filters:
  - {{type: cel, config: {{expression: "event.total > 100.0"}}}}
action:
  type: webhook
  config:
    url: https://example.org/hook
""",
    "Write events into a table": f"""\
name: orders-table
{_SOURCE}\
action:
  type: table
  config:
    url: postgresql://penstock@localhost/warehouse
    table: orders
    create: true
    mode: upsert
    keys: [id]
    columns:
      id: {{from: id, type: bigint}}
      total: {{from: total, type: float}}
""",
    "Reshape events and produce them to another topic": f"""\
name: paid-orders
{_SOURCE}\
filters:
  - {{type: match, config: {{event: {{status: paid}}}}}}
transform:
  - {{type: keep, config: {{fields: [id, customer, total]}}}}
action:
  type: kafka
  config:
    topic: paid-orders
    value: event
""",
}

WORKFLOWS: Final = {
    "One request for each message": """\
kind: workflow
project: default
name: order-received
steps:
  - name: send
    http: https://example.org/orders
""",
    "A second step where the first has failed": """\
kind: workflow
project: default
name: order-checked
steps:
  - name: check
    http: https://example.org/check
  - name: tell
    http: https://example.org/failed
edges:
  - {from: check, to: tell, when: failure}
""",
}
