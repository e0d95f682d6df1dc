"""The first token, tokens that make tokens, log-ins by token, many log-ins at once, and proxies."""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from argon2 import PasswordHasher
from fastapi import FastAPI

from penstock.api.app import mount_api
from penstock.api.server import HttpServer
from penstock.config.problems import InvalidConfigError
from penstock.config.settings import Settings
from penstock.service import passwords
from penstock.service.authentication import SECURE_COOKIE, SESSION_COOKIE
from penstock.service.health import STARTING
from penstock.service.passwords import hash_password
from penstock.store.access_tables import tokens
from tests.faces.api.conftest import PASSWORD, Api


@pytest.fixture
def fresh(make_client: Callable[..., Api]) -> Api:
    """Where nobody could log in yet."""
    api = make_client(PENSTOCK_HTTP_AUTH="local")
    with api.desk.store._database.write() as connection:
        connection.execute(sa.delete(tokens))
    return api


def use(api: Api, name: str, token: str) -> None:
    api.tokens = api.tokens | {name: token}


def log_in_by(api: Api, token: str) -> httpx.Response:
    return api.client.post("/api/v1/session", json={"token": token})


def test_the_first_token_is_in_a_file_of_its_owners_and_ends_after_a_day(fresh: Api, penstock_home: Path) -> None:
    file = fresh.auth.write_first_token()
    assert file == penstock_home / "first-token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    use(fresh, "first", file.read_text().strip())
    assert fresh.ask("GET", "/users", "first").status_code == 200
    [row] = fresh.desk.store.tokens.all()
    assert row.expires_at == row.created_at + 86_400_000
    assert fresh.auth.write_first_token() is None, "it was made once"
    with fresh.desk.store._database.write() as connection:
        connection.execute(sa.update(tokens).values(expires_at=1))
    assert fresh.ask("GET", "/users", "first").status_code == 401
    assert fresh.auth.write_first_token() == file, "nobody could log in otherwise"
    assert file.read_text().strip() != fresh.tokens["first"]


def test_the_first_token_does_not_follow_a_link(fresh: Api, penstock_home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    (penstock_home / "first-token").symlink_to(other)
    file = fresh.auth.write_first_token()
    assert file is not None
    assert not file.is_symlink()
    assert other.read_text() == "mine"


def test_the_first_admin_logs_in_to_the_console_with_the_first_token(fresh: Api) -> None:
    file = fresh.auth.write_first_token()
    assert file is not None
    begun = log_in_by(fresh, f"{file.read_text()}")
    assert begun.status_code == 200, begun.text
    headers = {"x-csrf-token": begun.json()["csrf"]}
    who = fresh.ask("GET", "/session", None).json()
    assert (who["role"], who["kind"], who["csrf"]) == ("admin", "token", begun.json()["csrf"])
    new = {"email": "ada@example.org", "role": "admin", "password": PASSWORD}
    assert fresh.ask("POST", "/users", None, json=new).status_code == 403, "a page elsewhere could ask for that"
    assert fresh.ask("POST", "/users", None, json=new, headers=headers).status_code == 201
    session = fresh.client.cookies[SESSION_COOKIE]
    assert fresh.ask("DELETE", "/session", None, headers=headers).status_code == 204
    fresh.client.cookies.set(SESSION_COOKIE, session)
    assert fresh.ask("GET", "/session", None).status_code == 401


def test_a_session_by_token_ends_with_the_token(api: Api) -> None:
    made = api.ask("POST", "/tokens", json={"name": "t", "role": "operator", "expires_in": "1h"}).json()
    begun = log_in_by(api, made["token"])
    assert begun.json()["expires_at"] <= made["expires_at"]
    assert (begun.json()["role"], api.ask("GET", "/pipelines", None).status_code) == ("operator", 200)
    assert api.ask("GET", "/users", None).status_code == 403
    api.ask("DELETE", f"/tokens/{made['id']}")
    assert api.ask("GET", "/pipelines", None).status_code == 401
    assert log_in_by(api, made["token"]).status_code == 401
    assert log_in_by(api, "pst_nonsense").status_code == 401


@pytest.mark.parametrize(
    "given", [{}, {"user": "a@b"}, {"password": "x"}, {"user": "a@b", "password": "x", "token": "pst_x"}]
)
def test_a_log_in_is_by_one_way(api: Api, given: dict[str, str]) -> None:
    answer = api.client.post("/api/v1/session", json=given)
    assert (answer.status_code, answer.json()["code"]) == (422, "request")
    assert "pst_x" not in answer.text


def test_a_token_neither_outlives_nor_exceeds_the_one_that_made_it(api: Api) -> None:
    parent = api.ask("POST", "/tokens", json={"name": "p", "role": "admin", "expires_in": "1h"}).json()
    use(api, "parent", parent["token"])
    longer = api.ask("POST", "/tokens", "parent", json={"name": "c", "role": "viewer", "expires_in": "2h"})
    assert (longer.status_code, "outlive" in longer.json()["detail"]) == (403, True)
    child = api.ask("POST", "/tokens", "parent", json={"name": "c", "role": "admin"}).json()
    assert child["expires_at"] == parent["expires_at"]
    use(api, "child", child["token"])
    grandchild = api.ask("POST", "/tokens", "child", json={"name": "g", "role": "viewer", "expires_in": "1m"}).json()
    use(api, "grandchild", grandchild["token"])
    assert grandchild["expires_at"] < parent["expires_at"]
    assert api.ask("GET", "/pipelines", "grandchild").status_code == 200
    assert api.ask("DELETE", f"/tokens/{parent['id']}").status_code == 204
    for name in ("parent", "child", "grandchild"):
        answer = api.ask("GET", "/pipelines", name)
        assert (answer.status_code, "was revoked" in answer.json()["detail"]) == (401, True), name


def test_many_log_ins_at_once_hash_few_at_a_time_and_are_counted_before(
    make_client: Callable[..., Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_HTTP_ATTEMPTS="5")
    api.desk.store.people.create("ada@example.org", role="viewer", password=hash_password(PASSWORD))
    lock, now, most, hashed = threading.Lock(), 0, 0, 0
    genuine = PasswordHasher.verify

    def counted(self: PasswordHasher, known: str, given: str) -> bool:
        nonlocal now, most, hashed
        with lock:
            now, hashed = now + 1, hashed + 1
            most = max(most, now)
        try:
            return genuine(self, known, given)
        finally:
            with lock:
                now -= 1

    monkeypatch.setattr(PasswordHasher, "verify", counted)

    def attempt(_: int) -> int:
        body = {"user": "ada@example.org", "password": "wrong"}
        return api.client.post("/api/v1/session", json=body).status_code

    with ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(attempt, range(40)))
    assert (answers.count(401), answers.count(429)) == (5, 35)
    assert hashed == 5
    assert most <= 2


def test_a_log_in_that_does_not_get_its_turn_is_told_so_and_not_counted(
    make_client: Callable[..., Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "_PATIENCE", 0.01)
    api = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_HTTP_ATTEMPTS="1")
    api.desk.store.people.create("ada@example.org", role="viewer", password=hash_password(PASSWORD))
    body = {"user": "ada@example.org", "password": PASSWORD}
    with passwords._turn(), passwords._turn():
        busy = api.client.post("/api/v1/session", json=body)
        assert (busy.status_code, busy.json()["code"]) == (503, "busy")
    assert api.client.post("/api/v1/session", json=body).status_code == 200


@pytest.mark.parametrize(
    "given",
    [{"PENSTOCK_HTTP_PUBLIC_URL": "https://penstock.example"}, {"PENSTOCK_OIDC_ADDRESS": "https://penstock.example"}],
)
def test_behind_tls_elsewhere_the_cookie_is_for_tls_only(
    make_client: Callable[..., Api], given: dict[str, str]
) -> None:
    api = make_client(PENSTOCK_HTTP_AUTH="local", **given)
    api.desk.store.people.create("ada@example.org", role="viewer", password=hash_password(PASSWORD))
    begun = api.client.post("/api/v1/session", json={"user": "ada@example.org", "password": PASSWORD})
    cookie = begun.headers["set-cookie"]
    assert cookie.startswith(f"{SECURE_COOKIE}=")
    assert "Secure" in cookie
    session = cookie.partition("=")[2].partition(";")[0]
    planted = api.client.get("/api/v1/session", headers={"cookie": f"{SESSION_COOKIE}={session}"})
    assert planted.status_code == 401, "another host of the domain could have set it"
    genuine = api.client.get("/api/v1/session", headers={"cookie": f"{SECURE_COOKIE}={session}"})
    assert genuine.status_code == 200


@pytest.mark.parametrize(("proxies", "expected"), [([], "127.0.0.1"), (["127.0.0.0/8"], "203.0.113.9")])
def test_a_proxy_is_believed_where_the_settings_name_it(api: Api, proxies: list[str], expected: str) -> None:
    def extend(app: FastAPI) -> None:
        mount_api(app, api.desk, api.auth)

    api.desk.store.people.create("ada@example.org", role="viewer", password=hash_password(PASSWORD))
    server = HttpServer(health=lambda: STARTING, metrics=lambda: b"", port=0, extend=extend, trusted_proxies=proxies)
    address = server.start()
    try:
        headers = {"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https"}
        body = {"user": "ada@example.org", "password": PASSWORD}
        begun = httpx.post(f"{address}/api/v1/session", json=body, headers=headers)
    finally:
        server.stop()
    assert begun.status_code == 200, begun.text
    assert ("Secure" in begun.headers["set-cookie"]) == bool(proxies)
    [row] = api.ask("GET", "/audit?action=session.begin").json()["items"]
    assert row["address"] == expected


def test_a_proxy_is_an_address_or_a_network(penstock_home: Path) -> None:
    given = {"PENSTOCK_HTTP_TRUSTED_PROXIES": "10.0.0.1, 10.1.0.0/16"}
    assert Settings.load(given).http.trusted_proxies == ["10.0.0.1", "10.1.0.0/16"]
    for wrong in ("*", "ingress", "10.1.0.0/99"):
        with pytest.raises(InvalidConfigError, match=r"trusted_proxies|TRUSTED_PROXIES"):
            Settings.load({"PENSTOCK_HTTP_TRUSTED_PROXIES": wrong})
