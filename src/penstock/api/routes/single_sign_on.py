"""Logging in at an OpenID provider, which sends the browser back here."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Final

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from penstock.api.asking import AtDesk, Auth, address_of
from penstock.api.routes.session import set_cookie
from penstock.service.access import NotFound
from penstock.service.authentication import LogInFirst
from penstock.service.operations.desk import Desk
from penstock.service.single_sign_on import Journey, SingleSignOn

router = APIRouter(prefix="/session/oidc", tags=["session"], include_in_schema=False)

_COOKIE: Final = "penstock_oidc"
_PATH: Final = "/api/v1/session/oidc"
_MINUTES: Final = 10


@router.get("")
def begin(
    desk: AtDesk, request: Request, to: Annotated[str, Query(max_length=2_000, description="Where to go then.")] = "/"
) -> Response:
    """Send the browser to the provider."""
    address, journey = _provider(desk).begin(_back(desk, request))
    response = RedirectResponse(address, 303)
    kept = {"state": journey.state, "nonce": journey.nonce, "verifier": journey.verifier, "to": _local(to)}
    response.set_cookie(
        _COOKIE,
        base64.urlsafe_b64encode(orjson.dumps(kept)).decode(),
        max_age=_MINUTES * 60,
        path=_PATH,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return response


@router.get("/callback")
def callback(
    desk: AtDesk,
    auth: Auth,
    request: Request,
    code: Annotated[str, Query(max_length=4_000)] = "",
    state: Annotated[str, Query(max_length=1_000)] = "",
) -> Response:
    """Begin a session for whom the provider vouches."""
    kept = _kept(request)
    journey = Journey(state=kept["state"], nonce=kept["nonce"], verifier=kept["verifier"])
    user = _provider(desk).finish(journey, state=state, code=code, back=_back(desk, request))
    begun = auth.begin(user, address=address_of(request), agent=request.headers.get("user-agent"))
    response = RedirectResponse(_local(kept["to"]), 303)
    set_cookie(request, response, begun)
    response.delete_cookie(_COOKIE, path=_PATH)
    return response


def _provider(desk: Desk) -> SingleSignOn:
    if desk.settings.http.auth != "oidc":
        raise NotFound("there is no single sign-on here", hint="set http.auth to oidc")
    return SingleSignOn(desk.store, desk.settings.oidc, desk.settings.api.networks)


def _back(desk: Desk, request: Request) -> str:
    base = desk.settings.oidc.address or f"{request.url.scheme}://{request.headers['host']}"
    return f"{base.rstrip('/')}{_PATH}/callback"


def _local(to: str) -> str:
    """A path of this server; anything else would send people wherever a link says."""
    safe = to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable()
    return to if safe else "/"


def _kept(request: Request) -> dict[str, str]:
    try:
        kept = orjson.loads(base64.urlsafe_b64decode(request.cookies.get(_COOKIE, "")))
        return {name: str(kept[name]) for name in ("state", "nonce", "verifier", "to")}
    except (binascii.Error, ValueError, KeyError, TypeError):
        raise LogInFirst("this log-in was not begun here, or too long ago", hint="begin again") from None
