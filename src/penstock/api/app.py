"""The API: routes per noun under `/api/v1`, described by OpenAPI."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from starlette.responses import Response
from starlette.routing import Route, compile_path
from starlette.types import Receive, Scope, Send

from penstock import __version__
from penstock.api import routes
from penstock.api.asking import check_parameters
from penstock.api.guards import Guards
from penstock.api.problems import ProblemBody, described, handle_errors, problem
from penstock.service.authentication import SESSION_COOKIE, Authentication
from penstock.service.operations.desk import Desk

PREFIX: Final = "/api/v1"
_OURS: Final = ("/api/", "/projects/")
"""The second is Lightning's."""


def mount_api(app: FastAPI, desk: Desk, auth: Authentication) -> None:
    """Add the API to the server's app, and the guards that hold for all of it."""
    app.state.desk, app.state.auth = desk, auth
    handle_errors(app)
    app.include_router(all_routes())
    document = cache(lambda: description(app))  # made when it is first asked for: starting should not wait for it

    @app.get(f"{PREFIX}/openapi.json", include_in_schema=False)
    def openapi() -> JSONResponse:
        return JSONResponse(document())

    # Whatever else is asked for at these places must not end at the console, which answers with pages.
    nothing = _Nothing(document)
    for place in ("/api", *(f"{ours}{{path:path}}" for ours in _OURS)):
        app.router.routes.append(Route(place, endpoint=nothing))
    app.add_middleware(Guards, http=desk.settings.http, is_https=desk.settings.is_https)


def make_api(desk: Desk, auth: Authentication) -> FastAPI:
    """An app with the API alone."""
    app = FastAPI(title="Penstock", docs_url=None, redoc_url=None, openapi_url=None)
    mount_api(app, desk, auth)
    return app


def all_routes() -> APIRouter:
    """Those of every module of `routes`."""
    errors = described(400, 401, 403, 404, 409, 413, 415, 422, 429, 502, 503)
    api = APIRouter(responses=errors)
    for module in pkgutil.iter_modules(routes.__path__):
        found = importlib.import_module(f"{routes.__name__}.{module.name}")
        # Programs that were written for another server's paths may send what that one did not look at either.
        strict = [] if hasattr(found, "PLACE") else [Depends(check_parameters)]
        api.include_router(found.router, prefix=getattr(found, "PLACE", PREFIX), dependencies=strict)
    return api


def description(app: FastAPI) -> dict[str, Any]:
    """The API as an OpenAPI document."""
    document = get_openapi(
        title="Penstock",
        version=__version__,
        description="What pipelines do, and what they should do. Errors are problems (RFC 9457); lists are pages: give"
        " `next` as `after`. Changes by browsers need the session's CSRF token as `X-CSRF-Token`.",
        routes=app.routes,
    )
    document["paths"] = {path: item for path, item in document["paths"].items() if path.startswith(_OURS)}
    parts = document.setdefault("components", {})
    schemas = parts.setdefault("schemas", {})
    schemas["Problem"] = ProblemBody.model_json_schema(ref_template="#/components/schemas/{model}")
    # FastAPI describes errors of validation as it would answer them; they are problems here.
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    parts["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "`penstock tokens create` makes one."},
        "session": {"type": "apiKey", "in": "cookie", "name": SESSION_COOKIE},
    }
    document["security"] = [{"token": []}, {"session": []}]
    return document


class _Nothing:
    """Answers what no route does: with the methods that the path has, if it has any."""

    def __init__(self, document: Callable[[], dict[str, Any]]) -> None:
        self._document = document

    @cached_property
    def _known(self) -> list[tuple[re.Pattern[str], list[str]]]:
        paths = self._document()["paths"].items()
        return [(compile_path(path)[0], [method.upper() for method in item]) for path, item in paths]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope["path"])(scope, receive, send)

    def _answer(self, path: str) -> Response:
        methods = {method for pattern, methods in self._known if pattern.match(path) for method in methods}
        if methods:
            allowed = ", ".join(sorted(methods))
            return problem(405, "method", "the path does not take this method", {"Allow": allowed}, allowed=allowed)
        return problem(404, "not_found", "there is nothing at this path", received=path[:200])
