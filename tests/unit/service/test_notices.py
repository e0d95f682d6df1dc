"""Admins are told of what the database refused: who, how often, and what when nobody can be reached."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from penstock.config.http_settings import ApiSettings
from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from penstock.service.notices import Mailer, Notices
from penstock.service.secrets import SecretBox
from penstock.store import Store, StoreUnavailable
from penstock.workflows.notice_board import NoticeBoard
from penstock.workflows.notices import gather
from tests.behaviour.act.hook_server import HookServer
from tests.support.desk import Desk


class _Smtp(socketserver.StreamRequestHandler):
    """As much of a mail server as a client needs."""

    def handle(self) -> None:
        self._say("220 ready")
        data: list[str] | None = None
        for raw in self.rfile:
            line = raw.decode().rstrip("\r\n")
            if data is not None:
                if line == ".":
                    self.server.mails.append("\n".join(data))  # type: ignore[attr-defined]  # ours
                    data = None
                    self._say("250 taken")
                else:
                    data.append(line)
            elif line.upper().startswith("DATA"):
                data = []
                self._say("354 go on")
            else:
                self._say("221 bye" if line.upper() == "QUIT" else "250 fine")

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@pytest.fixture
def mails() -> Iterator[tuple[str, list[str]]]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Smtp) as server:
        server.mails = []  # type: ignore[attr-defined]  # see above
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"smtp://127.0.0.1:{server.server_address[1]}?from=penstock@example.org", server.mails  # type: ignore[attr-defined]
        server.shutdown()


class Scene:
    def __init__(self, folder: Path, smtp: str) -> None:
        self.desk = Desk(f"sqlite:///{folder / 'store.db'}")
        environ = {"PENSTOCK_HOME": str(folder), "PENSTOCK_STORE_URL": self.desk.url, "PENSTOCK_SMTP_URL": smtp}
        environ["PENSTOCK_HTTP_PUBLIC_URL"] = "https://penstock.example.org/"
        self.settings = Settings.load(environ, cwd=folder)
        self.store = Store.open(self.desk.url)
        for email, role, whole in (
            ("owner@example.org", "owner", None),
            ("admin@example.org", "admin", None),
            ("super@example.org", "viewer", "admin"),
            ("viewer@example.org", "viewer", None),
        ):
            user = self.store.users.save(email, role=whole)
            self.desk.execute(
                "INSERT INTO penstock_project_members (project_id, user_id, role)"  # noqa: S608 - ids of ours
                f" VALUES ('{self.desk.project}', '{user.id}', '{role}')"
            )
        self.store.users.save("stranger@example.org", role="admin")

    def fail(self, *offsets: int, at: int = 1_700_000_000_000_000) -> None:
        with self.store.database.write() as connection:
            gather(connection, self.desk.trigger, [("lab", 0, offset) for offset in offsets], at)

    def close(self) -> None:
        self.store.close()
        self.desk.close()


@pytest.fixture
def scene(tmp_path: Path, mails: tuple[str, list[str]]) -> Iterator[Scene]:
    made = Scene(tmp_path, mails[0])
    yield made
    made.close()


def test_admins_get_one_mail_and_after_the_embargo_a_digest(scene: Scene, mails: tuple[str, list[str]]) -> None:
    scene.fail(1, 2)
    notices = Notices(scene.store, scene.settings)
    assert [notices.look(), notices.look()] == [1, 0]
    (mail,) = mails[1]
    assert "Subject: Kafka trigger failure on Lab results" in mail
    assert "To: admin@example.org, owner@example.org, super@example.org" in mail
    assert "At 2023-11-14T22:13:20Z" in mail
    assert "lab/0@1" in mail
    assert f"https://penstock.example.org/workflows/{scene.desk.workflow}" in mail.replace("=\n", "")
    assert "Nothing is lost" in mail
    assert "Kafka Pipeline Error:" in mail

    scene.fail(*range(10, 60))
    scene.fail(77)
    assert Notices(scene.store, scene.settings).look() == 0, "the embargo is in the store, not in the process"
    scene.desk.execute("UPDATE penstock_triggers SET notified_at = notified_at - 3600000001")
    assert notices.look() == 1
    assert "51 since" in mails[1][1]
    assert "and 31 more" in mails[1][1]
    digest, first = scene.store.pipelines.history(f"trigger-{scene.desk.trigger}")
    assert (first.kind, digest.text) == ("notified", "51 messages could not be stored: 3 told")
    assert first.data["recipients"] == ["admin@example.org", "owner@example.org", "super@example.org"]
    assert (digest.data["count"], digest.data["services"], digest.data["failures"]) == (51, [], [])


def test_what_could_not_be_told_is_told_later(scene: Scene, mails: tuple[str, list[str]]) -> None:
    away = scene.settings.model_copy(
        update={"smtp": scene.settings.smtp.model_copy(update={"url": "smtp://127.0.0.1:1"})}
    )
    scene.fail(1)
    notices = Notices(scene.store, away)
    assert notices.look() == 1
    assert scene.store.pipelines.history(f"trigger-{scene.desk.trigger}") == []
    scene.fail(2)
    assert Notices(scene.store, scene.settings).look() == 1
    assert "2 since" in mails[1][0]


@pytest.mark.parametrize("odd", ["zoë@example.org", "line\nbreak@example.org", "<@>", "nobody"])
def test_one_odd_address_keeps_no_other_from_being_notified(
    scene: Scene, mails: tuple[str, list[str]], odd: str
) -> None:
    # F29: such an address ended the thread, and with it every later notice.
    user = scene.store.users.save("odd@example.org")
    scene.desk.execute(
        "INSERT INTO penstock_project_members (project_id, user_id, role)"  # noqa: S608 - ids of ours
        f" VALUES ('{scene.desk.project}', '{user.id}', 'admin')"
    )
    with scene.store.database.write() as connection:
        connection.execute(
            sa.text("UPDATE penstock_users SET email = :odd WHERE id = :id"), {"odd": odd, "id": user.id}
        )
    scene.fail(1)
    assert Notices(scene.store, scene.settings).look() == 1
    reached = "\n".join(mails[1])
    for recipient in ("admin@example.org", "owner@example.org", "super@example.org"):
        assert recipient in reached
    (noted,) = scene.store.pipelines.history(f"trigger-{scene.desk.trigger}")
    assert {"admin@example.org", "owner@example.org", "super@example.org"} <= set(noted.data["recipients"])
    assert Notices(scene.store, scene.settings, embargo_seconds=0).look() == 0, "it was sent"


def test_where_every_address_is_refused_for_good_the_history_says_so_once(scene: Scene) -> None:
    scene.desk.execute("DELETE FROM penstock_project_members")
    name = scene.desk.query("SELECT name FROM penstock_projects")[0][0]
    scene.store.projects.save(scene.desk.project, name, settings={"notify": ["nosuchservice://secret-part"]})
    scene.fail(1)
    notices = Notices(scene.store, scene.settings)
    assert [notices.look(), notices.look()] == [1, 0]
    (noted,) = scene.store.pipelines.history(f"trigger-{scene.desk.trigger}")
    assert (noted.kind, noted.text) == ("not notified", "1 messages could not be stored: no address could be reached")
    assert "secret-part" not in str(noted), "I8: an address is a secret"


def test_an_unexpected_error_of_one_digest_ends_nothing(
    scene: Scene, mails: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.fail(1)
    notices = Notices(scene.store, scene.settings)
    with monkeypatch.context() as patched:
        patched.setattr(notices, "_text", lambda _: {}["missing"])
        assert notices.look() == 1
    assert notices.look() == 1
    assert "1 since" in mails[1][0]


def test_a_digest_of_a_process_that_was_killed_is_sent_by_another_when_its_lease_has_ended(
    scene: Scene, mails: tuple[str, list[str]]
) -> None:
    # F29: what was taken and not sent was lost.
    scene.fail(1)
    killed = NoticeBoard(scene.store.database)
    [taken] = killed.take(3_600)
    scene.fail(2, 3)
    assert Notices(scene.store, scene.settings).look() == 0, "it is leased"
    scene.desk.execute("UPDATE penstock_triggers SET notifying_until = notifying_until - 300000001")
    assert Notices(scene.store, scene.settings).look() == 1
    assert "3 since" in mails[1][0]
    # It lives after all; what it says now changes nothing.
    scene.fail(4)
    killed.confirm(taken)
    killed.release(taken)
    assert Notices(scene.store, scene.settings, embargo_seconds=0).look() == 1
    assert "1 since" in mails[1][1]
    assert "lab/0@4" in mails[1][1]


def test_a_digest_that_can_neither_be_sent_nor_released_is_sent_after_its_lease(
    scene: Scene, mails: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.fail(1)
    notices = Notices(scene.store, scene.settings)
    with monkeypatch.context() as patched:

        def away(*_args: object) -> None:
            raise StoreUnavailable("the store is away")

        patched.setattr(notices, "_tell", away)
        patched.setattr(notices._board, "release", away)
        assert notices.look() == 1
    scene.desk.execute("UPDATE penstock_triggers SET notifying_until = notifying_until - 300000001")
    assert notices.look() == 1
    assert "1 since" in mails[1][0]


def test_what_gathers_while_a_digest_is_sent_is_in_the_next(scene: Scene, mails: tuple[str, list[str]]) -> None:
    board = NoticeBoard(scene.store.database)
    scene.fail(1, 2)
    [taken] = board.take(3_600)
    scene.fail(3, at=1_700_000_060_000_000)
    board.confirm(taken)
    [rest] = board.take(0)
    assert rest.gathered == {
        "count": 1,
        "since": 1_700_000_000_000_000,
        "until": 1_700_000_060_000_000,
        "messages": ["lab/0@3"],
    }


def test_the_projects_own_addresses_are_told_and_may_be_secret(scene: Scene) -> None:
    with HookServer() as hook:
        address = f"json://127.0.0.1:{hook.port}/"
        hidden = SecretBox.of(scene.store, scene.settings).hidden({"notify": [address]})
        name = scene.desk.query("SELECT name FROM penstock_projects")[0][0]
        scene.store.projects.save(scene.desk.project, name, settings=hidden)
        scene.fail(1)
        opened = scene.settings.model_copy(update={"api": ApiSettings(networks=["127.0.0.0/8"])})
        assert Notices(scene.store, opened).look() == 1
        (request,) = hook.requests
    assert json.loads(request.body)["title"] == "Kafka trigger failure on Lab results"
    (noted,) = scene.store.pipelines.history(f"trigger-{scene.desk.trigger}")
    assert (noted.data["services"], len(noted.data["recipients"])) == (["json"], 3)
    assert str(hook.port) not in str(noted), "I8: an address is a secret"


def test_a_project_without_anybody_to_tell_says_so(scene: Scene) -> None:
    scene.desk.execute("DELETE FROM penstock_project_members")
    scene.fail(1)
    assert Notices(scene.store, scene.settings).look() == 1
    (noted,) = scene.store.pipelines.history(f"trigger-{scene.desk.trigger}")
    assert (noted.kind, noted.text) == ("not notified", "1 messages could not be stored: there is nobody to tell")


def test_an_address_that_is_no_mail_server_is_refused_at_start() -> None:
    for wrong in ("http://mail.example.org", "smtp://", "mail.example.org"):
        with pytest.raises(ConfigError, match="mail server"):
            Mailer(wrong)
