"""Logging in, tokens, and what they are good for."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
import sqlalchemy as sa

from penstock.service.attempts import WINDOW
from penstock.service.authentication import SESSION_COOKIE, Authentication
from penstock.service.passwords import hash_password
from penstock.store.access_tables import tokens
from tests.faces.api.conftest import PASSWORD, Api


@pytest.fixture
def person(api: Api) -> str:
    return api.desk.store.people.create("ada@example.org", role="operator", password=hash_password(PASSWORD)).id


def log_in(api: Api, password: str = PASSWORD, user: str = "Ada@example.org") -> httpx.Response:
    return api.client.post("/api/v1/session", json={"user": user, "password": password})


def test_a_session_lets_in_until_it_is_ended(api: Api, person: str) -> None:
    answer = log_in(api)
    assert answer.status_code == 200, answer.text
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    csrf = answer.json()["csrf"]
    session = api.client.cookies[SESSION_COOKIE]
    assert api.desk.store.sessions.get(session) is None, "only its digest is known"
    who = api.ask("GET", "/session", None).json()
    assert (who["name"], who["role"], who["kind"], who["csrf"]) == ("ada@example.org", "operator", "person", csrf)
    assert "pipelines.operate" in who["rights"]
    assert "users.manage" not in who["rights"]
    assert api.ask("DELETE", "/session", None, headers={"x-csrf-token": csrf}).status_code == 204
    api.client.cookies.set(SESSION_COOKIE, session)
    assert api.ask("GET", "/session", None).status_code == 401


def test_a_change_by_a_browser_needs_the_csrf_token(api: Api, person: str) -> None:
    csrf = log_in(api).json()["csrf"]
    for headers in ({}, {"x-csrf-token": "wrong"}):
        refused = api.ask("POST", "/pipelines/orders/pause", None, headers=headers)
        assert refused.status_code == 403
        assert refused.json()["code"] == "csrf"
    assert api.desk.store.desired.get("orders") is None
    assert api.ask("POST", "/pipelines/orders/pause", None, headers={"x-csrf-token": csrf}).status_code == 200
    assert api.ask("GET", "/pipelines", None).status_code == 200


def test_over_tls_the_cookie_is_for_tls_only(api: Api, person: str) -> None:
    answer = api.client.post("https://127.0.0.1/api/v1/session", json={"user": "ada@example.org", "password": PASSWORD})
    assert "Secure" in answer.headers["set-cookie"]


def test_who_does_not_exist_and_a_wrong_password_look_the_same(api: Api, person: str) -> None:
    wrong, unknown = log_in(api, "wrong"), log_in(api, user="nobody@example.org")
    assert wrong.status_code == unknown.status_code == 401
    assert wrong.json() == unknown.json()


def test_too_many_failures_close_the_door_for_a_while(make_client: Callable[..., Api]) -> None:
    api = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_HTTP_ATTEMPTS="3")
    api.desk.store.people.create("ada@example.org", role="viewer", password=hash_password(PASSWORD))
    assert [log_in(api, "wrong").status_code for _ in range(4)] == [401, 401, 401, 429]
    refused = log_in(api)
    assert refused.status_code == 429
    assert 0 < int(refused.headers["retry-after"]) <= WINDOW + 1
    # Another instance has another memory, and a right password is right there.
    other = Authentication(api.desk.store, api.desk.settings)
    assert other.log_in("ada@example.org", PASSWORD).actor.name == "ada@example.org"


def test_a_token_that_is_no_longer_good_says_why(api: Api) -> None:
    def said(token: str) -> tuple[int, str]:
        answer = api.client.get("/api/v1/pipelines", headers={"Authorization": f"Bearer {token}"})
        assert answer.headers["www-authenticate"] == "Bearer"
        return answer.status_code, answer.json()["detail"]

    assert "not known" in said("pst_nonsense")[1]
    made = api.ask("POST", "/tokens", json={"name": "ci", "role": "viewer", "expires_in": "1h"}).json()
    with api.desk.store._database.write() as connection:
        connection.execute(sa.update(tokens).where(tokens.c.id == made["id"]).values(expires_at=1_000))
    status, text = said(made["token"])
    assert status == 401
    assert "expired at 1970-01-01T00:00:01.000Z" in text
    assert made["token"] not in text
    other = api.ask("POST", "/tokens", json={"name": "ci", "role": "viewer"}).json()
    assert api.ask("DELETE", f"/tokens/{other['id']}").status_code == 204
    assert "was revoked" in said(other["token"])[1]


def test_a_token_is_bounded_by_its_maker_now_and_later(api: Api, person: str) -> None:
    headers = {"x-csrf-token": log_in(api).json()["csrf"]}
    above = api.ask("POST", "/tokens", None, headers=headers, json={"name": "t", "role": "admin"})
    assert above.status_code == 403
    made = api.ask("POST", "/tokens", None, headers=headers, json={"name": "t", "role": "operator"}).json()
    api.tokens = api.tokens | {"own": made["token"]}
    api.client.cookies.clear()
    assert api.ask("POST", "/pipelines/orders/pause", "own").status_code == 200
    assert api.ask("POST", "/tokens", "own", json={"name": "u", "role": "viewer"}).status_code == 403
    assert [token["name"] for token in api.ask("GET", "/tokens", "own").json()] == ["t"]
    api.desk.store.people.change(person, None, role="viewer")
    assert api.ask("POST", "/pipelines/orders/resume", "own").status_code == 403
    api.desk.store.people.change(person, None, disabled_at=1)
    assert api.ask("GET", "/pipelines", "own").status_code == 401


def test_the_first_start_gives_an_admin_token_once(make_client: Callable[..., Api]) -> None:
    api = make_client(PENSTOCK_HTTP_AUTH="local")
    with api.desk.store._database.write() as connection:
        connection.execute(sa.delete(tokens))
    token = api.auth.first_token()
    assert token is not None
    assert api.auth.first_token() is None
    answer = api.client.get("/api/v1/users", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200


def test_without_authentication_whoever_is_here_is_an_admin(make_client: Callable[..., Api]) -> None:
    api = make_client()
    assert api.auth.first_token() is None
    assert api.ask("GET", "/users", None).status_code == 200
    who = api.ask("GET", "/session", None).json()
    assert (who["kind"], who["role"], who["csrf"]) == ("system", "admin", None)


def test_people_change_their_own_password_and_are_logged_out(api: Api, person: str) -> None:
    headers = {"x-csrf-token": log_in(api).json()["csrf"]}
    new = "an even longer sentence"
    path = f"/users/{person}/password"
    wrong = api.ask("PUT", path, None, headers=headers, json={"password": new, "old": "wrong"})
    assert wrong.status_code == 422
    short = api.ask("PUT", path, None, headers=headers, json={"password": "short", "old": PASSWORD})
    assert short.status_code == 422
    assert "short" not in short.json().get("received", "")
    done = api.ask("PUT", path, None, headers=headers, json={"password": new, "old": PASSWORD})
    assert done.status_code == 204
    assert api.ask("GET", "/session", None).status_code == 401
    assert log_in(api, new).status_code == 200


def test_the_last_admin_stays(make_client: Callable[..., Api]) -> None:
    api = make_client()
    with api.desk.store._database.write() as connection:
        connection.execute(sa.delete(tokens))
    made = api.ask("POST", "/users", None, json={"email": "a@example.org", "role": "admin"}).json()
    for method, body in (("PATCH", {"role": "viewer"}), ("PATCH", {"disabled": True}), ("DELETE", None)):
        answer = api.ask(method, f"/users/{made['id']}", None, headers={"If-Match": "*"}, json=body)
        assert (answer.status_code, answer.json()["code"]) == (409, "last_admin")
    api.ask("POST", "/users", None, json={"email": "b@example.org", "role": "admin"})
    assert api.ask("DELETE", f"/users/{made['id']}", None, headers={"If-Match": '"1"'}).status_code == 204
