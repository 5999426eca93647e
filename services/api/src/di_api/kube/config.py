"""Where the API server is and how to prove who we are.

Reading kubeconfig files and the in-cluster mount is left to the official client, which follows
every rule kubectl has (merged files, contexts, exec plug-ins); only its result is kept.
"""

from __future__ import annotations

import os
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubernetes.client import Configuration
from kubernetes.config import load_incluster_config, load_kube_config
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import SERVICE_TOKEN_FILENAME
from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION, KubeConfigMerger

# Bound tokens live an hour and are replaced in the file at 80 % of that; client-go re-reads as
# often. Reading on every request would put a file read on the hot path for nothing.
TOKEN_PERIOD = 60.0
_KEY = "BearerToken"


class ConfigError(Exception):
    """There is no usable configuration; the message says which file and what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeConfig:
    """How to reach one API server.

    Attributes:
        server: base URL, no trailing slash.
        ca_pem: authorities to trust; None means the system's.
        client_cert_pem, client_key_pem: client certificate, if that is how we log in.
        authorization: gives the Authorization header's value now, or None. Safe to call from
            any thread and on every request.
        verify: False only where the kubeconfig says insecure-skip-tls-verify.
        tls_server_name: name expected in the server's certificate, if not the URL's host.
    """

    server: str
    ca_pem: bytes | None = None
    client_cert_pem: bytes | None = field(default=None, repr=False)
    client_key_pem: bytes | None = field(default=None, repr=False)
    authorization: Callable[[], str | None] = field(default=lambda: None, repr=False)
    verify: bool = True
    tls_server_name: str | None = None

    def ssl_context(self) -> ssl.SSLContext:
        """A client context (TLS 1.2 or newer) for this server.

        Raises:
            ConfigError: a certificate or key cannot be parsed.
        """
        try:
            context = ssl.create_default_context(
                cadata=self.ca_pem.decode() if self.ca_pem is not None else None
            )
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if not self.verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self.client_cert_pem is not None and self.client_key_pem is not None:
                _load_client_certificate(context, self.client_cert_pem + self.client_key_pem)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"certificates for {self.server}: {error}") from error
        return context


class CachedToken:
    """An Authorization value read again at most once a minute; safe between threads."""

    def __init__(self, *, read: Callable[[], str | None], clock: Callable[[], float]) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._value = read()
        self._due = clock() + TOKEN_PERIOD

    def __call__(self) -> str | None:
        """The value; the last one known when the file cannot be read at this moment."""
        if self._clock() < self._due:
            return self._value
        with self._lock:
            if self._clock() >= self._due:
                # The mount is swapped by rename, so a miss is short; an expired token shows
                # itself as 401.
                with suppress(OSError, ConfigException):
                    self._value = self._read()
                self._due = self._clock() + TOKEN_PERIOD
        return self._value


def load_config(
    kubeconfig: str | None,
    context: str | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> KubeConfig:
    """Read the configuration.

    Args:
        kubeconfig: file (or list of files as in $KUBECONFIG); None or empty means the pod's own
            service account inside a cluster, else kubectl's default files.
        context: kubeconfig context; None means the current one.
        clock: monotonic seconds, for re-reading tokens.

    Raises:
        ConfigError: nothing usable was found.
    """
    found = Configuration()
    try:
        if not kubeconfig and Path(SERVICE_TOKEN_FILENAME).is_file():
            load_incluster_config(  # type: ignore[no-untyped-call]  # untyped library
                client_configuration=found
            )
            token_file: str | None = SERVICE_TOKEN_FILENAME
        else:
            files = kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION
            load_kube_config(  # type: ignore[no-untyped-call]  # untyped library
                config_file=files,
                context=context,
                client_configuration=found,
                persist_config=False,
            )
            token_file = _token_file(files, context)
        return KubeConfig(
            server=found.host.rstrip("/"),
            ca_pem=_read(found.ssl_ca_cert),
            client_cert_pem=_read(found.cert_file),
            client_key_pem=_read(found.key_file),
            authorization=_authorization(found, token_file, clock),
            verify=found.verify_ssl,
            tls_server_name=getattr(found, "tls_server_name", None),
        )
    except Exception as error:
        # On a broken file the official loader fails with whatever it stumbles over: YAML, type,
        # lookup and base64 errors besides its own.
        raise ConfigError(f"{kubeconfig or 'default configuration'}: {error}") from error


def _authorization(
    found: Any, token_file: str | None, clock: Callable[[], float]
) -> Callable[[], str | None]:
    if token_file is not None:
        path = Path(token_file)
        return CachedToken(read=lambda: f"Bearer {path.read_text().strip()}", clock=clock)
    if _KEY in found.api_key:
        # The official client's hook runs an exec plug-in again once its token has expired.
        return CachedToken(read=lambda: found.get_api_key_with_prefix(_KEY), clock=clock)
    return lambda: None


def _token_file(files: str, context: str | None) -> str | None:
    """The user's `tokenFile`, which the official loader reads only once."""
    merged = KubeConfigMerger(files).config  # type: ignore[no-untyped-call]  # untyped library
    active = merged["contexts"].get_with_name(context or merged["current-context"])["context"]
    if not active.safe_get("user") or not merged.safe_get("users"):
        return None
    user = merged["users"].get_with_name(active["user"], safe=True)
    if user is None or not user.safe_get("user"):
        return None
    token_file = user["user"].safe_get("tokenFile")
    if token_file is None:
        return None
    return os.path.join(os.path.dirname(user.path or ""), token_file)


def _read(path: str | None) -> bytes | None:
    return Path(path).read_bytes() if path else None


def _load_client_certificate(context: ssl.SSLContext, pem: bytes) -> None:
    """OpenSSL takes a certificate chain from a file only; the file lives for the call alone."""
    with tempfile.NamedTemporaryFile(prefix="kube-client-", suffix=".pem") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
