"""Logging in, tokens, and what they are good for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import sqlalchemy as sa

from penstock.service.attempts import TooManyAttempts
from penstock.service.authentication import SECURE_COOKIE, SESSION_COOKIE, Authentication, LogInFirst
from penstock.service.passwords import hash_password
from penstock.store import Store
from penstock.store.access_tables import failed_logins, tokens
from penstock.store.failed_logins import WINDOW
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
    for headers in ({}, {"x-csrf-token": "wrong"}, {"authorization": "Basic cHJveHk6eA=="}):
        refused = api.ask("POST", "/pipelines/orders/pause", None, headers=headers)
        assert refused.status_code == 403
        assert refused.json()["code"] == "csrf"
    assert api.desk.store.desired.get("orders") is None
    assert api.ask("POST", "/pipelines/orders/pause", None, headers={"x-csrf-token": csrf}).status_code == 200
    assert api.ask("GET", "/pipelines", None).status_code == 200


def test_over_tls_the_cookie_is_for_tls_only(api: Api, person: str) -> None:
    answer = api.client.post("https://127.0.0.1/api/v1/session", json={"user": "ada@example.org", "password": PASSWORD})
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{SECURE_COOKIE}=")
    assert "Secure" in cookie
    assert "Path=/" in cookie
    assert "Domain" not in cookie


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
    with Store.open(api.desk.settings.store_url) as store:
        other = Authentication(store, api.desk.settings)
        with pytest.raises(TooManyAttempts):
            other.log_in("ada@example.org", PASSWORD, address="10.0.0.9")
        with store._database.write() as connection:
            connection.execute(sa.update(failed_logins).values(at=failed_logins.c.at - int(WINDOW * 1000)))
        assert other.log_in("ada@example.org", PASSWORD).actor.name == "ada@example.org"
    assert log_in(api).status_code == 200


def test_log_ins_at_many_instances_at_once_are_limited_together(make_client: Callable[..., Api]) -> None:
    api = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_HTTP_ATTEMPTS="6")
    api.desk.store.people.create("ada@example.org", role="viewer", password=hash_password(PASSWORD))
    stores = [Store.open(api.desk.settings.store_url) for _ in range(3)]
    instances = [Authentication(store, api.desk.settings) for store in stores]

    def tries(authentication: Authentication) -> int:
        """How many were answered until the door was closed."""
        for answered in range(30):
            try:
                authentication.log_in("ada@example.org", "wrong", address="10.0.0.9")
            except LogInFirst:
                continue
            except TooManyAttempts:
                return answered
        return 30

    with ThreadPoolExecutor(len(instances)) as pool:
        answered = sum(pool.map(tries, instances))
    # Those under way while the last one failed are answered too.
    assert 6 <= answered <= 6 + len(instances) - 1
    with stores[0]._database.read() as connection:
        kept = connection.execute(sa.select(failed_logins.c.key_hash)).scalars().all()
    assert not any("ada" in key or "10.0.0.9" in key for key in kept)
    for store in stores:
        store.close()


def test_log_ins_of_ones_own_do_not_open_the_door_to_other_users(make_client: Callable[..., Api]) -> None:
    api = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_HTTP_ATTEMPTS="3")
    api.desk.store.people.create("mallory@example.org", role="viewer", password=hash_password(PASSWORD))
    said = []
    for number in range(4):
        said.append(log_in(api, "wrong", user=f"user{number}@example.org").status_code)
        log_in(api, user="mallory@example.org")
    assert said == [401, 401, 401, 429]


def test_an_ipv6_network_counts_as_one_address(make_client: Callable[..., Api]) -> None:
    auth = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_HTTP_ATTEMPTS="3").auth
    for number in range(3):
        with pytest.raises(LogInFirst):
            auth.log_in(f"user{number}@example.org", "wrong", address=f"2001:db8::{number:x}")
    with pytest.raises(TooManyAttempts):
        auth.log_in("another@example.org", "wrong", address="2001:db8::ffff")
    with pytest.raises(LogInFirst):
        auth.log_in("another@example.org", "wrong", address="2001:db8:0:1::1")


def test_tokens_that_are_not_known_are_counted_and_good_ones_cost_nothing(make_client: Callable[..., Api]) -> None:
    api = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_HTTP_ATTEMPTS="3")
    statements: list[str] = []
    engine = api.desk.store.database.engine
    sa.event.listen(engine, "before_cursor_execute", lambda *called: statements.append(called[2]))
    for _ in range(3):
        assert api.ask("GET", "/plugins", "viewer").status_code == 200
    assert not [each for each in statements if "failed_logins" in each]
    api.tokens = api.tokens | {"nobody": "pst_nonsense"}
    assert [api.ask("GET", "/plugins", "nobody").status_code for _ in range(4)] == [401, 401, 401, 429]
    assert api.ask("GET", "/plugins", "viewer").status_code == 200, "others at the address have good ones"
    with Store.open(api.desk.settings.store_url) as store:
        other = Authentication(store, api.desk.settings)
        with pytest.raises(TooManyAttempts):
            other.actor_of({"authorization": "Bearer pst_other"}, {}, "testclient")


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


def test_without_authentication_whoever_is_here_is_an_admin(make_client: Callable[..., Api]) -> None:
    api = make_client()
    assert api.auth.write_first_token() is None
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


def test_the_old_password_is_wanted_however_ones_own_id_is_written(api: Api) -> None:
    made = api.desk.store.people.create("boss@example.org", role="admin", password=hash_password(PASSWORD))
    headers = {"x-csrf-token": log_in(api, user="boss@example.org").json()["csrf"]}
    for written in (made.id, made.id.upper(), made.id.replace("-", ""), f"{{{made.id}}}"):
        body = {"password": "an even longer sentence"}
        answer = api.ask("PUT", f"/users/{written}/password", None, headers=headers, json=body)
        assert (answer.status_code, answer.json()["detail"]) == (422, "the old password is wrong"), written


def test_the_old_password_is_guessed_as_rarely_as_at_the_door(make_client: Callable[..., Api]) -> None:
    api = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_HTTP_ATTEMPTS="3")
    person = api.desk.store.people.create("ada@example.org", role="viewer", password=hash_password(PASSWORD)).id
    headers = {"x-csrf-token": log_in(api).json()["csrf"]}

    def change(old: str) -> int:
        body = {"password": "an even longer sentence", "old": old}
        status: int = api.ask("PUT", f"/users/{person}/password", None, headers=headers, json=body).status_code
        return status

    assert [change("wrong") for _ in range(4)] == [422, 422, 422, 429]
    assert change(PASSWORD) == 429


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
