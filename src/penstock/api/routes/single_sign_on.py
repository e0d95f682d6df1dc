"""Logging in at an OpenID provider, which sends the browser back here."""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from typing import Annotated, Final

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from penstock.api.asking import AtDesk, Auth, address_of
from penstock.api.routes.session import set_cookie
from penstock.config.secret_values import made_cipher
from penstock.service.access import NotFound
from penstock.service.authentication import LogInFirst
from penstock.service.operations.desk import Desk
from penstock.service.passwords import same
from penstock.service.single_sign_on import Journey, SingleSignOn

router = APIRouter(prefix="/session/oidc", tags=["session"], include_in_schema=False)

_COOKIE: Final = "penstock_oidc"
_SECURE_COOKIE: Final = "__Host-penstock_oidc"
_PATH: Final = "/api/v1/session/oidc"
_MINUTES: Final = 10


@router.get("")
def begin(
    desk: AtDesk,
    auth: Auth,
    request: Request,
    to: Annotated[str, Query(max_length=2_000, description="Where to go then.")] = "/",
) -> Response:
    """Send the browser to the provider."""
    address, journey = _provider(desk, request).begin(_back(desk, request))
    response = RedirectResponse(address, 303)
    kept = {"state": journey.state, "nonce": journey.nonce, "verifier": journey.verifier, "to": _local(to)}
    written = base64.urlsafe_b64encode(orjson.dumps(kept)).decode()
    secure = auth.is_secure(request.url.scheme)
    response.set_cookie(
        _SECURE_COOKIE if secure else _COOKIE,
        f"{written}.{_signature(desk, written)}",
        max_age=_MINUTES * 60,
        path="/",
        httponly=True,
        samesite="lax",
        secure=secure,
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
    kept = _kept(desk, request)
    journey = Journey(state=kept["state"], nonce=kept["nonce"], verifier=kept["verifier"])
    try:
        user = _provider(desk, request).finish(journey, state=state, code=code, back=_back(desk, request))
    except LogInFirst as error:
        auth.note_failure("user/unknown", address_of(request), by="single sign-on", why=error.message)
        raise
    begun = auth.begin(user, address=address_of(request), agent=request.headers.get("user-agent"))
    response = RedirectResponse(_local(kept["to"]), 303)
    set_cookie(auth, request, response, begun)
    response.delete_cookie(_COOKIE, path="/", httponly=True, samesite="lax")
    response.delete_cookie(_SECURE_COOKIE, path="/", secure=True, httponly=True, samesite="lax")
    return response


def _provider(desk: Desk, request: Request) -> SingleSignOn:
    """One for all requests: it knows what the provider said."""
    if desk.settings.http.auth != "oidc":
        raise NotFound("there is no single sign-on here", hint="set http.auth to oidc")
    state = request.app.state
    if not hasattr(state, "single_sign_on"):
        state.single_sign_on = SingleSignOn(desk.store, desk.settings.oidc, desk.settings.api.networks)
    made: SingleSignOn = state.single_sign_on
    return made


def _back(desk: Desk, request: Request) -> str:
    known = desk.settings.oidc.address or desk.settings.http.public_url
    base = known or f"{request.url.scheme}://{request.headers['host']}"
    return f"{base.rstrip('/')}{_PATH}/callback"


def _local(to: str) -> str:
    """A path of this server; anything else would send people wherever a link says."""
    safe = to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable()
    return to if safe else "/"


def _signature(desk: Desk, written: str) -> str:
    """By a key that all instances have, so that the browser may come back to another one."""
    secret = desk.settings.oidc.client_secret
    key = secret.reveal() if secret else made_cipher(desk.settings.home, os.environ).text
    return hmac.digest(key.encode(), f"penstock oidc journey {written}".encode(), "sha256").hex()


def _kept(desk: Desk, request: Request) -> dict[str, str]:
    """What `begin` gave the browser; a cookie that somebody else set does not count."""
    secure = request.cookies.get(_SECURE_COOKIE)
    given = secure if secure or desk.settings.is_https else request.cookies.get(_COOKIE)
    written, _, signature = (given or "").rpartition(".")
    try:
        if not same(signature, _signature(desk, written)):
            raise ValueError("signature")
        kept = orjson.loads(base64.urlsafe_b64decode(written))
        return {name: str(kept[name]) for name in ("state", "nonce", "verifier", "to")}
    except (binascii.Error, ValueError, KeyError, TypeError):
        raise LogInFirst("this log-in was not begun here, or too long ago", hint="begin again") from None
