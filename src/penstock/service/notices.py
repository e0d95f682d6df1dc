"""Notifies the admins of a project of messages of a trigger that were not stored: by mail and by the project's `notify`
addresses, as digests with an embargo between them. Each digest is sent at least once."""

from __future__ import annotations

import smtplib
import ssl
from dataclasses import asdict
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Final
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import structlog

from penstock.act.notify import send, service_of
from penstock.config.settings import Settings
from penstock.core.errors import ConfigError, PenstockError, Terminal, Transient, Unavailable
from penstock.core.net.guard import AddressGuard
from penstock.core.periodic import Periodic
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
_PERMANENT: Final = 500
"""Answers of mail servers from here on are for good."""


class MailUnavailable(Unavailable):
    """The mail server does not take the message now."""

    code = "mail"


class MailRefused(PenstockError, Terminal):
    """The mail server takes no message for these addresses, or they are no addresses."""

    code = "mail-refused"


class SendFailed(PenstockError, Terminal):
    """A notification could not be sent, for a reason that is not known to be an outage."""

    code = "notice"


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
        """One mail to all of them; `MailRefused` where the fault is an address's, `MailUnavailable` otherwise."""
        try:
            message = EmailMessage()
            # A name with a line break would be refused, and the mail with it.
            message["Subject"] = " ".join(subject.split())
            message["From"], message["To"] = self._sender, ", ".join(recipients)
            message.set_content(text)
            with self._server() as server:
                if self._starttls:
                    server.starttls(context=ssl.create_default_context())
                if self._parts.username:
                    server.login(unquote(self._parts.username), unquote(self._parts.password or ""))
                server.send_message(message)
        except (ValueError, IndexError, smtplib.SMTPNotSupportedError) as error:
            # What the standard library raises of addresses that it cannot read, or write as ASCII.
            raise MailRefused(f"no mail can be written to {', '.join(recipients)}: {error}") from error
        except smtplib.SMTPRecipientsRefused as error:
            if all(code >= _PERMANENT for code, _ in error.recipients.values()):
                raise MailRefused(f"the mail server refuses {', '.join(error.recipients)}") from error
            raise MailUnavailable(f"the mail server {self._parts.hostname} takes no mail now: {error}") from error
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
        self._guard = AddressGuard(tuple(settings.api.networks))
        self._console = settings.http.address
        self._loop = Periodic("notices", self._look, every=_LOOK_EVERY, owner="Notices")

    def start(self) -> None:
        self._loop.start()

    def close(self) -> None:
        self._loop.stop(_TIMEOUT)

    def _look(self) -> None:
        try:
            self.look()
        except Unavailable as error:
            log.debug("the store cannot be reached; admins are notified later", reason=str(error))

    def look(self) -> int:
        """Send what may be sent now; the number of digests. One that fails does not keep the others back."""
        taken = self._board.take(self._embargo)
        for notice in taken:
            try:
                told = self._tell(notice)
            except Exception as error:
                # L3: one digest must not end the loop. An error of Penstock says all there is to say.
                trace = None if isinstance(error, PenstockError) else error
                log.warning(
                    "admins not notified of failures", trigger=notice.trigger, reason=str(error), exc_info=trace
                )
                self._release(notice)
            else:
                self._confirm(notice, told)
        return len(taken)

    def _release(self, notice: Notice) -> None:
        try:
            self._board.release(notice)
        except PenstockError as error:
            log.warning("a digest waits for the end of its lease", trigger=notice.trigger, reason=str(error))

    def _confirm(self, notice: Notice, told: Told) -> None:
        try:
            self._board.confirm(notice)
        except PenstockError as error:
            log.warning("a digest may be sent again", trigger=notice.trigger, reason=str(error))
        self._note(notice, told)

    def _tell(self, notice: Notice) -> Told:
        """Send to every address. Raises where none was reached and a later attempt may reach one."""
        subject, text = f"Kafka trigger failure on {notice.workflow_name}", self._text(notice)
        told = Told()
        failures = self._mail(notice.recipients, subject, text, told)
        project = self._secrets.resolved(notice.settings)
        for address in addresses_of(project.value):
            try:
                send(service_of(address), subject, text, self._guard)
                told.services.append(kind_of(address))
            except PenstockError as error:
                failures.append(error)
            except Exception as error:  # noqa: BLE001 - an odd address must not keep the others from being reached
                # I8: the text of such an error may hold the address.
                failures.append(SendFailed(f"{kind_of(address)}: the address cannot be used ({type(error).__name__})"))
        if not (told.recipients or told.services):
            for failure in failures:
                if isinstance(failure, Transient):
                    raise failure
        # I8: what a service answers may repeat its own address.
        told.failures = [Scrubber(project.secrets).scrub(str(failure)) for failure in failures]
        for reason in told.failures:
            log.warning("one address could not be notified of failures", trigger=notice.trigger, reason=reason)
        return told

    def _mail(self, recipients: tuple[str, ...], subject: str, text: str, told: Told) -> list[PenstockError]:
        """One mail to all; where an address is refused, one to each, so that it keeps no other from getting it."""
        if self._mailer is None or not recipients:
            return []
        try:
            self._mailer.send(recipients, subject, text)
        except MailRefused as error:
            if len(recipients) == 1:
                return [error]
            return [failure for each in recipients for failure in self._mail((each,), subject, text, told)]
        except PenstockError as error:
            return [error]
        told.recipients += recipients
        return []

    def _note(self, notice: Notice, told: Told) -> None:
        """Into the history of the trigger's pipeline, for people who ask who knows of it."""
        count, reached = notice.gathered["count"], len(told.recipients) + len(told.services)
        nobody = "no address could be reached" if told.failures else "there is nobody to tell"
        kind, whom = (TOLD, f"{reached} told") if reached else (NOT_TOLD, nobody)
        text = f"{count:,} messages could not be stored: {whom}"
        data = {**notice.gathered, **asdict(told)}
        try:
            self._pipelines.note(pipeline_name(notice.trigger), None, kind, text, data)
        except PenstockError as error:
            # It was sent; to keep it back now would send it twice.
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
