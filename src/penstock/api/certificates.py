"""The server's certificate while it serves: a renewed one is taken up without a restart, one that ends is told of."""

from __future__ import annotations

import datetime as dt
import os
import ssl
from pathlib import Path
from typing import Final

import structlog

from penstock.core.clock import SYSTEM, Clock
from penstock.core.periodic import Periodic

log = structlog.get_logger("penstock.http")

_EVERY: Final = 60.0
_SOON: Final = dt.timedelta(days=14)
_EXPIRED: Final = "the certificate has expired, and clients refuse it; renew the file, no restart is needed"
_EXPIRES: Final = "the certificate expires soon; renew the file, no restart is needed"


class Certificate:
    """Watches the files of a certificate and its key from `start` to `stop`.

    Connections that exist go on; new ones get the new certificate. Files that cannot be used, half of a pair for
    instance, change nothing and are tried again.
    """

    def __init__(self, context: ssl.SSLContext, files: tuple[str, str], clock: Clock = SYSTEM) -> None:
        self._context, self._files, self._clock = context, files, clock
        self._stamp = self._now_stamp()
        self._told: dt.date | None = None
        self._watch = Periodic("certificate", self.look, every=_EVERY, owner="HttpServer")

    def start(self) -> None:
        self._tell_of_end()
        self._watch.start()

    def stop(self) -> None:
        self._watch.stop()

    def look(self) -> None:
        """Take up what has changed, and say once a day that the end is near."""
        stamp = self._now_stamp()
        if stamp != self._stamp:
            try:
                # First into a context of its own: a pair that does not fit must not be half taken up.
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._files)
                self._context.load_cert_chain(*self._files)
            except (OSError, ValueError) as error:
                log.warning(
                    "the new certificate or its key cannot be used; the former one stays",
                    file=self._files[0],
                    reason=str(error),
                )
                return
            self._stamp, self._told = stamp, None
            log.info("a new certificate is used", file=self._files[0], until=self._end().isoformat())
        self._tell_of_end()

    def _tell_of_end(self) -> None:
        now = dt.datetime.fromtimestamp(self._clock.time(), dt.UTC)
        if self._told == now.date():
            return
        end = self._end()
        if end > now + _SOON:
            return
        self._told = now.date()
        said = _EXPIRED if end <= now else _EXPIRES
        log.warning(said, file=self._files[0], until=end.isoformat())

    def _end(self) -> dt.datetime:
        from cryptography import x509  # noqa: PLC0415 - only servers with TLS need it

        return x509.load_pem_x509_certificate(Path(self._files[0]).read_bytes()).not_valid_after_utc

    def _now_stamp(self) -> tuple[tuple[int, int], ...] | None:
        try:
            # By inode, too: Kubernetes exchanges links, whose targets may be older than what was there.
            return tuple((found.st_ino, found.st_mtime_ns) for found in map(_stat, self._files))
        except OSError:
            return None


def _stat(file: str) -> os.stat_result:
    return Path(file).stat()
