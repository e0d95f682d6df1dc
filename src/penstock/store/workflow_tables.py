"""Tables of projects, workflows, triggers and their work. Times are epoch microseconds, ids UUIDs that grow with time
(`core.ids`), so that the newest rows lie together in every index."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from penstock.store.tables import ID, ROW_ID, CleanText, JsonText, metadata

UNFINISHED: Final = "state IN ('available', 'claimed', 'started')"
IN_FLIGHT: Final = "state IN ('claimed', 'started')"
"""As SQL, for the indexes that must not grow with history."""


def _id(name: str = "id", *, of: str | None = None, nullable: bool = False, **options: Any) -> sa.Column[Any]:
    parents = [sa.ForeignKey(f"{of}.id", ondelete="CASCADE")] if of else []
    return sa.Column(name, ID, *parents, nullable=nullable, primary_key=name == "id", **options)


def _text(name: str, *, nullable: bool = False, default: str | None = None) -> sa.Column[Any]:
    return sa.Column(name, CleanText(), nullable=nullable, server_default=default)


def _time(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _number(name: str, *, nullable: bool = True) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _json(name: str) -> sa.Column[Any]:
    return sa.Column(name, JsonText(), nullable=False, server_default="{}")


def _where(condition: str) -> dict[str, Any]:
    return {"postgresql_where": sa.text(condition), "sqlite_where": sa.text(condition)}


projects: Final = sa.Table(
    "penstock_projects",
    metadata,
    _id(),
    sa.Column("name", CleanText(), nullable=False, unique=True),
    _text("description", nullable=True),
    _number("concurrency"),
    # Work orders of one period: beyond the soft limit they are rejected, beyond the hard one nothing is taken in.
    _number("soft_limit"),
    _number("hard_limit"),
    _text("limit_period", default="month"),
    _text("retention_policy", default="retain_all"),
    # Days; none: for ever.
    _number("history_retention"),
    _number("dataclip_retention"),
    # `notify`: apprise addresses, as secret references or encrypted; anything an import brought that is not used.
    _json("settings"),
    _time("inserted_at"),
    _time("updated_at"),
)

workflows: Final = sa.Table(
    "penstock_workflows",
    metadata,
    _id(),
    _id("project_id", of="penstock_projects"),
    _text("name"),
    # Where its definition comes from: a file (its path), `store`, or `import`.
    _text("origin", default="store"),
    _number("concurrency"),
    # The snapshot that new work orders use.
    _id("snapshot_id", nullable=True),
    _time("deleted_at", nullable=True),
    _time("inserted_at"),
    _time("updated_at"),
    sa.Index("uq_penstock_workflows_name", "project_id", "name", unique=True, **_where("deleted_at IS NULL")),
)

snapshots: Final = sa.Table(
    "penstock_workflow_snapshots",
    metadata,
    _id(),
    _id("workflow_id", of="penstock_workflows"),
    # A digest of the definition: saving the same twice makes one snapshot.
    _text("version"),
    # Steps, edges, limits, isolation, timeout; secrets as references or encrypted.
    _json("definition"),
    _time("inserted_at"),
    sa.UniqueConstraint("workflow_id", "version", name="uq_penstock_workflow_snapshots"),
)

triggers: Final = sa.Table(
    "penstock_triggers",
    metadata,
    _id(),
    _id("workflow_id", of="penstock_workflows"),
    _text("name"),
    _text("type", default="kafka"),
    sa.Column("enabled", sa.Boolean(), nullable=False, server_default=sa.false()),
    _text("comment", nullable=True),
    # Lightning's object as it is, `group_id` included; `username` and `password` as references or encrypted.
    _json("kafka_configuration"),
    # rate, consumers, concurrency, ordering, accept, backlog, start and client properties: Penstock's own.
    _json("options"),
    # Counts the changes that matter to a running consumer.
    sa.Column("revision", sa.BigInteger(), nullable=False, server_default="0"),
    # When its admins were last told of a failure, and what has gathered since.
    _time("notified_at", nullable=True),
    _json("unreported"),
    # End of the lease of the instance that is sending it.
    _time("notifying_until", nullable=True),
    _time("deleted_at", nullable=True),
    _time("inserted_at"),
    _time("updated_at"),
    sa.Index("uq_penstock_triggers_name", "workflow_id", "name", unique=True, **_where("deleted_at IS NULL")),
)

usage: Final = sa.Table(
    "penstock_usage",
    metadata,
    # One row per project and period, and one per trigger and period, where there are limits.
    sa.Column("scope", ID, primary_key=True),
    sa.Column("period", CleanText(), primary_key=True),
    _number("work_orders", nullable=False),
)

dataclips: Final = sa.Table(
    "penstock_dataclips",
    metadata,
    _id(),
    _id("project_id"),
    _text("type"),
    _text("name", nullable=True),
    # JSON as text: of a message that is an object, its value as it was read.
    _text("body", nullable=True),
    # The six keys of a message; null for step results and saved inputs.
    _text("request", nullable=True),
    # The value as it was read, where the body does not say it.
    sa.Column("raw", sa.LargeBinary()),
    # Coordinates of a message: recovery and replay are refused by them.
    _id("trigger_id", nullable=True),
    _text("topic", nullable=True),
    _text("topic_id", nullable=True),
    sa.Column("partition", sa.Integer()),
    _number("offset"),
    _time("wiped_at", nullable=True),
    _time("inserted_at"),
    sa.Index(
        "uq_penstock_dataclips_message",
        "trigger_id",
        "topic_id",
        "partition",
        "offset",
        unique=True,
        **_where("trigger_id IS NOT NULL"),
    ),
)

work_orders: Final = sa.Table(
    "penstock_work_orders",
    metadata,
    _id(),
    _id("project_id"),
    _id("workflow_id"),
    _id("snapshot_id"),
    _id("trigger_id", nullable=True),
    _id("dataclip_id", nullable=True),
    _text("state"),
    _time("last_activity"),
    # The time within its id: lists by it, and periods of it, are ranges of ids.
    _time("inserted_at"),
    _time("updated_at"),
    # A list reads a page for each workflow and state that is asked for. The other filters come last, so that rows
    # they leave out are passed over without a look at them.
    sa.Index("ix_penstock_work_orders_created", "workflow_id", "state", "id", "last_activity", "trigger_id"),
    sa.Index("ix_penstock_work_orders_activity", "workflow_id", "state", "last_activity", "id", "trigger_id"),
)

runs: Final = sa.Table(
    "penstock_runs",
    metadata,
    _id(),
    _id("work_order_id"),
    _id("project_id"),
    _id("workflow_id"),
    _id("snapshot_id"),
    # The step that it begins at; none: those that follow the trigger.
    _text("starting_step", nullable=True),
    _id("starting_trigger_id", nullable=True),
    _text("created_by", nullable=True),
    _id("dataclip_id", nullable=True),
    _id("final_dataclip_id", nullable=True),
    _text("state", default="available"),
    _text("error_type", nullable=True),
    sa.Column("priority", sa.SmallInteger(), nullable=False, server_default="1"),
    _text("queue", default="default"),
    # Runs of one order key begin one after the other has ended; none: no order.
    _text("order_key", nullable=True),
    # Who claimed it: a lane's process, by a token that is never used twice. Only its holder may end the run.
    _text("worker_name", nullable=True),
    _time("heartbeat_at", nullable=True),
    _json("options"),
    _time("claimed_at", nullable=True),
    _time("started_at", nullable=True),
    _time("finished_at", nullable=True),
    _time("inserted_at"),
    _time("updated_at"),
    sa.Index("ix_penstock_runs_work_order", "work_order_id", "id"),
    sa.Index(
        *("ix_penstock_runs_available", "queue", "workflow_id", "priority", "id"), **_where("state = 'available'")
    ),
    sa.Index("ix_penstock_runs_in_flight", "project_id", "workflow_id", **_where(IN_FLIGHT)),
    sa.Index("ix_penstock_runs_held", "worker_name", "id", **_where(IN_FLIGHT)),
    sa.Index(
        *("ix_penstock_runs_order", "workflow_id", "order_key", "id"),
        **_where(f"order_key IS NOT NULL AND {UNFINISHED}"),
    ),
    sa.Index("ix_penstock_runs_backlog", "starting_trigger_id", **_where(UNFINISHED)),
)

steps: Final = sa.Table(
    "penstock_steps",
    metadata,
    _id(),
    _id("run_id"),
    _text("name"),
    _id("snapshot_id"),
    _id("input_dataclip_id", nullable=True),
    _id("output_dataclip_id", nullable=True),
    _text("exit_reason", nullable=True),
    _text("error_type", nullable=True),
    _time("started_at"),
    _time("finished_at", nullable=True),
    sa.Index("ix_penstock_steps_run", "run_id", "started_at", "id"),
)

log_lines: Final = sa.Table(
    "penstock_log_lines",
    metadata,
    _id(),
    _id("run_id"),
    _id("step_id", nullable=True),
    _text("source"),
    _text("level"),
    _text("message"),
    _time("timestamp"),
    sa.Index("ix_penstock_log_lines_run", "run_id", "timestamp", "id"),
)

work_search: Final = sa.Table(
    "penstock_work_search",
    metadata,
    # In the order in which they became searchable: close to that of the work orders, and the newest lie together.
    sa.Column("number", ROW_ID, primary_key=True),
    _id("work_order_id"),
    # The dataclip or log line that the words are of.
    _id("part"),
    # The words; SQLite has them in a table of its own kind, by the row's number.
    sa.Column("words", postgresql.TSVECTOR().with_variant(sa.Text(), "sqlite")),
    sa.UniqueConstraint("work_order_id", "part", name="uq_penstock_work_search"),
    sa.Index("ix_penstock_work_search_part", "part"),
    sa.Index(
        "ix_penstock_work_search_words",
        "words",
        postgresql_using="gin",
        sqlite_where=sa.text("words IS NOT NULL"),
    ),
    sqlite_autoincrement=True,
)

WORDS: Final = "penstock_work_words"
"""The table of words in SQLite: FTS5, which SQLAlchemy has no name for."""

positions: Final = sa.Table(
    "penstock_positions",
    metadata,
    # How far work that goes through the rows in their order has come: indexing, wiping.
    sa.Column("name", CleanText(), primary_key=True),
    _text("position"),
    _time("updated_at"),
)

users: Final = sa.Table(
    "penstock_users",
    metadata,
    _id(),
    sa.Column("email", CleanText(), nullable=False, unique=True),
    _text("name", nullable=True),
    # Of the whole instance: admin, operator, viewer; none: as the memberships say.
    _text("role", nullable=True),
    _time("inserted_at"),
)

members: Final = sa.Table(
    "penstock_project_members",
    metadata,
    sa.Column("project_id", ID, sa.ForeignKey("penstock_projects.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("user_id", ID, sa.ForeignKey("penstock_users.id", ondelete="CASCADE"), primary_key=True),
    _text("role"),
)

secrets: Final = sa.Table(
    "penstock_secrets",
    metadata,
    # Named secrets that configurations refer to, encrypted; the row `` (no name) holds a known text, by which a wrong
    # key is noticed.
    sa.Column("name", CleanText(), primary_key=True),
    sa.Column("value", sa.LargeBinary(), nullable=False),
    _time("updated_at"),
)

bulk_jobs: Final = sa.Table(
    "penstock_bulk_jobs",
    metadata,
    # Retries and cancellations by filter, done in the background.
    _id(),
    _text("kind"),
    _json("request"),
    _text("state"),
    _number("total", nullable=False),
    _number("done", nullable=False),
    _number("skipped", nullable=False),
    # Where it goes on after an interruption.
    _text("position", nullable=True),
    _text("asked_by", nullable=True),
    _text("claimed_by", nullable=True),
    _time("heartbeat_at", nullable=True),
    _time("inserted_at"),
    _time("updated_at"),
)
