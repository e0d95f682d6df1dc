"""Triggers: what starts workflows."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from penstock.api.asking import VERSIONED, After, Asking, AtDesk, Limit, Revision, etag
from penstock.service.connection_test import ConnectionReport, MessagePreview
from penstock.service.operations import trigger_trials, triggers, workflows
from penstock.service.operations.models import Text
from penstock.service.operations.paging import Page
from penstock.service.operations.trigger_models import (
    EnabledView,
    NewTrigger,
    TriggerChange,
    TriggerDetail,
    TriggerItem,
)

router = APIRouter(tags=["triggers"])


class Resume(BaseModel):
    """Where an enabled trigger goes on."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"resume": "earliest"}]})

    resume: Text | None = Field(
        default=None, description="`committed`, `earliest`, `latest`, or a time; absent: where its group stands."
    )


Trigger = Annotated[str, Path(description="Id of a trigger.", max_length=100)]
Timeout = Annotated[float, Query(gt=0, le=30, description="Seconds that each step may take.")]
Last = Annotated[int, Query(ge=1, le=50, description="How many messages.")]


@router.get("/triggers", summary="List triggers by workflow and name")
def list_triggers(
    desk: AtDesk,
    actor: Asking,
    project: Annotated[Text | None, Query(description="Name or id of a project.")] = None,
    workflow: Annotated[Text | None, Query(description="Id of a workflow.")] = None,
    limit: Limit = 100,
    after: After = None,
) -> Page[TriggerItem]:
    return triggers.list_triggers(desk, actor, project=project, workflow=workflow, limit=limit, after=after)


@router.post("/triggers", status_code=201, summary="Put a trigger into a workflow")
def create(desk: AtDesk, actor: Asking, response: Response, new: Annotated[NewTrigger, Body()]) -> TriggerDetail:
    made = triggers.create(desk, actor, new)
    response.headers.update(etag(made.revision))
    return made


@router.post("/triggers/test", summary="Try the connection of a trigger that is not saved, each step apart")
def try_draft(
    desk: AtDesk, actor: Asking, new: Annotated[NewTrigger, Body()], timeout: Timeout = 5.0
) -> ConnectionReport:
    return trigger_trials.try_draft(desk, actor, new, timeout=timeout)


@router.post("/triggers/preview", summary="The last messages, as a trigger that is not saved would take them in")
def preview_draft(
    desk: AtDesk, actor: Asking, new: Annotated[NewTrigger, Body()], last: Last = 10
) -> list[MessagePreview]:
    return trigger_trials.preview(desk, actor, new, last=last)


@router.get("/triggers/{trigger}", summary="A trigger with its configuration, without its secrets")
def get_trigger(desk: AtDesk, actor: Asking, trigger: Trigger, response: Response) -> TriggerDetail:
    found = triggers.get_trigger(desk, actor, trigger)
    response.headers.update(etag(found.revision))
    return found


@router.put("/triggers/{trigger}", summary="Change a trigger's configuration", responses=VERSIONED)
def replace(
    desk: AtDesk,
    actor: Asking,
    trigger: Trigger,
    revision: Revision,
    response: Response,
    change: Annotated[TriggerChange, Body()],
) -> TriggerDetail:
    made = triggers.replace(desk, actor, trigger, change, revision)
    response.headers.update(etag(made.revision))
    return made


@router.delete(
    "/triggers/{trigger}",
    status_code=204,
    summary="Take a trigger out of use; its work orders stay",
    responses=VERSIONED,
)
def delete(desk: AtDesk, actor: Asking, trigger: Trigger, revision: Revision) -> None:
    triggers.delete(desk, actor, trigger, revision)


@router.post("/triggers/{trigger}/enable", summary="Let a trigger run on every instance")
def enable(
    desk: AtDesk, actor: Asking, trigger: Trigger, where: Annotated[Resume | None, Body()] = None
) -> EnabledView:
    return triggers.enable(desk, actor, trigger, resume=where.resume if where else None)


@router.post("/triggers/{trigger}/disable", summary="End a trigger on every instance; where it stands is kept")
def disable(desk: AtDesk, actor: Asking, trigger: Trigger) -> TriggerItem:
    return triggers.disable(desk, actor, trigger)


@router.post("/triggers/{trigger}/test", summary="Try a trigger's connection as it is saved, or with a change")
def try_saved(
    desk: AtDesk,
    actor: Asking,
    trigger: Trigger,
    change: Annotated[TriggerChange | None, Body()] = None,
    timeout: Timeout = 5.0,
) -> ConnectionReport:
    if change is None:
        return trigger_trials.try_saved(desk, actor, trigger, timeout=timeout)
    return trigger_trials.try_draft(desk, actor, change, trigger_id=trigger, timeout=timeout)


@router.post("/triggers/{trigger}/preview", summary="The last messages, as a changed trigger would take them in")
def preview_change(
    desk: AtDesk, actor: Asking, trigger: Trigger, change: Annotated[TriggerChange, Body()], last: Last = 10
) -> list[MessagePreview]:
    return trigger_trials.preview(desk, actor, change, trigger_id=trigger, last=last)


@router.get("/schemas/trigger", summary="JSON Schema of triggers")
def trigger_schema(desk: AtDesk, actor: Asking) -> dict[str, Any]:
    return triggers.trigger_schema(desk, actor)


@router.get("/schemas/workflow", summary="JSON Schema of workflow documents")
def workflow_schema(desk: AtDesk, actor: Asking) -> dict[str, Any]:
    return workflows.workflow_schema(desk, actor)
