"""Address and credentials of the API server."""

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

from di_kube.proxy import Proxy, proxy_for

# Bound tokens live an hour and are replaced in the file at 80 % of that; client-go reads the file
# as often. A read for every request would be wasted work.
TOKEN_PERIOD = 60.0
# Where the kubelet mounts a pod's own identity.
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class ConfigError(Exception):
    """There is no usable configuration; the message has the file and the fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeConfig:
    """How to connect to one API server.

    Attributes:
        server: base URL, no trailing slash.
        ca_pem: CA certificates to trust; None means the system's.
        client_cert_pem, client_key_pem: client certificate, if it is used for authentication.
        authorization: returns the present value of the Authorization header, or None. Safe to call
            from any thread and for every request.
        verify: False only if the kubeconfig has insecure-skip-tls-verify.
        tls_server_name: expected name in the server's certificate, if not the URL's host.
        proxy: HTTP proxy to the server; None: direct connections.
    """

    server: str
    ca_pem: bytes | None = None
    client_cert_pem: bytes | None = field(default=None, repr=False)
    client_key_pem: bytes | None = field(default=None, repr=False)
    authorization: Callable[[], str | None] = field(default=lambda: None, repr=False)
    verify: bool = True
    tls_server_name: str | None = None
    proxy: Proxy | None = None

    def ssl_context(self) -> ssl.SSLContext:
        """Return a client context (TLS 1.2 or newer) for this server.

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
    """An Authorization value that is read again at most once a minute; thread-safe.

    `read` can raise OSError if the value is not readable at the moment.
    """

    def __init__(self, *, read: Callable[[], str | None], clock: Callable[[], float]) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._value = read()
        self._due = clock() + TOKEN_PERIOD

    def __call__(self) -> str | None:
        """Return the value; the last known one if the file is not readable at the moment."""
        if self._clock() < self._due:
            return self._value
        with self._lock:
            if self._clock() >= self._due:
                # The mount is replaced by rename, so a failure is short; an expired token results
                # in 401.
                with suppress(OSError):
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
        clock: monotonic seconds, for reading tokens again.

    Raises:
        ConfigError: there is no usable configuration.
    """
    if not kubeconfig and (SERVICE_ACCOUNT / "token").is_file():
        return _in_cluster(clock)
    # Imported here and not above: the official client costs 19 MB and a fifth of a second, which a
    # pod does not need.
    from di_kube.kubeconfig import read_kubeconfig  # noqa: PLC0415
    from di_kube.kubeconfig_file import BadKubeconfig  # noqa: PLC0415

    try:
        found = read_kubeconfig(kubeconfig, context)
        return KubeConfig(
            server=found.server,
            ca_pem=found.ca_pem,
            client_cert_pem=found.client_cert_pem,
            client_key_pem=found.client_key_pem,
            authorization=CachedToken(read=found.authorization, clock=clock)
            if found.authorization
            else lambda: None,
            verify=found.verify,
            tls_server_name=found.tls_server_name,
            proxy=proxy_for(found.server, found.proxy_url, os.environ),
        )
    except BadKubeconfig as error:
        raise ConfigError(str(error)) from error
    except Exception as error:
        # For an invalid file the official loader raises YAML, type, lookup and base64 errors
        # besides its own.
        raise ConfigError(f"{kubeconfig or 'default configuration'}: {error}") from error


def _in_cluster(clock: Callable[[], float]) -> KubeConfig:
    token = SERVICE_ACCOUNT / "token"
    try:
        host, port = (os.environ[f"KUBERNETES_SERVICE_{part}"] for part in ("HOST", "PORT"))
        return KubeConfig(
            server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
            ca_pem=(SERVICE_ACCOUNT / "ca.crt").read_bytes(),
            authorization=CachedToken(
                read=lambda: f"Bearer {token.read_text().strip()}", clock=clock
            ),
        )
    except (KeyError, OSError) as error:
        raise ConfigError(f"service account in {SERVICE_ACCOUNT}: {error}") from error


def _load_client_certificate(context: ssl.SSLContext, pem: bytes) -> None:
    """Load a client certificate. OpenSSL reads a chain only from a file, which exists only during
    the call.
    """
    with tempfile.NamedTemporaryFile(prefix="kube-client-", suffix=".pem") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
