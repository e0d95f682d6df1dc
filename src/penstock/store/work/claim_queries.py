"""The queries by which runs are found that may be taken. Each goes straight to the heads of its index."""

from __future__ import annotations

from typing import Final

# One step per workflow and queue, whatever lies behind it: from the oldest run of one straight to that of the next.
PAIRS: Final = """
WITH RECURSIVE heads(id) AS (
  SELECT (SELECT id FROM penstock_runs WHERE state = 'available' ORDER BY queue, workflow_id, priority, id LIMIT 1)
  UNION ALL
  SELECT (
    SELECT n.id FROM penstock_runs n
    WHERE n.state = 'available' AND (n.queue, n.workflow_id) > (r.queue, r.workflow_id)
    ORDER BY n.queue, n.workflow_id, n.priority, n.id LIMIT 1
  ) FROM heads h JOIN penstock_runs r ON r.id = h.id
)
SELECT r.queue, r.workflow_id, r.project_id, r.priority, r.id,
       w.concurrency AS own_limit, p.concurrency AS project_limit
FROM heads h
JOIN penstock_runs r ON r.id = h.id
JOIN penstock_workflows w ON w.id = r.workflow_id
JOIN penstock_projects p ON p.id = r.project_id
"""

_FIRST_OF_KEY: Final = """NOT EXISTS (
  SELECT 1 FROM penstock_runs e WHERE e.workflow_id = {run}.workflow_id AND e.order_key = {run}.order_key
  AND e.id < {run}.id AND e.order_key IS NOT NULL AND e.state IN ('available', 'claimed', 'started')
)"""

_OLDEST: Final = """
SELECT c.id, c.priority, c.queue, c.workflow_id FROM (
  SELECT id, priority, order_key, workflow_id, queue FROM penstock_runs
  WHERE state = 'available' AND queue = {queue} AND workflow_id = {workflow}
  ORDER BY priority, id LIMIT {window}
) AS c
WHERE c.order_key IS NULL OR {first}
ORDER BY c.priority, c.id LIMIT {take}
"""

SOME_OLDEST: Final = f"""
SELECT o.id, o.priority, o.queue, o.workflow_id
FROM json_to_recordset(CAST(:pairs AS json)) AS p(queue text, workflow uuid, take int, looked int)
CROSS JOIN LATERAL ({
    _OLDEST.format(
        queue="p.queue",
        workflow="p.workflow",
        window="p.looked",
        take="p.take",
        first=_FIRST_OF_KEY.format(run="c"),
    )
}) AS o
"""  # noqa: S608 - put together from constants

ONE_OLDEST: Final = _OLDEST.format(
    queue=":queue", workflow=":workflow", window=":looked", take=":take", first=_FIRST_OF_KEY.format(run="c")
)

# From the first unfinished run of one key straight to that of the next.
KEY_HEADS: Final = """
WITH RECURSIVE heads(id, seen) AS (
  SELECT (
    SELECT id FROM penstock_runs
    WHERE workflow_id = :workflow AND order_key > :after AND order_key IS NOT NULL
    AND state IN ('available', 'claimed', 'started')
    ORDER BY workflow_id, order_key, id LIMIT 1
  ), 1
  UNION ALL
  SELECT (
    SELECT n.id FROM penstock_runs n
    WHERE n.workflow_id = r.workflow_id AND n.order_key > r.order_key AND n.order_key IS NOT NULL
    AND n.state IN ('available', 'claimed', 'started')
    ORDER BY n.workflow_id, n.order_key, n.id LIMIT 1
  ), h.seen + 1 FROM heads h JOIN penstock_runs r ON r.id = h.id WHERE h.seen < :keys
)
SELECT r.id, r.priority, r.queue, r.workflow_id, r.order_key, r.state
FROM heads h JOIN penstock_runs r ON r.id = h.id ORDER BY r.order_key
"""
