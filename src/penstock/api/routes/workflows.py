"""Workflows: their steps and versions, started by hand, kept as documents."""

from __future__ import annotations

from typing import Annotated

import orjson
from fastapi import APIRouter, Body, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from penstock.api.asking import VERSIONED, After, Asking, AtDesk, Limit, PlainObject, Revision, etag
from penstock.service.operations import workflow_documents, workflows
from penstock.service.operations.models import Text, Validation
from penstock.service.operations.paging import Page
from penstock.service.operations.workflow_models import (
    StartedView,
    WorkflowDetail,
    WorkflowItem,
    WorkflowVersion,
    WorkflowVersionText,
)

router = APIRouter(prefix="/workflows", tags=["workflows"])

_TEXT = """\
kind: workflow
project: clinic
name: labs
steps:
  - name: send
    http: https://example.org/results
"""


class Document(BaseModel):
    """A workflow as YAML text; its triggers are not part of it."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"text": _TEXT}]})

    text: str = Field(max_length=500_000)


class Start(BaseModel):
    """What a work order made by hand begins with."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"input": {"data": {"patient": "p-88"}}}]}
    )

    input: PlainObject | None = Field(default=None, description="The state that the first step is given.")
    dataclip: Text | None = Field(default=None, description="Id of an input that is kept already, instead.")
    name: Text | None = Field(default=None, description="Name under which the input is kept.")
    step: Text | None = Field(default=None, description="Step to begin at.")

    def body(self) -> str | None:
        return None if self.input is None else orjson.dumps(self.input).decode()


Workflow = Annotated[str, Path(description="Id of a workflow.", max_length=100)]


@router.get("", summary="List workflows by project and name")
def list_workflows(
    desk: AtDesk,
    actor: Asking,
    project: Annotated[Text | None, Query(description="Name or id of a project.")] = None,
    text: Annotated[Text | None, Query(description="Part of the name.")] = None,
    limit: Limit = 100,
    after: After = None,
) -> Page[WorkflowItem]:
    return workflows.list_workflows(desk, actor, project=project, text=text, limit=limit, after=after)


@router.post("/validate", summary="What is right and wrong with a document; nothing is kept")
def validate(desk: AtDesk, actor: Asking, document: Annotated[Document, Body()]) -> Validation:
    return workflow_documents.validate_text(desk, actor, document.text)


@router.post("", status_code=201, summary="Keep a new workflow")
def create(desk: AtDesk, actor: Asking, response: Response, document: Annotated[Document, Body()]) -> WorkflowDetail:
    made = workflow_documents.create(desk, actor, document.text)
    response.headers.update(etag(made.revision))
    return made


@router.get("/{workflow}", summary="A workflow with its steps, edges and triggers")
def get_workflow(desk: AtDesk, actor: Asking, workflow: Workflow, response: Response) -> WorkflowDetail:
    found = workflows.get_workflow(desk, actor, workflow)
    response.headers.update(etag(found.revision))
    return found


@router.put("/{workflow}", summary="Replace a workflow's steps and edges; its triggers stay", responses=VERSIONED)
def replace(
    desk: AtDesk,
    actor: Asking,
    workflow: Workflow,
    revision: Revision,
    response: Response,
    document: Annotated[Document, Body()],
) -> WorkflowDetail:
    made = workflow_documents.replace(desk, actor, workflow, document.text, revision)
    response.headers.update(etag(made.revision))
    return made


@router.delete(
    "/{workflow}",
    status_code=204,
    summary="Take a workflow and its triggers out of use; its work orders stay",
    responses=VERSIONED,
)
def delete(desk: AtDesk, actor: Asking, workflow: Workflow, revision: Revision) -> None:
    workflow_documents.delete(desk, actor, workflow, revision)


@router.post("/{workflow}/run", status_code=202, summary="Make a work order by hand; an instance runs it at once")
def run(desk: AtDesk, actor: Asking, workflow: Workflow, start: Annotated[Start | None, Body()] = None) -> StartedView:
    start = start or Start()
    return workflows.run(
        desk, actor, workflow, body=start.body(), dataclip=start.dataclip, name=start.name, step=start.step
    )


@router.get("/{workflow}/versions", summary="Versions of its definition, newest first")
def versions(desk: AtDesk, actor: Asking, workflow: Workflow) -> list[WorkflowVersion]:
    return workflows.versions(desk, actor, workflow)


@router.get("/{workflow}/versions/{version}", summary="One version's definition")
def get_version(
    desk: AtDesk, actor: Asking, workflow: Workflow, version: Annotated[str, Path(max_length=100)]
) -> WorkflowVersionText:
    return workflows.version_text(desk, actor, workflow, version)
