"""What to do next about the webhook's certificates: pure.

One step at a time, each a single write, each derived from nothing but what is stored in the
cluster: a manager that dies after any of them, or another one that takes over, goes on from
there. The order keeps every connection between API server and webhook verifiable:

1. the authority (with its key) is stored before anyone is told to trust it;
2. it is trusted (caBundle) before a webhook serves what it has issued;
3. its predecessor stays trusted until every replica has had time to load the new certificate.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from di_certs.authority import Authority, is_issued_by, needs_renewal, renewal_time
from di_certs.inspection import (
    has_expired,
    hosts_of,
    is_pair,
    issued_at,
    join_certificates,
    split_certificates,
)

CA_CERTIFICATE: Final = "ca.crt"
CA_PRIVATE_KEY: Final = "ca.key"
CERTIFICATE: Final = "tls.crt"
PRIVATE_KEY: Final = "tls.key"

# Authorities trusted at once. Two is the rule; somebody who deletes the authority's Secret again
# and again must not make the configurations grow without end.
MAX_TRUSTED: Final = 8

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSettings:
    """Where the certificates live and how long they last."""

    namespace: str
    secret: str
    """Name of the serving Secret; the authority is kept in `<secret>-ca`, which no pod mounts."""
    service: str
    """Name of the webhook's Service."""
    configuration: str
    """Name that the mutating and the validating configuration share."""
    service_domain: str = "svc.cluster.local"
    extra_hosts: tuple[str, ...] = ()
    """Further names and addresses of the webhook, for API servers that call it by URL."""
    authority_lifetime: timedelta = timedelta(days=5 * 365)
    serving_lifetime: timedelta = timedelta(days=90)
    overlap: timedelta = timedelta(minutes=15)
    """How long a replaced authority stays trusted. The kubelet brings a changed Secret into a
    pod within two minutes; the rest is margin for one that cannot reach the API server."""
    settle: timedelta = timedelta(seconds=2)
    """Time every API server gets to see a published caBundle before it is relied upon."""

    def __post_init__(self) -> None:
        # Certificates are backdated by minutes: two thirds of a shorter life would be over at
        # once, and each certificate would be replaced as soon as it is made.
        if min(self.authority_lifetime, self.serving_lifetime) < timedelta(hours=1):
            raise ValueError("a certificate must live for at least an hour")

    @property
    def authority_secret(self) -> str:
        return f"{self.secret}-ca"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every name the webhook is called by; the API server uses `<service>.<namespace>.svc`."""
        qualified = f"{self.service}.{self.namespace}"
        return (
            f"{qualified}.svc",
            f"{qualified}.{self.service_domain}",
            qualified,
            self.service,
            *self.extra_hosts,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What is stored in the cluster now.

    `bundles` has the decoded caBundle of each webhook, empty where there is none.
    `published_for` is how long the manager has seen the present bundles, unchanged.
    """

    authority: Mapping[str, Any] | None
    serving: Mapping[str, Any] | None
    bundles: tuple[bytes, ...]
    published_for: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAuthority:
    """Make an authority and store it; `reason` is for the log."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishBundle:
    """Write `bundle` into every webhook whose caBundle differs."""

    bundle: bytes
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueServing:
    """Issue a serving certificate from `authority` and store it beside `bundle`."""

    authority: Authority
    bundle: bytes
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """Nothing to do for `duration`, unless something changes."""

    duration: timedelta


Step = CreateAuthority | PublishBundle | IssueServing | Rest


def next_step(observed: Observed, *, now: datetime, settings: CertificateSettings) -> Step:
    """The one thing to do now; never raises, whatever the Secrets contain."""
    authority = _stored_authority(observed.authority)
    if authority is None:
        return CreateAuthority(reason="there is no usable authority")
    if needs_renewal(authority.certificate_pem, now=now):
        return CreateAuthority(reason="the authority nears its end")
    serving = secret_value(observed.serving, CERTIFICATE)
    bundle = trusted_bundle(observed, authority, now=now, settings=settings)
    if any(present != bundle for present in observed.bundles):
        return PublishBundle(bundle=bundle, reason="the trusted authorities differ")
    reason = _reason_to_issue(observed.serving, authority, now=now, settings=settings)
    if reason:
        unsettled = settings.settle - observed.published_for
        if observed.bundles and unsettled > timedelta(0):
            return Rest(duration=unsettled)
        return IssueServing(authority=authority, bundle=bundle, reason=reason)
    dates = [renewal_time(authority.certificate_pem), renewal_time(serving)]
    overlap_end = _overlap_end(serving, settings)
    if now < overlap_end and bundle != authority.certificate_pem:
        dates.append(overlap_end)
    return Rest(duration=min(dates) - now)


def trusted_bundle(
    observed: Observed, authority: Authority, *, now: datetime, settings: CertificateSettings
) -> bytes:
    """The caBundle wanted now: the authority, then its predecessors while they may be in use.

    Predecessors are read from the present caBundles, and from the serving Secret in case those
    were emptied; neither needs the authority's own Secret, which may be what was lost.
    """
    serving = secret_value(observed.serving, CERTIFICATE)
    current = authority.certificate_pem
    if authority.has_issued(serving) and now >= _overlap_end(serving, settings):
        return current
    known = [
        certificate for bundle in observed.bundles for certificate in split_certificates(bundle)
    ]
    # The Secret lists what was trusted when its certificate was issued: all of it may still be
    # in use while the replicas change over, afterwards only the issuer.
    changing = now < _overlap_end(serving, settings)
    known += [
        certificate
        for certificate in split_certificates(secret_value(observed.serving, CA_CERTIFICATE))
        if changing or is_issued_by(serving, certificate)
    ]
    previous = sorted(
        {
            certificate
            for certificate in known
            if certificate != current and not has_expired(certificate, now=now)
        },
        key=lambda certificate: (issued_at(certificate) or _NEVER, certificate),
        reverse=True,
    )
    return join_certificates([current, *previous[: MAX_TRUSTED - 1]])


def secret_value(secret: Mapping[str, Any] | None, key: str) -> bytes:
    """A decoded value of a raw Secret, empty if it is missing or not base64."""
    data = (secret or {}).get("data")
    value = data.get(key) if isinstance(data, Mapping) else None
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except binascii.Error:
        return b""


def _stored_authority(secret: Mapping[str, Any] | None) -> Authority | None:
    try:
        return Authority.load(
            secret_value(secret, CA_CERTIFICATE), secret_value(secret, CA_PRIVATE_KEY)
        )
    except (ValueError, TypeError):  # TypeError: the key is encrypted
        return None


def _reason_to_issue(
    secret: Mapping[str, Any] | None,
    authority: Authority,
    *,
    now: datetime,
    settings: CertificateSettings,
) -> str:
    certificate = secret_value(secret, CERTIFICATE)
    if not certificate:
        return "there is no serving certificate"
    if not is_pair(certificate, secret_value(secret, PRIVATE_KEY)):
        return "the serving certificate and its key do not match"
    if not authority.has_issued(certificate):
        return "the authority has changed"
    if needs_renewal(certificate, now=now):
        return "the serving certificate nears its end"
    if not hosts_of(certificate) >= frozenset(settings.hosts):
        return "the webhook has other names"
    return ""


def _overlap_end(serving: bytes, settings: CertificateSettings) -> datetime:
    # The moment of issue is in the certificate: no clock reading has to be stored anywhere.
    return (issued_at(serving) or _NEVER) + settings.overlap
