"""Errors as `application/problem+json`: the same code, message and hint that the command line gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from penstock.config.problems import InvalidConfigError
from penstock.core.errors import PenstockError, Terminal, Unavailable
from penstock.core.secrets import is_secret_key
from penstock.kafka.errors import GroupBusy, NotAuthorized, UnknownTopic
from penstock.service.access import NotAllowed, NotFound
from penstock.service.attempts import TooManyAttempts
from penstock.service.authentication import CsrfMissing, LogInFirst
from penstock.service.bulk_jobs import NotAllOfThem
from penstock.service.operations.managed import NotManaged
from penstock.service.operations.tap import NotHere
from penstock.service.operations.users import LastAdmin
from penstock.service.resuming import OffsetsGone
from penstock.service.work_orders import NothingToCancel, RetryRefused
from penstock.store import Changed, LetterRefused, Taken
from penstock.workflows.limits import LimitReached

log = structlog.get_logger("penstock.api")

MEDIA_TYPE: Final = "application/problem+json"
_JSON: Final = "application/json"
_STATUS: Final[tuple[tuple[type, int], ...]] = (
    (LogInFirst, 401),
    (CsrfMissing, 403),
    (NotAllowed, 403),
    (NotFound, 404),
    (UnknownTopic, 404),
    (NotManaged, 409),
    (NotHere, 409),
    (LastAdmin, 409),
    (LetterRefused, 409),
    (GroupBusy, 409),
    (Taken, 409),
    (RetryRefused, 409),
    (NothingToCancel, 409),
    (NotAllOfThem, 409),
    (LimitReached, 409),
    (OffsetsGone, 409),
    (Changed, 412),
    (TooManyAttempts, 429),
    (NotAuthorized, 502),
    (Unavailable, 503),
    (Terminal, 422),
)
"""The first that fits."""
_TITLES: Final = {
    400: "Bad request",
    401: "Log in first",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Too slow",
    409: "In conflict with what is there",
    412: "Changed meanwhile",
    413: "Too large",
    415: "Unsupported media type",
    421: "Not this server",
    422: "Cannot be used",
    428: "If-Match is wanted",
    429: "Too many attempts",
    500: "A fault of Penstock",
    502: "Refused elsewhere",
    503: "Not available now",
}


_DESCRIPTIONS: Final = {
    400: "The request cannot be read.",
    401: "Nobody is logged in, or the token is no longer good.",
    403: "The role does not allow it.",
    404: "There is no such thing, or none that may be seen.",
    409: "What is there does not allow it.",
    412: "Somebody else has changed it since it was read.",
    413: "The request is too large.",
    415: "The body is not JSON, by its own account.",
    422: "The request cannot be used.",
    428: "The request does not say what it replaces.",
    429: "Too many log-ins have failed.",
    502: "Something outside refuses it.",
    503: "Something outside does not answer.",
}


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """These answers, for OpenAPI."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {status: {"description": _DESCRIPTIONS[status], "content": {MEDIA_TYPE: schema}} for status in statuses}


class PreconditionRequired(PenstockError, Terminal):
    """A replacement must say what it replaces."""

    code = "precondition_required"


class ProblemBody(BaseModel):
    """What is wrong, and what to do about it (RFC 9457)."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True, title="Problem")

    type: str
    title: str
    status: int
    detail: str
    code: str
    """Stable, for programs."""
    received: Any = None
    allowed: Any = None
    hint: str | None = None
    """What to do next."""
    problems: list[dict[str, Any]] | None = None
    """All that is wrong, each with its place."""


def problem(status: int, code: str, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> JSONResponse:
    """An answer that says what is wrong."""
    body = {"type": f"urn:penstock:problem:{code}", "title": _TITLES.get(status, "Error"), "status": status}
    body |= {"detail": detail, "code": code} | {name: value for name, value in more.items() if value is not None}
    return JSONResponse(_plain(body), status, dict(headers or {}), MEDIA_TYPE)


def problem_of(error: PenstockError) -> JSONResponse:
    """The answer for an error."""
    status = 428 if isinstance(error, PreconditionRequired) else _status(error)
    headers = {}
    if isinstance(error, LogInFirst):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, TooManyAttempts):
        headers["Retry-After"] = str(error.seconds)
    elif status == 503:
        headers["Retry-After"] = "5"
    data = error.as_dict()
    if isinstance(error, InvalidConfigError):
        return problem(status, error.code, "the document cannot be used", headers, problems=data["problems"])
    more = {name: data.get(name) for name in ("received", "allowed", "hint")}
    return problem(status, error.code, error.message, headers, **more)


def handle_errors(app: FastAPI) -> None:
    """Answer every error under `/api` as a problem."""

    @app.exception_handler(PenstockError)
    async def penstock_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, PenstockError)  # noqa: S101 - for the type checker
        if isinstance(error, NotAllowed | CsrfMissing) and hasattr(request.state, "actor"):
            asked = f"{request.method} {request.scope['route'].path}"
            path, noted = request.url.path[:200], app.state.desk.note_refusal
            await run_in_threadpool(noted, request.state.actor, asked, error, path=path)
        return problem_of(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 - for the type checker
        return _unreadable(request, error) or problem(
            422, "request", "the request cannot be used", problems=[_where(each) for each in error.errors()]
        )

    @app.exception_handler(UnicodeEncodeError)
    async def no_text(_: Request, error: Exception) -> Response:
        # Only a caller can bring halves of surrogate pairs in; where no model has noticed, the store or the answer has.
        assert isinstance(error, UnicodeEncodeError)  # noqa: S101 - for the type checker
        return problem(422, "request", "a text in the request is not Unicode: it has half of a surrogate pair in it")

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker
        detail = str(error.detail)
        if error.status_code == 400 and request.method not in ("GET", "HEAD") and "parsing the body" in detail:
            detail = "the body is not JSON: it is not UTF-8, or nested too deeply"
        return problem(error.status_code, "http", detail, error.headers)

    @app.exception_handler(Exception)
    async def fault(request: Request, error: Exception) -> Response:
        # What it says may hold anything; it is for the log, which scrubs.
        log.error("request failed", path=request.url.path, error=f"{type(error).__name__}: {error}", exc_info=error)
        return problem(500, "fault", "this is a fault of Penstock; its log says more")


def _unreadable(request: Request, error: RequestValidationError) -> Response | None:
    """Why the body could not be looked at, where that is what is wrong."""
    of_body = [each for each in error.errors() if each["loc"][:1] == ("body",)]
    if not of_body:
        return None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # Bytes: there is a body, and nothing said that it should be parsed.
    unsaid = not kind and any(isinstance(each.get("input"), bytes) for each in of_body)
    if unsaid or (kind and kind != _JSON and not kind.endswith("+json")):
        return problem(415, "media_type", "the body is not of a kind that is read", received=kind[:100], allowed=_JSON)
    for each in of_body:
        if each["type"] == "json_invalid":
            why = each.get("ctx", {}).get("error", "it cannot be parsed")
            return problem(400, "json", f"the body is not JSON: {why} (at character {each['loc'][-1]})")
    return None


def _status(error: PenstockError) -> int:
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def _where(error: Any) -> dict[str, Any]:
    """I8: what was received stays out where it may be a secret, and so does all of a body."""
    place = [str(part) for part in error["loc"]]
    found = {"path": ".".join(place), "message": error["msg"]}
    value = error.get("input")
    # What stands at a key that nobody knows may be a secret whose name is misspelt.
    simple = isinstance(value, (str, int, float, bool)) and not (
        place[0] == "body" and error["type"] == "extra_forbidden"
    )
    if simple and len(place) > 1 and not any(is_secret_key(part) for part in place):
        found["received"] = str(value)[:200]
    return found


def _plain(value: Any) -> Any:
    """What JSON can say: errors carry objects of any kind."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        # Halves of surrogate pairs are no UTF-8.
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    return value if value is None or isinstance(value, (int, float, bool)) else str(value)
