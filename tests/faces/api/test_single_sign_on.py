"""Logging in at an OpenID provider that is started here."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import sqlalchemy as sa
from joserfc import jwt
from joserfc.jwk import RSAKey

from penstock.config.problems import InvalidConfigError
from penstock.config.settings import Settings
from penstock.service.authentication import SESSION_COOKIE
from penstock.service.passwords import hash_password
from penstock.store.access_tables import tokens
from tests.faces.api.conftest import PASSWORD, Api

_SECRET = "canary-client-secret"


class Provider:
    """Vouches for one person; `claims` change what it says."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "k1"})
        self.signing = self.key
        self.claims: dict[str, Any] = {}
        self.asked: list[dict[str, list[str]]] = []
        self.read: list[str] = []
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
                provider.read.append(self.path)
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
    return make_client(**settings_of(provider))


def settings_of(provider: Provider) -> dict[str, str]:
    return {
        "PENSTOCK_HTTP_AUTH": "oidc",
        "PENSTOCK_OIDC_ISSUER": provider.issuer,
        "PENSTOCK_OIDC_CLIENT_ID": "penstock",
        "PENSTOCK_OIDC_CLIENT_SECRET": _SECRET,
        "PENSTOCK_OIDC_ROLE": "viewer",
    }


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


def test_a_provider_that_says_nothing_of_addresses_is_believed_where_the_settings_say_so(
    api: Api, provider: Provider, make_client: Callable[..., Api]
) -> None:
    provider.claims = {"email_verified": None, "name": {"given": "Ada"}}
    assert come_back(api, provider).status_code == 401
    assert api.desk.store.people.all() == []
    api = make_client(**settings_of(provider), PENSTOCK_OIDC_VERIFIES_ADDRESSES="true")
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


def test_groups_of_the_provider_decide_the_role_at_each_log_in(
    provider: Provider, make_client: Callable[..., Api]
) -> None:
    roles = {"PENSTOCK_OIDC_ROLES": "ops:operator,bosses:admin,clinic:health=operator", "PENSTOCK_OIDC_ROLE": ""}
    api = make_client(**settings_of(provider) | roles)
    provider.claims = {"groups": ["ops", "bosses", "others"]}
    assert come_back(api, provider).status_code == 303
    assert api.ask("GET", "/session", None).json()["role"] == "admin"
    made = api.ask("POST", "/tokens", None, headers=csrf(api), json={"name": "t", "role": "admin"})
    api.tokens = api.tokens | {"own": made.json()["token"]}
    api.client.cookies.clear()
    provider.claims = {"groups": ["clinic"]}
    assert come_back(api, provider).status_code == 303
    who = api.ask("GET", "/session", None).json()
    assert (who["role"], who["projects"]) == (None, {api.project: "operator"})
    api.client.cookies.clear()
    assert api.ask("GET", "/users", "own").status_code == 403, "the token has what its user has"
    provider.claims = {"groups": []}
    refused = come_back(api, provider)
    assert (refused.status_code, "no group" in refused.json()["detail"]) == (401, True)
    assert api.ask("GET", "/pipelines", "own").status_code == 403
    written = api.ask("GET", "/audit?action=users.change").json()["items"]
    assert len(written) == 2


def test_groups_may_be_inside_another_claim(provider: Provider, make_client: Callable[..., Api]) -> None:
    roles = {"PENSTOCK_OIDC_ROLES": "ops:operator", "PENSTOCK_OIDC_GROUPS_CLAIM": "realm_access.roles"}
    api = make_client(**settings_of(provider) | roles)
    provider.claims = {"realm_access": {"roles": ["ops"]}}
    assert come_back(api, provider).status_code == 303
    assert api.ask("GET", "/session", None).json()["role"] == "operator"


def test_whom_the_provider_vouches_for_has_no_password_here(api: Api, provider: Provider) -> None:
    made = api.desk.store.people.create("ada@example.org", role="admin", password=hash_password(PASSWORD))
    come_back(api, provider)
    for sent in ({"password": "another long sentence"}, {"password": "another long sentence", "old": PASSWORD}):
        answer = api.ask("PUT", f"/users/{made.id}/password", None, headers=csrf(api), json=sent)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert api.ask("PUT", f"/users/{made.id}/password", "admin", json=sent).status_code == 403
    api.client.cookies.clear()
    by_password = api.client.post("/api/v1/session", json={"user": "ada@example.org", "password": PASSWORD})
    assert by_password.status_code == 401


def test_without_passwords_only_the_provider_and_tokens_let_in(
    provider: Provider, make_client: Callable[..., Api]
) -> None:
    provider.claims = {}
    api = make_client(**settings_of(provider), PENSTOCK_HTTP_PASSWORDS="false")
    made = api.desk.store.people.create("bob@example.org", role="admin", password=hash_password(PASSWORD))
    refused = api.client.post("/api/v1/session", json={"user": "bob@example.org", "password": PASSWORD})
    assert (refused.status_code, "not taken here" in refused.json()["detail"]) == (401, True)
    new = {"email": "eve@example.org", "password": PASSWORD}
    assert api.ask("POST", "/users", json=new).status_code == 403
    assert api.ask("PUT", f"/users/{made.id}/password", json={"password": PASSWORD}).status_code == 403
    assert come_back(api, provider).status_code == 303
    with pytest.raises(InvalidConfigError, match="passwords"):
        Settings.load({"PENSTOCK_HTTP_AUTH": "local", "PENSTOCK_HTTP_PASSWORDS": "false"})


def test_tokens_of_people_from_the_provider_end_after_the_settings_time(api: Api, provider: Provider) -> None:
    come_back(api, provider)
    longer = {"name": "t", "role": "viewer", "expires_in": "90d"}
    refused = api.ask("POST", "/tokens", None, headers=csrf(api), json=longer)
    assert (refused.status_code, "outlive" in refused.json()["detail"]) == (403, True)
    made = api.ask("POST", "/tokens", None, headers=csrf(api), json={"name": "t", "role": "viewer"}).json()
    assert made["expires_at"] is not None
    age = api.desk.settings.oidc.token_age * 1000
    with api.desk.store._database.write() as connection:  # as one that was made before
        old = {"created_at": int(time.time() * 1000 - age - 1), "expires_at": None}
        connection.execute(sa.update(tokens).where(tokens.c.id == made["id"]).values(old))
    api.client.cookies.clear()
    api.tokens = api.tokens | {"own": made["token"]}
    answer = api.ask("GET", "/pipelines", "own")
    assert (answer.status_code, "expired" in answer.json()["detail"]) == (401, True)


def test_the_provider_is_asked_about_itself_once(api: Api, provider: Provider) -> None:
    provider.read.clear()
    for _ in range(5):
        api.client.get("/api/v1/session/oidc", follow_redirects=False)
    assert provider.read == ["/.well-known/openid-configuration"]


def test_a_provider_that_is_away_is_asked_once_in_a_while(make_client: Callable[..., Api]) -> None:
    asked: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, address = listener.accept()
                    asked.append(address)
                    connection.close()

        threading.Thread(target=refuse, daemon=True).start()
        issuer = f"http://127.0.0.1:{listener.getsockname()[1]}"
        api = make_client(PENSTOCK_HTTP_AUTH="oidc", PENSTOCK_OIDC_ISSUER=issuer, PENSTOCK_OIDC_CLIENT_ID="penstock")
        answers = [api.client.get("/api/v1/session/oidc").status_code for _ in range(5)]
        listener.shutdown(socket.SHUT_RDWR)
    assert answers == [503] * 5
    assert len(asked) == 1


@pytest.mark.parametrize("issuer", ["http://idp.example", "http://10.0.0.1", "ftp://idp.example", "idp.example"])
def test_a_provider_without_tls_is_refused_unless_it_is_on_this_machine(issuer: str) -> None:
    given = {"PENSTOCK_HTTP_AUTH": "oidc", "PENSTOCK_OIDC_CLIENT_ID": "x", "PENSTOCK_OIDC_ISSUER": issuer}
    with pytest.raises(InvalidConfigError, match="https"):
        Settings.load(given)


def test_a_journey_that_somebody_else_wrote_is_refused(api: Api, provider: Provider) -> None:
    begun = api.client.get("/api/v1/session/oidc", follow_redirects=False)
    brought = provider.authorize(begun.headers["location"])
    genuine = api.client.cookies["penstock_oidc"]
    kept = json.loads(base64.urlsafe_b64decode(genuine.partition(".")[0]))
    forged = _encoded(json.dumps(kept | {"to": "/users"}).encode())
    for cookie in (forged, f"{forged}.{genuine.partition('.')[2]}", genuine.partition(".")[0]):
        api.client.cookies.clear()
        api.client.cookies.set("penstock_oidc", cookie)
        answer = api.client.get("/api/v1/session/oidc/callback", params=brought, follow_redirects=False)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    api.client.cookies.set("penstock_oidc", genuine)
    answer = api.client.get("/api/v1/session/oidc/callback", params=brought, follow_redirects=False)
    assert answer.status_code == 303


def test_the_provider_sends_back_to_the_public_address(provider: Provider, make_client: Callable[..., Api]) -> None:
    api = make_client(**settings_of(provider), PENSTOCK_HTTP_PUBLIC_URL="https://penstock.example")
    begun = api.client.get("/api/v1/session/oidc", headers={"host": "evil.example"}, follow_redirects=False)
    asked = parse_qs(urlsplit(begun.headers["location"]).query)
    assert asked["redirect_uri"] == ["https://penstock.example/api/v1/session/oidc/callback"]
    assert begun.headers["set-cookie"].startswith("__Host-penstock_oidc=")


def csrf(api: Api) -> dict[str, str]:
    return {"x-csrf-token": api.ask("GET", "/session", None).json()["csrf"]}
