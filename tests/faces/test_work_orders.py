"""`work-orders` at the command line, over a store with a small history."""

from __future__ import annotations

import csv
import getpass
import io
import json
import stat
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from penstock.cli.main import app
from penstock.core.errors import ConfigError
from penstock.core.ids import ids_at, new_id
from penstock.service.work_order_filters import Asked, which_work_orders
from penstock.service.work_orders import list_work_orders
from penstock.store import Store
from penstock.store.work.model import TriggerRow, WorkflowRow
from penstock.store.workflow_tables import dataclips, log_lines, runs, steps, usage, work_orders
from tests.faces.cli import Result, penstock

Run = Callable[..., Result]

DAY = 86_400_000_000
STEPS = {"steps": [{"name": "check", "kind": "python", "config": {}}, {"name": "send", "kind": "http", "config": {}}]}


class Clinic:
    """A project with two workflows, and work orders of chosen ages and states."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now = time.time_ns() // 1_000
        self.project = store.projects.save(new_id(), "clinic")
        self.labs = self.workflow("labs")
        self.visits = self.workflow("visits")

    def workflow(self, name: str) -> WorkflowRow:
        trigger = TriggerRow(id=new_id(), workflow_id="", name="results" if name == "labs" else "kafka")
        row = WorkflowRow(id=new_id(), project_id=self.project.id, name=name)
        return self.store.workflows.apply(row, STEPS, "1", [trigger])

    def order(
        self,
        state: str = "success",
        *,
        of: WorkflowRow | None = None,
        age: int = 0,
        body: Any = None,
        log: str = "all is well",
    ) -> tuple[str, str]:
        """A work order and its run; a rejected one has none."""
        flow = of or self.labs
        at = self.now - age
        clip, order, run, step, line = ids_at(at, 5)
        [trigger] = self.store.triggers.list(workflow_id=flow.id, include_deleted=True)
        mine = {"project_id": flow.project_id, "workflow_id": flow.id, "snapshot_id": flow.snapshot_id}
        times = {"inserted_at": at, "updated_at": at}
        text = json.dumps(body if body is not None else {"patient": "p-88"})
        request = json.dumps({"topic": "labs", "partition": 4, "offset": 1207, "key": "p-88", "ts": 1, "headers": []})
        with self.store.database.write() as connection:
            given = {"id": clip, "project_id": flow.project_id, "type": "kafka", "body": text, "request": request}
            connection.execute(sa.insert(dataclips), given | {"inserted_at": at})
            row = {"id": order, "dataclip_id": clip, "state": state, "last_activity": at, "trigger_id": trigger.id}
            connection.execute(sa.insert(work_orders), mine | times | row)
            if state != "rejected":
                name = {"pending": "available", "running": "started"}.get(state, state)
                ended = {"started_at": at, "finished_at": at + 250_000} if name not in ("available", "started") else {}
                row = {"id": run, "work_order_id": order, "dataclip_id": clip, "state": name, "options": {}}
                connection.execute(sa.insert(runs), mine | times | row | ended)
                of_step = {"id": step, "run_id": run, "name": "send", "snapshot_id": flow.snapshot_id}
                ended = {"started_at": at, "exit_reason": "fail", "error_type": "=HTTP 500", "input_dataclip_id": clip}
                connection.execute(sa.insert(steps), of_step | ended)
                line_row = {"id": line, "run_id": run, "step_id": step, "source": "step", "level": "info"}
                connection.execute(sa.insert(log_lines), line_row | {"message": log, "timestamp": at})
        return order, run


@pytest.fixture
def clinic(penstock_home: Path) -> Iterator[Clinic]:
    penstock_home.mkdir(parents=True)
    with Store.open(f"sqlite:///{penstock_home / 'penstock.db'}") as store:
        yield Clinic(store)


@pytest.fixture
def here(capfd: pytest.CaptureFixture[str]) -> Run:
    """`penstock ARGS` within this process: the same command, without the second that a process takes to start."""

    def call(*args: object) -> Result:
        capfd.readouterr()
        code = app([*map(str, args)], prog_name="penstock", standalone_mode=False)
        return Result(int(code or 0), *capfd.readouterr())

    return call


def test_the_list_is_of_thirty_days_newest_first_and_every_filter_narrows_it(clinic: Clinic, here: Run) -> None:
    old, _ = clinic.order("failed", age=40 * DAY)
    failed, _ = clinic.order("failed", age=3 * DAY, body={"patient": "p-99", "name": "Ann Müller"})
    visit, visit_run = clinic.order("pending", of=clinic.visits, age=2 * DAY, log="asked for the ambulance")
    crashed, _ = clinic.order("crashed", age=DAY)
    while clinic.store.search.index_some():
        pass

    def listed(**asked: Any) -> list[str]:
        which = which_work_orders(clinic.store, Asked(**asked))
        return [row.id for row in list_work_orders(clinic.store, which)]

    assert listed() == [crashed, visit, failed]
    assert listed(any_time=True) == [crashed, visit, failed, old]
    assert listed(active_after="100d", active_before="35d") == [old]
    assert listed(received_after="60h", received_before="36h") == [visit]
    assert listed(workflow="clinic/labs", state=["failed,crashed"]) == [crashed, failed]
    assert listed(state=["failed", "pending"]) == [visit, failed]
    assert listed(trigger="kafka") == [visit]
    assert listed(project="clinic", workflow=clinic.visits.id) == [visit]
    assert listed(search="müll") == [failed]
    assert listed(search="ambul") == listed(search="ambul", within=["log"]) == [visit]
    assert listed(search="ambul", within=["body,name"]) == []
    assert listed(search=visit_run) == [visit]
    assert listed(ids=[old]) == [old]
    assert listed(ids=["no id"]) == []

    times = ("--received-after", "4d", "--received-before", "1h", "--active-after", "4d", "--active-before", "1h")
    names = ("--project", "clinic", "--workflow", "labs", "--trigger", "results", "--state", "failed,crashed")
    found = ("--search", "p", "--in", "body", "--id", failed, "--id", crashed, "--order", "activity")
    rows = here("work-orders", "list", "--json", *times, *names, *found, "--limit", 1, "--page", 2).data
    assert [row["id"] for row in rows] == [failed]
    text = here("work-orders", "list", "--limit", 2).out
    assert "clinic/visits" in text
    assert "2 of 3; --limit and --page show more" in text


def test_the_list_has_a_stable_shape(clinic: Clinic) -> None:
    order, run = clinic.order("failed")
    (data,) = penstock("work-orders", "list", "--json").data
    assert list(data) == [
        *("id", "state", "project", "project_id", "workflow", "workflow_id", "workflow_deleted", "trigger"),
        *("trigger_id", "snapshot_id", "dataclip_id", "inserted_at", "last_activity", "runs"),
    ]
    assert (data["id"], data["state"], data["project"]) == (order, "failed", "clinic")
    (shown,) = data["runs"]
    assert (shown["id"], shown["state"], shown["duration_ms"], shown["queue"]) == (run, "failed", 250.0, "default")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"state": ["enqueued"]}, "rejected"),
        ({"project": "hospital"}, "clinic"),
        ({"workflow": "x-rays"}, "clinic/labs"),
        ({"trigger": "nobody"}, "results"),
        ({"received_after": "soon"}, "a time like"),
        ({"active_after": "1d", "active_before": "2d"}, "is not before --active-before"),
        ({"search": " "}, "leave --search out"),
        ({"within": ["body"]}, "give --search"),
        ({"search": "a", "within": ["everywhere"]}, "log"),
    ],
)
def test_what_is_of_nothing_is_said(clinic: Clinic, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        which_work_orders(clinic.store, Asked(**asked))
    assert said in f"{refused.value} {refused.value.allowed}"


def test_one_is_shown_with_runs_steps_logs_and_dataclips(clinic: Clinic, here: Run) -> None:
    order, run = clinic.order("failed", body={"n": 2**70})
    data = here("work-orders", "show", order, "--json").data
    assert data == here("work-orders", "show", run, "--json").data
    (shown,) = data["runs"]
    (step,) = shown["steps"]
    assert (step["name"], step["exit_reason"], step["error_type"]) == ("send", "fail", "=HTTP 500")
    assert shown["logs"][0]["message"] == "all is well"
    clip = data["dataclips"][data["dataclip_id"]]
    assert clip["body"] == {"n": 2**70}
    assert clip["request"]["offset"] == 1207
    text = here("work-orders", "show", order).out
    assert f"run              {run} failed" in text
    assert "send: fail (=HTTP 500)" in text
    clinic.store.projects.save(new_id(), "elsewhere")
    for asked in ([order, "--project", "elsewhere"], [new_id()], ["no id"]):
        refused = here("work-orders", "show", *asked)
        assert refused.code == 2
        assert "there is no such work order or run" in refused.err


def test_one_is_retried_from_the_start_a_step_or_a_run(clinic: Clinic, here: Run) -> None:
    order, run = clinic.order("failed")
    again = here("work-orders", "retry", order, "--json").data
    assert again == {"matched": 1, "retried": 1, "skipped": 0, "runs": again["runs"], "job": None}
    found = clinic.store.history.get(order)
    assert found is not None
    new = found.runs[-1]
    assert (found.state, new.id, new.state, new.starting_step) == ("pending", again["runs"][0], "available", None)
    assert str(new.created_by).partition("@")[0] == getpass.getuser()
    refused = here("work-orders", "retry", order)
    assert refused.code == 2
    assert "it has not ended yet" in refused.err

    other, other_run = clinic.order("failed")
    assert "never came to that step" in here("work-orders", "retry", other, "--from", "check").err
    assert here("work-orders", "retry", other_run, "--from", "send").code == 0
    found = clinic.store.history.get(other)
    assert found is not None
    assert (found.runs[-1].starting_step, found.runs[-1].dataclip_id) == ("send", found.dataclip_id)
    rejected, _ = clinic.order("rejected")
    assert here("work-orders", "retry", rejected).code == 0
    assert here("work-orders", "retry", "malformed").code == 2
    assert run != new.id


def test_many_are_retried_by_filter_and_what_cannot_be_is_counted(clinic: Clinic, here: Run) -> None:
    failed = [clinic.order("failed", age=number * 1_000)[0] for number in range(250)]
    gone, _ = clinic.order("failed", of=clinic.visits)
    clinic.store.workflows.delete(clinic.visits.id)
    with clinic.store.database.write() as connection:
        wiped = sa.select(work_orders.c.dataclip_id).where(work_orders.c.id == failed[0])
        values = {"wiped_at": clinic.now, "body": None}
        connection.execute(sa.update(dataclips).where(dataclips.c.id.in_(wiped)).values(values))
    running, _ = clinic.order("running")

    mixed = here("work-orders", "retry", "--all", "--yes")
    assert mixed.code == 2
    assert "1 of 252 work orders cannot be retried" in mixed.err
    assert here("work-orders", "retry", "--yes").code == 2
    assert here("work-orders", "retry", failed[1], running, "--yes").code == 2
    assert here("work-orders", "retry", failed[1], new_id(), "--yes").code == 2
    dry = here("work-orders", "retry", "--state", "failed", "--dry-run", "--json").data
    assert dry == {"matched": 251, "retried": 0, "skipped": 0, "runs": [], "job": None}
    assert "--yes" in here("work-orders", "retry", "--state", "failed").err

    done = here("work-orders", "retry", "--state", "failed", "--yes", "--json").data
    assert (done["matched"], done["retried"], done["skipped"], done["job"]["state"]) == (251, 249, 2, "done")
    assert clinic.store.history.count().number == 252
    states = {order: clinic.store.history.get(order) for order in (failed[0], failed[1], gone)}
    assert [row.state for row in states.values() if row] == ["failed", "pending", "failed"]
    (job,) = here("work-orders", "jobs", "--json").data
    assert (job["kind"], job["done"], job["skipped"], job["total"]) == ("retry", 249, 2, 251)
    # Oldest first.
    made = [row.runs[-1].id for row in clinic.store.history.list(limit=300) if row.state == "pending"]
    assert made == sorted(made, reverse=True)


def test_a_bulk_retry_from_a_step_is_of_one_workflow(clinic: Clinic, here: Run) -> None:
    order, _ = clinic.order("failed")
    assert "--workflow" in here("work-orders", "retry", "--state", "failed", "--from", "send", "--yes").err
    options = ("--state", "failed", "--workflow", "labs", "--yes")
    assert "check, send" in here("work-orders", "retry", *options, "--from", "sned").err
    assert here("work-orders", "retry", *options, "--from", "send", "--json").data["retried"] == 1
    found = clinic.store.history.get(order)
    assert found is not None
    assert found.runs[-1].starting_step == "send"


def test_retries_stop_at_the_projects_limit(clinic: Clinic, here: Run) -> None:
    order, _ = clinic.order("rejected")
    clinic.store.projects.save(clinic.project.id, "clinic", soft_limit=5, limit_period="total")
    with clinic.store.database.write() as connection:
        row = {"scope": clinic.project.id, "period": "total", "work_orders": 5}
        connection.execute(sa.insert(usage), row)
    for asked in ([order], ["--all", "--yes"]):
        refused = here("work-orders", "retry", *asked)
        assert refused.code == 3
        assert "the limit of project clinic, 5 work orders, is reached" in refused.err


def test_cancelling_one_ends_it_even_at_work_and_many_only_before_they_begin(clinic: Clinic, here: Run) -> None:
    running, _ = clinic.order("running")
    pending = [clinic.order("pending")[0] for _ in range(3)]
    refused = here("work-orders", "cancel", "--all", "--yes")
    assert refused.code == 2
    assert "1 of 4" in refused.err
    assert here("work-orders", "cancel", running, "--json").data["cancelled"] == 1
    again = here("work-orders", "cancel", running)
    assert again.code == 2
    assert "no run that waits or is executed" in again.err
    done = here("work-orders", "cancel", "--state", "pending", "--yes", "--json").data
    assert (done["matched"], done["cancelled"], done["skipped"]) == (3, 3, 0)
    states = {row.state for row in clinic.store.history.list() if row.id in (running, *pending)}
    assert states == {"cancelled"}


def test_a_detached_job_waits_and_can_be_stopped(clinic: Clinic, here: Run) -> None:
    order, _ = clinic.order("failed")
    job = here("work-orders", "retry", "--state", "failed", "--yes", "--detach", "--json").data["job"]
    assert job["state"] == "waiting"
    assert here("work-orders", "jobs", job["id"], "--stop", "--json").data[0]["state"] == "stopped"
    found = clinic.store.history.get(order)
    assert found is not None
    assert found.state == "failed"
    assert here("work-orders", "jobs", "malformed").code == 2
    assert here("work-orders", "jobs", "--stop").code == 2


def test_every_change_is_written_down(clinic: Clinic, tmp_path: Path, here: Run) -> None:
    order, _ = clinic.order("failed")
    here("work-orders", "retry", order)
    here("work-orders", "cancel", order)
    here("work-orders", "retry", "--state", "cancelled", "--yes")
    here("work-orders", "export", tmp_path / "orders.zip")
    here("workflows", "run", "labs")
    here("triggers", "disable", "results")
    here("workflows", "delete", "labs", "--yes")
    kept = [(row.action.partition(".")[2], row.outcome) for row in clinic.store.audit.list(limit=10)]
    assert kept[::-1] == [(word, "done") for word in ("retry", "cancel", "retry", "export", "run", "disable", "delete")]


def test_an_export_has_all_rows_and_no_formulas(clinic: Clinic, tmp_path: Path, here: Run) -> None:
    order, run = clinic.order("failed", body={"note": "=1+1"}, log="=cmd|' /C calc'!A0")
    clinic.order("success", of=clinic.visits)
    file = tmp_path / "orders.zip"
    counts = here("work-orders", "export", file, "--workflow", "labs", "--json").data
    assert counts == {"file": str(file), "work_orders": 1, "runs": 1, "steps": 1, "logs": 1, "dataclips": 1}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with zipfile.ZipFile(file) as packed:
        tables = {
            name.removesuffix(".csv"): list(csv.DictReader(io.StringIO(packed.read(name).decode())))
            for name in packed.namelist()
            if name.endswith(".csv")
        }
        [clip] = map(json.loads, packed.read("dataclips.jsonl").splitlines())
    assert tables["work_orders"][0]["id"] == order
    assert tables["runs"][0]["id"] == run
    assert tables["steps"][0]["error_type"] == "'=HTTP 500"
    assert tables["logs"][0]["message"] == "'=cmd|' /C calc'!A0"
    assert clip["body"] == {"note": "=1+1"}
    assert "--force" in here("work-orders", "export", file).err
    assert here("work-orders", "export", tmp_path / "no" / "folder.zip").code == 3
    (job,) = here("work-orders", "jobs", "--json").data
    assert (job["kind"], job["total"], job["asked_by"].partition("@")[0]) == ("export", 1, getpass.getuser())


def test_without_a_store_there_is_nothing(penstock_home: Path) -> None:
    assert penstock("work-orders", "list", "--json").data == []
    assert penstock("work-orders", "show", new_id()).code == 2
    assert not (penstock_home / "penstock.db").exists()
