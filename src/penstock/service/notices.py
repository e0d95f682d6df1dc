"""Tells the admins of a project that messages of a trigger were not stored: by mail and by the project's `notify`
addresses, in a thread of its own, as digests with an embargo between them."""

from __future__ import annotations

import smtplib
import ssl
import threading
from dataclasses import asdict
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Final
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import structlog

from penstock.act.notify import send, service_of
from penstock.config.settings import Settings
from penstock.core.errors import ConfigError, PenstockError, Unavailable
from penstock.core.secrets import Scrubber
from penstock.service.notice_record import NOT_TOLD, TOLD, Told, addresses_of, kind_of
from penstock.service.secrets import SecretBox
from penstock.service.trigger_specs import pipeline_name
from penstock.store import Store
from penstock.workflows.notice_board import Notice, NoticeBoard
from penstock.workflows.notices import ERROR, PERSISTENCE

log = structlog.get_logger("penstock.notices")

EMBARGO: Final = 3_600.0
_LOOK_EVERY: Final = 5.0
_TIMEOUT: Final = 20.0
_PORTS: Final = {"smtp": 25, "smtps": 465}


class MailUnavailable(Unavailable):
    """The mail server does not take the message now."""

    code = "mail"


class Mailer:
    """`smtp://user:password@host:port` or `smtps://…`; `?starttls=yes`, `&from=address`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            allowed = ["smtp://user:password@host:587?starttls=yes", "smtps://user:password@host"]
            raise ConfigError("the address of the mail server cannot be read", allowed=allowed)
        query = parse_qs(parts.query)
        self._parts: SplitResult = parts
        self._starttls = query.get("starttls", ["no"])[0].lower() in ("1", "yes", "true")
        user = unquote(parts.username or "")
        self._sender = query.get("from", [user if "@" in user else f"penstock@{parts.hostname}"])[0]

    def send(self, recipients: tuple[str, ...], subject: str, text: str) -> None:
        message = EmailMessage()
        # A name with a line break would be refused, and the mail with it.
        message["Subject"] = " ".join(subject.split())
        message["From"], message["To"] = self._sender, ", ".join(recipients)
        message.set_content(text)
        try:
            with self._server() as server:
                if self._starttls:
                    server.starttls(context=ssl.create_default_context())
                if self._parts.username:
                    server.login(unquote(self._parts.username), unquote(self._parts.password or ""))
                server.send_message(message)
        except (OSError, smtplib.SMTPException) as error:
            raise MailUnavailable(f"the mail server {self._parts.hostname} does not take it: {error}") from error

    def _server(self) -> smtplib.SMTP:
        host, port = self._parts.hostname or "", self._parts.port or _PORTS[self._parts.scheme]
        if self._parts.scheme == "smtps":
            return smtplib.SMTP_SSL(host, port, timeout=_TIMEOUT, context=ssl.create_default_context())
        return smtplib.SMTP(host, port, timeout=_TIMEOUT)


class Notices:
    """Looks at the store every few seconds; several instances share the work."""

    def __init__(
        self, store: Store, settings: Settings, *, embargo_seconds: float = EMBARGO, kept: bool = False
    ) -> None:
        """`kept`: alternate storage keeps copies of what is refused."""
        self._pipelines = store.pipelines
        self._board = NoticeBoard(store.database)
        self._secrets = SecretBox.of(store, settings)
        self._mailer = Mailer(settings.smtp.url) if settings.smtp.url else None
        self._embargo, self._kept = embargo_seconds, kept
        self._console = settings.http.address
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="notices", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_TIMEOUT)

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_EVERY):
            try:
                self.look()
            except Unavailable as error:
                log.debug("the store is away; admins are told later", reason=str(error))

    def look(self) -> int:
        """Tell what may be told now; the number of notices."""
        taken = self._board.take(self._embargo)
        for notice in taken:
            try:
                told = self._tell(notice)
            except PenstockError as error:
                log.warning("admins could not be told of failures", trigger=notice.trigger, reason=str(error))
                self._board.give_back(notice)
            else:
                self._note(notice, told)
        return len(taken)

    def _tell(self, notice: Notice) -> Told:
        """To everybody that can be reached; raises where that is nobody."""
        subject, text = f"Kafka trigger failure on {notice.workflow_name}", self._text(notice)
        told, failures = Told(), list[PenstockError]()
        if self._mailer and notice.recipients:
            try:
                self._mailer.send(notice.recipients, subject, text)
                told.recipients = list(notice.recipients)
            except PenstockError as error:
                failures.append(error)
        project = self._secrets.resolved(notice.settings)
        for address in addresses_of(project.value):
            try:
                send(service_of(address), subject, text, allow_private=bool(project.value.get("allow_private")))
                told.services.append(kind_of(address))
            except PenstockError as error:
                failures.append(error)
        if failures and not (told.recipients or told.services):
            raise failures[0]
        for failure in failures:
            log.warning("one way to tell admins of failures did not work", trigger=notice.trigger, reason=str(failure))
        # I8: what a service answers may repeat its own address.
        told.failures = [Scrubber(project.secrets).scrub(str(failure)) for failure in failures]
        return told

    def _note(self, notice: Notice, told: Told) -> None:
        """Into the history of the trigger's pipeline, for people who ask who knows of it."""
        count, reached = notice.gathered["count"], len(told.recipients) + len(told.services)
        kind, whom = (TOLD, f"{reached} told") if reached else (NOT_TOLD, "there is nobody to tell")
        text = f"{count:,} messages could not be stored: {whom}"
        data = {**notice.gathered, **asdict(told)}
        try:
            self._pipelines.note(pipeline_name(notice.trigger), None, kind, text, data)
        except Unavailable as error:
            # It has gone out; to keep it back now would send it twice.
            log.warning("a notice is not in the history", trigger=notice.trigger, reason=str(error))

    def _text(self, notice: Notice) -> str:
        gathered = notice.gathered
        count, named = gathered["count"], gathered["messages"]
        more = f"\n… and {count - len(named):,} more" if count > len(named) else ""
        kept = "kept as dead letters" + (", and as files of the alternate storage" if self._kept else "")
        return (
            f"At {_time(gathered['until'])} messages for the workflow {notice.workflow_name} of the project "
            f"{notice.project_name} could not be stored: {count:,} since {_time(gathered['since'])}.\n\n"
            f"Trigger: {notice.trigger_name} ({notice.trigger})\n"
            f"Workflow: {notice.workflow_name}, {self._console}/workflows/{notice.workflow}\n"
            + "\n".join(named)
            + f"{more}\n\nNothing is lost: they are {kept}. `penstock dead-letters list --pipeline "
            f"trigger-{notice.trigger}` shows them, and `penstock dead-letters replay` takes them in.\n"
            f"In the logs look for: {ERROR} Type `{PERSISTENCE}`\n"
        )


def _time(micros: int) -> str:
    return datetime.fromtimestamp(micros // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
