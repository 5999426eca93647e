"""The next step of certificate rotation: pure functions.

Each step is one write, and is derived only from what is stored in the cluster. A manager that stops
after any step, or another one that takes over, continues from there. The order keeps every
connection to a service verifiable:

1. the authority (with its key) is stored before any client is configured to trust it;
2. clients trust it before a service uses a certificate that it issued: the API server through
   caBundle, pods through the ca.crt beside the certificate, which the operator copies to them;
3. its predecessor stays trusted until every replica has had time to load the new certificate;
4. the webhook's first pods start once the webhook configurations hold the authority: they mount a
   ConfigMap, whose key is written last.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from di_api.admission_rules import ADMISSION_RULES
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

# Authorities trusted at the same time. Two is the rule. The bound keeps the configurations from
# growing when a client deletes the authority's Secret again and again.
MAX_TRUSTED: Final = 8

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """The certificate of one service."""

    secret: str
    service: str
    """Name of its Service."""
    for_pods: bool = False
    """Whether its clients are pods; otherwise they are API servers."""
    extra_hosts: tuple[str, ...] = ()
    """Further DNS names and addresses, for clients that call it by URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSettings:
    """The names under which certificates are stored, and their lifetimes."""

    namespace: str
    authority_secret: str
    """Secret of the authority, which no pod mounts."""
    leaves: tuple[Leaf, ...]
    configuration: str | None
    """Name of both the mutating and the validating configuration; None: there are none."""
    rules: Sequence[Mapping[str, Any]] = tuple(ADMISSION_RULES)
    """What the webhook reviews."""
    admission: str | None = None
    """ConfigMap that the webhook's pods wait for; None: they do not wait."""
    service_domain: str = "svc.cluster.local"
    authority_lifetime: timedelta = timedelta(days=5 * 365)
    serving_lifetime: timedelta = timedelta(days=90)
    overlap: timedelta = timedelta(minutes=15)
    """How long a replaced authority stays trusted. The kubelet updates a mounted Secret within two
    minutes; the rest is a margin for a kubelet that cannot reach the API server.
    """
    settle: timedelta = timedelta(seconds=2)
    """Time for every API server to load a published caBundle before a certificate depends on it."""
    spread: timedelta = timedelta(minutes=10)
    """The same time for pods: the operator writes to each of them, and its kubelet updates the
    file. The served certificate stays valid for longer than that.
    """

    def __post_init__(self) -> None:
        # Certificates are backdated by minutes: two thirds of a shorter lifetime would be over at
        # once, and each certificate would be replaced as soon as it is issued.
        if min(self.authority_lifetime, self.serving_lifetime) < timedelta(hours=1):
            raise ValueError("a certificate must live for at least an hour")

    def hosts(self, leaf: Leaf) -> tuple[str, ...]:
        """Return every name that clients call a service by; the API server uses
        `<service>.<namespace>.svc`.
        """
        qualified = f"{leaf.service}.{self.namespace}"
        return (
            f"{qualified}.svc",
            f"{qualified}.{self.service_domain}",
            qualified,
            leaf.service,
            *leaf.extra_hosts,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The certificates and bundles that the cluster has now.

    `serving` has the Secret of each leaf by its name. `bundles` has the decoded caBundle of each
    webhook, empty if it has none. `has_rules` is false if a webhook configuration lacks the rules;
    `is_registered` is true if both configurations exist. `confirmed` is ca.crt of the ConfigMap
    that the webhook's pods wait for: empty if the key is missing, None if the ConfigMap is.
    `published_for` is how long the manager has seen the present bundles, those for pods included,
    unchanged.
    """

    authority: Mapping[str, Any] | None
    serving: Mapping[str, Mapping[str, Any] | None]
    bundles: tuple[bytes, ...]
    has_rules: bool = True
    is_registered: bool = True
    confirmed: bytes | None = None
    published_for: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAuthority:
    """Create an authority and store it; `reason` is for the log."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishBundle:
    """Write `bundle` and the rules into every webhook that differs, and `bundle` into every Secret
    for pods that differs.
    """

    bundle: bytes
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueServing:
    """Issue a serving certificate from `authority` and store it beside `bundle`."""

    leaf: Leaf
    authority: Authority
    bundle: bytes
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmAdmission:
    """Write `bundle`, which the webhook configurations hold, into the ConfigMap that the
    webhook's pods wait for."""

    bundle: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """Do nothing for `duration`, unless an object changes."""

    duration: timedelta


Step = CreateAuthority | PublishBundle | IssueServing | ConfirmAdmission | Rest


def next_step(observed: Observed, *, now: datetime, settings: CertificateSettings) -> Step:
    """Return the next step; never raises, whatever the Secrets contain."""
    authority = _stored_authority(observed.authority)
    if authority is None:
        return CreateAuthority(reason="there is no usable authority")
    if needs_renewal(authority.certificate_pem, now=now):
        return CreateAuthority(reason="the authority nears its end")
    bundle = trusted_bundle(observed, authority, now=now, settings=settings)
    published = published_bundles(observed.bundles, observed.serving, settings)
    are_trusted = all(present == bundle for present in published)
    if not (are_trusted and observed.has_rules):
        what = "rules" if are_trusted else "trusted authorities"
        return PublishBundle(bundle=bundle, reason=f"the {what} differ")
    dates = [renewal_time(authority.certificate_pem)]
    may_confirm = False
    for leaf in settings.leaves:
        secret = observed.serving.get(leaf.secret)
        if reason := _reason_to_issue(secret, authority, now=now, hosts=settings.hosts(leaf)):
            patience = _patience(leaf, secret, bundle, now=now, settings=settings)
            unsettled = patience - observed.published_for
            if not published or unsettled <= timedelta(0):
                return IssueServing(leaf=leaf, authority=authority, bundle=bundle, reason=reason)
            dates.append(now + unsettled)
            continue
        if not leaf.for_pods and _awaits_confirmation(observed, bundle):
            unsettled = settings.settle - observed.published_for
            may_confirm = unsettled <= timedelta(0)
            if not may_confirm:
                dates.append(now + unsettled)
        serving = secret_value(secret, CERTIFICATE)
        dates.append(renewal_time(serving))
        overlap_end = _overlap_end(serving, settings)
        if now < overlap_end and bundle != authority.certificate_pem:
            dates.append(overlap_end)
    if may_confirm:
        # Last: if an admission policy refuses this write, the other services still get their
        # certificates.
        return ConfirmAdmission(bundle=bundle)
    return Rest(duration=min(dates) - now)


def published_bundles(
    bundles: tuple[bytes, ...],
    serving: Mapping[str, Mapping[str, Any] | None],
    settings: CertificateSettings,
) -> tuple[bytes, ...]:
    """Return all bundles that clients of the services get: caBundle for the API server, and for
    pods ca.crt of each existing Secret.
    """
    for_pods = (
        secret_value(secret, CA_CERTIFICATE)
        for leaf in settings.leaves
        if leaf.for_pods and (secret := serving.get(leaf.secret)) is not None
    )
    return (*bundles, *for_pods)


def _awaits_confirmation(observed: Observed, bundle: bytes) -> bool:
    """Return whether the webhook configurations hold `bundle` and the ConfigMap holds
    another one.
    """
    return observed.is_registered and observed.confirmed not in (None, bundle)


def _patience(
    leaf: Leaf,
    secret: Mapping[str, Any] | None,
    bundle: bytes,
    *,
    now: datetime,
    settings: CertificateSettings,
) -> timedelta:
    """Return how long a bundle must have been published before its authority issues a
    certificate.
    """
    if not leaf.for_pods:
        return settings.settle
    serving = secret_value(secret, CERTIFICATE)
    is_good = (
        is_pair(serving, secret_value(secret, PRIVATE_KEY))
        and not has_expired(serving, now=now + settings.spread)
        and any(is_issued_by(serving, each) for each in split_certificates(bundle))
    )
    # Pods that do not have the authority yet would not trust the present certificate either.
    return settings.spread if is_good else settings.settle


def trusted_bundle(
    observed: Observed, authority: Authority, *, now: datetime, settings: CertificateSettings
) -> bytes:
    """Return the wanted caBundle: the authority, then its predecessors while they can be in use.

    Predecessors are read from the present caBundles, and from the serving Secrets in case the
    bundles were emptied. Neither needs the authority's own Secret, which can be the lost object.
    """
    current = authority.certificate_pem
    secrets = [observed.serving.get(leaf.secret) for leaf in settings.leaves]
    served = [secret_value(secret, CERTIFICATE) for secret in secrets]
    if all(authority.has_issued(each) and now >= _overlap_end(each, settings) for each in served):
        return current
    known = [
        certificate for bundle in observed.bundles for certificate in split_certificates(bundle)
    ]
    # A Secret lists what was trusted when its certificate was issued: all of it can be in use while
    # the replicas reload, afterwards only the issuer.
    for secret, serving in zip(secrets, served, strict=True):
        changing = now < _overlap_end(serving, settings)
        known += [
            certificate
            for certificate in split_certificates(secret_value(secret, CA_CERTIFICATE))
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
    """Return a decoded value of a raw Secret, empty if it is missing or not base64."""
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
    hosts: tuple[str, ...],
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
    if not hosts_of(certificate) >= frozenset(hosts):
        return "the service has other names"
    return ""


def _overlap_end(serving: bytes, settings: CertificateSettings) -> datetime:
    # The certificate contains the time of issue: no clock reading has to be stored.
    return (issued_at(serving) or _NEVER) + settings.overlap
