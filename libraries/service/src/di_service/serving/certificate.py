"""The serving certificate: read from files, and reloaded without a restart when they change."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import structlog

if TYPE_CHECKING:
    from prometheus_client import Counter, Gauge
    from structlog.typing import FilteringBoundLogger

CERTIFICATE_FILE: Final = "tls.crt"
PRIVATE_KEY_FILE: Final = "tls.key"

# Identity of the two files: a Secret volume replaces a symbolic link, so inodes change too.
_Signature = tuple[tuple[int, int, int], tuple[int, int, int]]


class UnusableCertificate(Exception):
    """The files do not hold a valid certificate with its private key."""


class Observer(Protocol):
    """Called for every read of the files with a new result."""

    def certificate_loaded(self, expires: datetime) -> None:
        """A new certificate is in use from now on."""
        ...

    def certificate_refused(self, reason: str) -> None:
        """The files are unusable; the previous certificate stays in use."""
        ...


class CertificateReport:
    """The Observer of a service: updates its log and its metrics."""

    def __init__(self, *, reloads: Counter, expiry: Gauge, log: FilteringBoundLogger) -> None:
        """`reloads` is counted by result, `expiry` is set to seconds since the epoch."""
        self._reloads = reloads
        self._expiry = expiry
        self._log = log

    def certificate_loaded(self, expires: datetime) -> None:
        """Count the new certificate and set its expiry."""
        self._reloads.labels("loaded").inc()
        self._expiry.set(expires.timestamp())
        self._log.info("serving certificate loaded", expires=expires.isoformat())

    def certificate_refused(self, reason: str) -> None:
        """Count the refusal; the previous certificate stays in use."""
        self._reloads.labels("refused").inc()
        self._log.warning("serving certificate not usable", reason=reason)


def certificate_of(
    tls_port: int | None, folder: Path, *, reloads: Counter, expiry: Gauge
) -> ServingCertificate | None:
    """Return the certificate for the TLS port, reported in log and metrics; None without such a
    port.
    """
    if tls_port is None:
        return None
    return reported_certificate(folder, reloads=reloads, expiry=expiry)


def reported_certificate(folder: Path, *, reloads: Counter, expiry: Gauge) -> ServingCertificate:
    """Return the certificate in a folder, reported in log and metrics."""
    report = CertificateReport(reloads=reloads, expiry=expiry, log=structlog.get_logger())
    return ServingCertificate(folder, observer=report, now=lambda: datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class _Loaded:
    context: ssl.SSLContext
    expires: datetime
    signature: _Signature


class ServingCertificate:
    """The TLS context of the newest usable certificate in a folder.

    Every new connection checks the files, which costs two stat calls. No thread watches them, and
    no connection uses a certificate older than the files. If the pair is missing, half-written,
    mismatched or expired, the previous one stays in use.
    """

    def __init__(self, folder: Path, *, observer: Observer, now: Callable[[], datetime]) -> None:
        self._certificate = folder / CERTIFICATE_FILE
        self._private_key = folder / PRIVATE_KEY_FILE
        self._observer = observer
        self._now = now
        self._lock = threading.Lock()
        self._loaded: _Loaded | None = None
        self._last_refusal = ""
        # Used while there is no certificate: every handshake fails in an orderly way.
        self._empty = _new_context()

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection; never raises."""
        with self._lock:
            self._refresh()
            return self._loaded.context if self._loaded else self._empty

    def is_usable(self) -> bool:
        """Return whether a new connection would get a certificate that has not expired."""
        with self._lock:
            self._refresh()
            return self._loaded is not None and self._now() < self._loaded.expires

    def _refresh(self) -> None:
        try:
            signature = self._signature()
            if self._loaded is not None and self._loaded.signature == signature:
                return
            loaded = self._load(signature)
        except (UnusableCertificate, OSError) as error:
            # One line per reason, not one per connection.
            if str(error) != self._last_refusal:
                self._last_refusal = str(error)
                self._observer.certificate_refused(str(error))
            return
        self._loaded = loaded
        self._last_refusal = ""
        self._observer.certificate_loaded(loaded.expires)

    def _load(self, signature: _Signature) -> _Loaded:
        context = _new_context()
        try:
            context.load_cert_chain(self._certificate, self._private_key)
            expires = _prove(context, self._certificate.read_text("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise UnusableCertificate(f"{self._certificate}: {_reason(error)}") from error
        return _Loaded(context, expires, signature)

    def _signature(self) -> _Signature:
        first, second = os.stat(self._certificate), os.stat(self._private_key)
        return (
            (first.st_mtime_ns, first.st_size, first.st_ino),
            (second.st_mtime_ns, second.st_size, second.st_ino),
        )


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _prove(context: ssl.SSLContext, certificate_pem: str) -> datetime:
    """Do a handshake with the context in memory and return when its certificate expires.

    The handshake verifies what a client will see: the pair works, is valid now, and is the one in
    the file (the files can be replaced between two reads).

    Raises:
        ssl.SSLError: the handshake failed.
        ValueError: the PEM holds no certificate.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(cadata=certificate_pem)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        context.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server),
    ]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)
            seen = end.getpeercert()
            if seen:
                expires = str(seen["notAfter"])
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(expires), UTC)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not a certificate with its key").replace("_", " ").lower()
    return str(error) or "not a certificate"
