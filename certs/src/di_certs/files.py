"""Certificates in a folder: for docker-compose, tests, and a webhook outside a cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from di_certs.authority import Authority, needs_renewal
from di_certs.inspection import hosts_of, is_pair

CA_CERTIFICATE: Final = "ca.crt"
CA_PRIVATE_KEY: Final = "ca.key"
CERTIFICATE: Final = "tls.crt"
PRIVATE_KEY: Final = "tls.key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Result of `write_certificates`."""

    authority: bool
    serving: bool


def write_certificates(
    folder: Path,
    hosts: Sequence[str],
    *,
    now: datetime,
    lifetime: timedelta,
    authority_folder: Path | None = None,
    force: bool = False,
) -> Written:
    """Make sure that the folder has a CA and a serving certificate for `hosts`.

    Existing certificates with more than a third of their lifetime left are kept, so that a
    distributed CA stays valid; `force` creates everything again. Files are replaced one by one,
    each in one step, the key before the certificate.

    Args:
        folder: gets ca.crt, ca.key, tls.crt and tls.key; created if missing.
        hosts: DNS names and IP addresses of the server, at least one.
        now: start of validity.
        lifetime: of the serving certificate; the CA's is ten times as long.
        authority_folder: has ca.key in place of `folder`, so that a server's folder does not allow
            it to issue certificates; created if missing, gets ca.crt too.

    Raises:
        OSError: the folder is not writable.
        ValueError: `hosts` is empty or one of them is not a DNS name.
    """
    if not hosts:
        raise ValueError("a serving certificate needs at least one host")
    home = folder if authority_folder is None else authority_folder
    for each in (folder, home):
        each.mkdir(parents=True, exist_ok=True)
    authority = None if force else _load_authority(home, now)
    made_authority = authority is None
    if authority is None:
        authority = Authority.create("di-orchestrator", now=now, lifetime=10 * lifetime)
        _write(home / CA_PRIVATE_KEY, authority.private_key_pem, secret=True)
        _write(home / CA_CERTIFICATE, authority.certificate_pem)
    if home != folder:
        # An earlier run may have had no separate folder for it.
        (folder / CA_PRIVATE_KEY).unlink(missing_ok=True)
        _write(folder / CA_CERTIFICATE, authority.certificate_pem)
    if not made_authority and _is_good(folder, authority, hosts, now):
        return Written(authority=False, serving=False)
    pair = authority.issue(hosts[0], now=now, lifetime=lifetime, hosts=hosts, server=True)
    _write(folder / PRIVATE_KEY, pair.private_key_pem, secret=True)
    _write(folder / CERTIFICATE, pair.certificate_pem)
    return Written(authority=made_authority, serving=True)


def _load_authority(folder: Path, now: datetime) -> Authority | None:
    try:
        certificate = (folder / CA_CERTIFICATE).read_bytes()
        private_key = (folder / CA_PRIVATE_KEY).read_bytes()
        authority = Authority.load(certificate, private_key)
    except (FileNotFoundError, ValueError):
        return None
    return None if needs_renewal(certificate, now=now) else authority


def _is_good(folder: Path, authority: Authority, hosts: Sequence[str], now: datetime) -> bool:
    try:
        certificate = (folder / CERTIFICATE).read_bytes()
        private_key = (folder / PRIVATE_KEY).read_bytes()
    except FileNotFoundError:
        return False
    return (
        not needs_renewal(certificate, now=now)
        and authority.has_issued(certificate)
        and is_pair(certificate, private_key)
        and hosts_of(certificate) == frozenset(hosts)
    )


def _write(path: Path, content: bytes, *, secret: bool = False) -> None:
    """Replace a file in one step: readers see either the old or the new content."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    mode = 0o600 if secret else 0o644
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)
