"""Logging in at an OpenID provider that is started here."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from penstock.service.authentication import SESSION_COOKIE
from tests.faces.api.conftest import Api

_SECRET = "canary-client-secret"


class Provider:
    """Vouches for one person; `claims` change what it says."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "k1"})
        self.signing = self.key
        self.claims: dict[str, Any] = {}
        self.asked: list[dict[str, list[str]]] = []
        self.authorization: list[str | None] = []
        self.challenge = ""
        self.nonce = ""
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.issuer = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def authorize(self, address: str) -> dict[str, str]:
        """What the person's browser does at the provider; what it brings back."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        self.challenge, self.nonce = asked["code_challenge"], asked["nonce"]
        return {"code": "the-code", "state": asked["state"]}

    def token(self, form: dict[str, list[str]]) -> dict[str, Any]:
        digest = hashlib.sha256(form["code_verifier"][0].encode()).digest()
        assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == self.challenge
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": "penstock", "sub": "7", "nonce": self.nonce, "iat": now, "exp": now + 60}
        claims |= {"email": "Ada@example.org", "email_verified": True, "name": "Ada"} | self.claims
        signed = jwt.encode({"alg": "RS256", "kid": "k1"}, claims, self.signing)
        return {"access_token": "a", "token_type": "Bearer", "id_token": signed}

    def _handler(provider) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handler's own `self` is inside
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                base = provider.issuer
                documents = {
                    "/.well-known/openid-configuration": {
                        "issuer": base,
                        "authorization_endpoint": f"{base}/authorize",
                        "token_endpoint": f"{base}/token",
                        "jwks_uri": f"{base}/keys",
                    },
                    "/keys": {"keys": [provider.key.as_dict(private=False)]},
                }
                self._answer(documents[self.path])

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
                provider.asked.append(form)
                provider.authorization.append(self.headers.get("authorization"))
                self._answer(provider.token(form))

            def _answer(self, data: object) -> None:
                body = json.dumps(data).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Not in the tests' output."""

        return Handler


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.server.shutdown()


@pytest.fixture
def api(make_client: Callable[..., Api], provider: Provider) -> Api:
    provider.claims, provider.signing = {}, provider.key
    return make_client(
        PENSTOCK_HTTP_AUTH="oidc",
        PENSTOCK_OIDC_ISSUER=provider.issuer,
        PENSTOCK_OIDC_CLIENT_ID="penstock",
        PENSTOCK_OIDC_CLIENT_SECRET=_SECRET,
        PENSTOCK_OIDC_ROLE="viewer",
    )


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def come_back(api: Api, provider: Provider, to: str = "/pipelines", **changes: str) -> Any:
    begun = api.client.get("/api/v1/session/oidc", params={"to": to}, follow_redirects=False)
    assert begun.status_code == 303, begun.text
    brought = provider.authorize(begun.headers["location"]) | changes
    return api.client.get("/api/v1/session/oidc/callback", params=brought, follow_redirects=False)


def test_whom_the_provider_vouches_for_is_let_in(api: Api, provider: Provider) -> None:
    back = come_back(api, provider)
    assert (back.status_code, back.headers["location"]) == (303, "/pipelines")
    assert SESSION_COOKIE in back.headers["set-cookie"]
    who = api.ask("GET", "/session", None).json()
    assert (who["name"], who["role"]) == ("ada@example.org", "viewer")
    [user] = api.desk.store.people.all()
    assert user.subject == f"{provider.issuer}|7"
    come_back(api, provider)
    assert len(api.desk.store.people.all()) == 1
    assert provider.authorization[-1].startswith("Basic ")
    assert _SECRET not in back.text + str(back.headers)


def test_a_user_made_before_keeps_the_role(api: Api, provider: Provider) -> None:
    api.desk.store.people.create("ada@example.org", role="operator")
    come_back(api, provider)
    assert api.ask("GET", "/session", None).json()["role"] == "operator"
    written = api.ask("GET", "/audit?action=users.change").json()["items"]
    assert [(one["subject"], one["data"]["by"]) for one in written] == [("user/ada@example.org", "single sign-on")]


@pytest.mark.parametrize("said", [False, "false"])
def test_an_address_that_is_not_ones_own_makes_no_user(api: Api, provider: Provider, said: object) -> None:
    provider.claims = {"email_verified": said}
    assert come_back(api, provider).status_code == 401
    assert api.desk.store.people.all() == []
    provider.claims = {"sub": "8"}
    assert come_back(api, provider).status_code == 303, "whose address it is comes in"


def test_a_provider_that_says_nothing_of_addresses_is_believed(api: Api, provider: Provider) -> None:
    provider.claims = {"email_verified": None, "name": {"given": "Ada"}}
    assert come_back(api, provider).status_code == 303
    [user] = api.desk.store.people.all()
    assert (user.email, user.name) == ("ada@example.org", None)


def test_an_address_that_nobody_verified_takes_over_no_user(api: Api, provider: Provider) -> None:
    api.desk.store.people.create("ada@example.org", role="admin")
    provider.claims = {"email_verified": False}
    refused = come_back(api, provider)
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
    assert "no user here" in refused.json()["detail"]


@pytest.mark.parametrize(
    "claims",
    [{"aud": "another"}, {"iss": "https://evil.example"}, {"nonce": "other"}, {"exp": 1_000}, {"sub": None}],
)
def test_tokens_for_others_or_of_another_time_are_refused(api: Api, provider: Provider, claims: dict[str, Any]) -> None:
    provider.claims = claims
    refused = come_back(api, provider)
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
    assert api.desk.store.people.all() == []


def test_a_token_signed_by_another_key_is_refused(api: Api, provider: Provider) -> None:
    provider.signing = RSAKey.generate_key(2048, {"kid": "k1"})
    assert come_back(api, provider).status_code == 401


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_a_token_that_the_providers_private_key_did_not_sign_is_refused(
    api: Api, provider: Provider, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed = provider.token

    def forged(form: dict[str, list[str]]) -> dict[str, Any]:
        """With the claims as they should be, under no signature or one that everybody can make."""
        given = signed(form)
        claims = given["id_token"].split(".")[1]
        header = _encoded(json.dumps({"alg": algorithm, "kid": "k1"}).encode())
        public = provider.key.as_pem(private=False)
        proof = hmac.digest(public, f"{header}.{claims}".encode(), "sha256") if algorithm == "HS256" else b""
        return given | {"id_token": f"{header}.{claims}.{_encoded(proof)}"}

    monkeypatch.setattr(provider, "token", forged)
    assert come_back(api, provider).status_code == 401
    assert api.desk.store.people.all() == []


def test_what_was_brought_back_once_is_not_taken_again(api: Api, provider: Provider) -> None:
    begun = api.client.get("/api/v1/session/oidc", follow_redirects=False)
    brought = provider.authorize(begun.headers["location"])
    first = api.client.get("/api/v1/session/oidc/callback", params=brought, follow_redirects=False)
    assert first.status_code == 303
    again = api.client.get("/api/v1/session/oidc/callback", params=brought, follow_redirects=False)
    assert again.status_code == 401


def test_what_a_provider_adds_to_its_answer_is_no_obstacle(api: Api, provider: Provider) -> None:
    assert come_back(api, provider, iss=provider.issuer, session_state="x").status_code == 303


def test_a_log_in_that_was_not_begun_here_is_refused(api: Api, provider: Provider) -> None:
    assert come_back(api, provider, state="forged").status_code == 401
    api.client.cookies.clear()
    lost = api.client.get("/api/v1/session/oidc/callback", params={"code": "x", "state": "y"})
    assert (lost.status_code, "begin again" in lost.json()["hint"]) == (401, True)


@pytest.mark.parametrize("to", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"])
def test_people_are_sent_to_no_other_place(api: Api, provider: Provider, to: str) -> None:
    assert come_back(api, provider, to).headers["location"] == "/"


def test_a_disabled_user_and_an_absent_provider(api: Api, provider: Provider, make_client: Callable[..., Api]) -> None:
    come_back(api, provider)
    api.desk.store.people.change(api.desk.store.people.all()[0].id, None, disabled_at=1)
    assert come_back(api, provider).status_code == 401
    away = make_client(
        PENSTOCK_HTTP_AUTH="oidc", PENSTOCK_OIDC_ISSUER="http://127.0.0.1:1", PENSTOCK_OIDC_CLIENT_ID="penstock"
    )
    answer = away.client.get("/api/v1/session/oidc")
    assert (answer.status_code, answer.json()["code"]) == (503, "provider")
    local = make_client(PENSTOCK_HTTP_AUTH="local")
    assert local.client.get("/api/v1/session/oidc").status_code == 404
