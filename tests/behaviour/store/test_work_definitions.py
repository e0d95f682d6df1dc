"""Projects, workflows, triggers, people, secrets and bulk jobs as the store keeps them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from penstock.core.ids import new_id
from penstock.store import Store
from penstock.store.work.model import NotThere, ProjectRow, TriggerRow, WorkflowRow

KAFKA = {"hosts": [["a", "9092"]], "topics": ["t"], "group_id": "lightning-1"}


@pytest.fixture
def project(work_store: Store) -> ProjectRow:
    return work_store.projects.save(new_id(), "clinic")


def workflow(project: ProjectRow, name: str = "lab") -> WorkflowRow:
    return WorkflowRow(id=new_id(), project_id=project.id, name=name)


def trigger(name: str = "kafka", **fields: object) -> TriggerRow:
    return TriggerRow(id=new_id(), workflow_id="", name=name, enabled=True, kafka_configuration=KAFKA, **fields)  # type: ignore[arg-type] # as the test says


def test_a_project_is_found_by_name_and_id_and_only_given_fields_change(work_store: Store, project: ProjectRow) -> None:
    limited = work_store.projects.save(project.id, "clinic", soft_limit=5, settings={"notify": ["x"]})
    again = work_store.projects.save(new_id(), "clinic", description="of the north")
    assert (again.id, again.soft_limit, again.settings) == (project.id, 5, {"notify": ["x"]})
    assert work_store.projects.get("clinic") == work_store.projects.get(project.id) == again
    assert limited.limit_period == "month"
    assert limited.retention_policy == "retain_all"
    assert [row.name for row in work_store.projects.list()] == ["clinic"]
    assert work_store.projects.get("no id") is None
    with pytest.raises(TypeError, match="colour"):
        work_store.projects.save(project.id, "clinic", colour="blue")


def test_a_workflow_is_made_once_and_keeps_its_ids(work_store: Store, project: ProjectRow) -> None:
    first = work_store.workflows.apply(workflow(project), {"steps": [1]}, "v1", [trigger(), trigger("second")])
    again = work_store.workflows.apply(workflow(project), {"steps": [2]}, "v2", [trigger()])
    assert again.id == first.id
    assert again.snapshot_id != first.snapshot_id
    assert [row.version for row in work_store.workflows.snapshots(first.id)] == ["v2", "v1"]
    kept = work_store.triggers.list(workflow_id=first.id)
    assert [row.name for row in kept] == ["kafka"]
    back = work_store.workflows.apply(workflow(project), {"steps": [1]}, "v1", [], delete_others=False)
    assert back.snapshot_id == first.snapshot_id
    assert work_store.workflows.snapshot(back.snapshot_id or "").definition == {"steps": [1]}  # type: ignore[union-attr] # it is there
    assert work_store.triggers.list(project_id=project.id) == kept
    assert work_store.workflows.get(project.id, "lab") == work_store.workflows.by_id(first.id) == back


def test_a_workflow_of_no_project_is_refused(work_store: Store, project: ProjectRow) -> None:
    with pytest.raises(NotThere):
        work_store.workflows.apply(replace(workflow(project), project_id=new_id()), {}, "v1")
    assert work_store.workflows.list() == []


def test_a_deleted_workflow_takes_its_triggers_along_and_may_come_back(work_store: Store, project: ProjectRow) -> None:
    given, its_trigger = workflow(project), trigger()
    work_store.workflows.apply(given, {}, "v1", [its_trigger])
    assert work_store.workflows.delete(given.id)
    assert not work_store.workflows.delete(given.id)
    assert not (work_store.workflows.list())
    assert not (work_store.triggers.list())
    assert not (work_store.triggers.changes())
    assert [row.id for row in work_store.workflows.list(deleted_too=True)] == [given.id]
    gone = work_store.triggers.get(its_trigger.id)
    assert gone is not None
    assert not gone.enabled
    work_store.workflows.apply(given, {}, "v1", [its_trigger])
    back = work_store.triggers.get(its_trigger.id)
    assert back is not None
    assert (back.enabled, back.deleted_at) == (True, None)
    assert back.revision > gone.revision
    # The name was free meanwhile: another workflow may have had it, and stays another.
    work_store.workflows.delete(given.id)
    other = work_store.workflows.apply(workflow(project), {}, "v1")
    assert other.id != given.id


def test_revisions_count_what_matters_to_a_consumer(work_store: Store, project: ProjectRow) -> None:
    given = trigger()
    work_store.workflows.apply(workflow(project), {}, "v1", [given])
    row = work_store.triggers.list()[0]

    def revision() -> int:
        return work_store.triggers.changes()[0].revision

    before = revision()
    work_store.workflows.apply(workflow(project), {"steps": ["new"]}, "v2", [given])
    work_store.triggers.save(replace(row, comment="looked at", name="renamed"))
    work_store.triggers.set_enabled(row.id, True)
    assert revision() == before
    work_store.triggers.save(replace(row, kafka_configuration=KAFKA | {"topics": ["t", "u"]}))
    assert revision() == before + 1
    work_store.triggers.save(replace(row, options={"rate": 5}, kafka_configuration=KAFKA | {"topics": ["t", "u"]}))
    assert revision() == before + 2
    assert not work_store.triggers.set_enabled(row.id, False).enabled
    [change] = work_store.triggers.changes()
    assert (change.revision, change.enabled, change.workflow_id) == (before + 3, False, row.workflow_id)


def test_triggers_that_are_not_there_are_not_found(work_store: Store, project: ProjectRow) -> None:
    assert work_store.triggers.get("../etc/passwd") is work_store.triggers.get(new_id()) is None
    with pytest.raises(NotThere):
        work_store.triggers.set_enabled(new_id(), True)
    with pytest.raises(NotThere):
        work_store.triggers.save(replace(trigger(), workflow_id=new_id()))
    assert not work_store.triggers.delete(new_id())


def test_the_same_file_applied_by_many_at_once_makes_one(work_store: Store, project: ProjectRow) -> None:
    with ThreadPoolExecutor(6) as pool:
        made = list(
            pool.map(lambda _: work_store.workflows.apply(workflow(project), {}, "v1", [trigger()]).id, range(12))
        )
    assert len(set(made)) == 1
    assert len(work_store.triggers.list()) == len(work_store.workflows.snapshots(made[0])) == 1


def test_people_have_roles_in_projects(work_store: Store, project: ProjectRow) -> None:
    work_store.users.save("b@x", name="B", role="admin")
    work_store.users.save("a@x")
    work_store.users.save("a@x", name="A")
    for email, role in (("a@x", "viewer"), ("b@x", "owner"), ("a@x", "admin")):
        work_store.users.set_member(project.id, email, role)
    members = work_store.users.members(project.id)
    assert [(row.email, row.name, row.role, row.instance_role) for row in members] == [
        ("a@x", "A", "admin", None),
        ("b@x", "B", "owner", "admin"),
    ]
    work_store.users.set_member(project.id, "b@x", None)
    assert work_store.users.delete("a@x")
    assert work_store.users.members(project.id) == []
    assert [row.email for row in work_store.users.list()] == ["b@x"]
    with pytest.raises(NotThere):
        work_store.users.set_member(project.id, "a@x", "viewer")


def test_secrets_are_kept_by_name(work_store: Store) -> None:
    work_store.secrets.set("", b"check")
    work_store.secrets.set("token", b"\x00\xff")
    work_store.secrets.set_all({"token": b"\x01", "other": b"\x02"})
    assert work_store.secrets.names() == ["other", "token"]
    assert work_store.secrets.all() == {"": b"check", "token": b"\x01", "other": b"\x02"}
    assert work_store.secrets.delete("other")
    assert work_store.secrets.get("other") is None


def test_a_bulk_job_has_one_worker_and_goes_on_where_it_was_left(work_store: Store) -> None:
    jobs = work_store.bulk_jobs
    job = jobs.add("retry", {"workflow": "lab"}, total=10, asked_by="a@x")
    assert jobs.claim("one", stale_after=60) == jobs.get(job.id)
    assert jobs.claim("two", stale_after=60) is None
    assert jobs.advance(job.id, "one", done=4, skipped=1, position="p")
    taken = jobs.claim("two", stale_after=-1)
    assert taken is not None
    assert (taken.done, taken.skipped, taken.position, taken.request) == (4, 1, "p", {"workflow": "lab"})
    assert not jobs.advance(job.id, "one", done=5, skipped=1, position="q")
    assert jobs.finish(job.id, "two")
    assert not jobs.stop(job.id)
    assert [row.state for row in jobs.list()] == ["done"]
    assert jobs.claim("three", stale_after=-1) is None
    stopped = jobs.add("cancel", {}, total=1)
    assert jobs.stop(stopped.id)
