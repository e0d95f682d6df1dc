"""Documents of pipelines: checked, kept in the store, compared, rolled back."""

from __future__ import annotations

from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Body, Path, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from penstock.api.asking import VERSIONED, Asking, AtDesk, Name, PlainObject, Revision, etag
from penstock.service.operations import managed, versions
from penstock.service.operations.models import Difference, PipelineDetail, Validation, VersionText, VersionView
from penstock.service.operations.versions import as_yaml

router = APIRouter(prefix="/pipelines", tags=["documents"])

_SPEC: dict[str, Any] = {
    "name": "large-orders",
    "source": {
        "type": "kafka",
        "config": {"connection": {"bootstrap": "kafka.example.org:9092"}, "topics": ["orders"]},
    },
    "action": {"type": "webhook", "config": {"url": "https://example.org/hook"}},
}


_LARGE: Final = 100_000
"""Bytes of a spec as JSON."""


class Document(BaseModel):
    """A pipeline, as YAML text or as an object."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"spec": _SPEC}]})

    text: str | None = Field(default=None, max_length=500_000, description="YAML, kept as it is written.")
    spec: PlainObject | None = Field(default=None, description="The same as an object.")

    @model_validator(mode="after")
    def _one(self) -> Document:
        if (self.text is None) == (self.spec is None):
            raise ValueError("text or spec is wanted")
        return self

    def written(self) -> str:
        if self.text is not None:
            return self.text
        plain = orjson.dumps(self.spec)
        # To write YAML takes a second per 5,000 keys; what is far too large is refused as it is, and JSON is YAML.
        return plain.decode() if len(plain) > _LARGE else as_yaml(orjson.loads(plain))


class NewDocument(Document):
    project: str | None = Field(default=None, max_length=100, description="Id of the project it belongs to.")


Version = Annotated[str, Path(description="A version, as the list gives it.", max_length=100)]


@router.post("/validate", summary="What is right and wrong with a document; nothing is kept")
def validate(desk: AtDesk, actor: Asking, document: Annotated[Document, Body()]) -> Validation:
    return managed.validate_text(desk, actor, document.written())


@router.post("", status_code=201, summary="Keep a new pipeline in the store")
def create(desk: AtDesk, actor: Asking, response: Response, document: Annotated[NewDocument, Body()]) -> PipelineDetail:
    made = managed.create(desk, actor, document.written(), project=document.project)
    response.headers.update(etag(made.revision))
    return made


@router.put("/{name}", summary="Replace a pipeline that is kept in the store", responses=VERSIONED)
def replace(
    desk: AtDesk,
    actor: Asking,
    name: Name,
    revision: Revision,
    response: Response,
    document: Annotated[Document, Body()],
) -> PipelineDetail:
    made = managed.replace(desk, actor, name, document.written(), revision)
    response.headers.update(etag(made.revision))
    return made


@router.delete(
    "/{name}",
    status_code=204,
    summary="Keep a pipeline no longer; its versions and dead letters stay",
    responses=VERSIONED,
)
def delete(desk: AtDesk, actor: Asking, name: Name, revision: Revision) -> None:
    managed.delete(desk, actor, name, revision)


@router.get("/{name}/versions", summary="Versions of its spec, newest first")
def list_versions(desk: AtDesk, actor: Asking, name: Name) -> list[VersionView]:
    return versions.versions(desk, actor, name)


@router.get("/{name}/versions/{version}", summary="One version's text")
def get_version(desk: AtDesk, actor: Asking, name: Name, version: Version) -> VersionText:
    return versions.version_text(desk, actor, name, version)


@router.get("/{name}/versions/{version}/diff/{other}", summary="What changed between two versions")
def diff(
    desk: AtDesk,
    actor: Asking,
    name: Name,
    version: Version,
    other: Annotated[str, Path(description="The newer one; `running`: the spec that runs now.", max_length=100)],
) -> Difference:
    return versions.diff(desk, actor, name, version, other)


@router.post(
    "/{name}/versions/{version}/rollback", summary="Keep an older version's document again", responses=VERSIONED
)
def rollback(
    desk: AtDesk, actor: Asking, name: Name, version: Version, revision: Revision, response: Response
) -> PipelineDetail:
    made = managed.rollback(desk, actor, name, version, revision)
    response.headers.update(etag(made.revision))
    return made
