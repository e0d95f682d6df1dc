"""What routes are given: the desk, who asks, and what the request says about versions."""

from __future__ import annotations

from typing import Annotated, Any, Final, get_args, get_origin

import orjson
from fastapi import Depends, Header, Path, Query, Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator

from penstock.api.problems import PreconditionRequired, described
from penstock.service.access import Actor
from penstock.service.authentication import Authentication, LogInFirst
from penstock.service.operations.desk import Desk
from penstock.store import Changed

VERSIONED: Final = described(412, 428)
"""Further answers of routes that replace what is there."""
_SAFE: Final = ("GET", "HEAD", "OPTIONS")


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


def _authentication(request: Request) -> Authentication:
    auth: Authentication = request.app.state.auth
    return auth


def address_of(request: Request) -> str | None:
    return request.client.host if request.client else None


def actor_of(request: Request) -> Actor:
    """Who asks; a change that a browser asks for needs the session's CSRF token."""
    auth = _authentication(request)
    actor = auth.actor_of(request.headers, request.cookies, address_of(request))
    if actor is None:
        raise LogInFirst("log in first", hint="send a token as `Authorization: Bearer pst_…`, or POST /api/v1/session")
    request.state.actor = actor
    if request.method not in _SAFE:
        auth.check_csrf(request.headers, request.cookies)
    return actor


def check_parameters(request: Request) -> None:
    """A filter whose name is misspelt must not give everything, nor the last of two what neither asked for. Routes that
    OpenAPI does not describe are for browsers that others send here, with parameters of their own."""
    route = request.scope["route"]
    if not request.query_params or not route.include_in_schema:
        return
    known = {field.alias: field.field_info.annotation for field in get_flat_params(route.dependant)}
    wrong: list[dict[str, Any]] = []
    for name, value in request.query_params.items():
        place = {"loc": ("query", name), "input": value}
        if name not in known or name in request.path_params:
            wrong.append(place | {"type": "extra_forbidden", "msg": "there is no such parameter"})
        elif len(request.query_params.getlist(name)) > 1 and not _takes_many(known[name]):
            wrong.append(place | {"type": "repeated", "msg": "it is given more than once"})
    if wrong:
        raise RequestValidationError(wrong)


def _takes_many(annotation: Any) -> bool:
    return list in (get_origin(annotation), *map(get_origin, get_args(annotation)))


def _revision(
    if_match: Annotated[
        str | None,
        Header(alias="If-Match", description="The ETag of what is replaced, as a GET gave it; `*`: whatever it is."),
    ] = None,
) -> int | None:
    if if_match is None:
        raise PreconditionRequired(
            "say what is replaced: send its ETag as If-Match", hint="`*` replaces whatever it is"
        )
    written = if_match.strip()
    if written == "*":
        return None
    number = written.removeprefix("W/").strip('"')
    if not number.isascii() or not number.isdecimal() or len(number) > 18:
        raise Changed("If-Match is none of its ETags", received=written[:100], hint="look at it again")
    return int(number)


def _plain_json(given: dict[str, Any]) -> dict[str, Any]:
    """Python's parser takes more than others do: numbers of any size, any depth, halves of surrogate pairs."""
    try:
        orjson.dumps(given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"it is no plain JSON: {error}") from None
    return given


PlainObject = Annotated[dict[str, Any], AfterValidator(_plain_json)]
AtDesk = Annotated[Desk, Depends(_desk)]
Auth = Annotated[Authentication, Depends(_authentication)]
Asking = Annotated[Actor, Depends(actor_of)]
Revision = Annotated[int | None, Depends(_revision)]
Name = Annotated[str, Path(description="The pipeline's name.", examples=["orders"])]
Limit = Annotated[int, Query(ge=1, le=1_000, description="Most items of a page.")]
After = Annotated[str | None, Query(description="`next` of the page before.", max_length=2_000)]


def etag(revision: int | None) -> dict[str, str]:
    """The header that names a version."""
    return {} if revision is None else {"ETag": f'"{revision}"'}
