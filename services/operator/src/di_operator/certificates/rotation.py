"""What to do next about the certificates of the services: pure.

One step at a time, each a single write, each derived from nothing but what is stored in the
cluster: a manager that dies after any of them, or another one that takes over, goes on from
there. The order keeps every connection to a service verifiable:

1. the authority (with its key) is stored before anyone is told to trust it;
2. it is trusted before a service serves what it has issued: by the API server through caBundle,
   by pods through the ca.crt beside the certificate, which the operator hands on to them;
3. its predecessor stays trusted until every replica has had time to load the new certificate;
4. the webhook's first pods start once the webhook configurations hold the authority: they mount a
   ConfigMap, and its key is written after all that.
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
class Leaf:
    """The certificate of one service."""

    secret: str
    service: str
    """Name of its Service."""
    for_pods: bool = False
    """Whether its clients are pods; else they are API servers."""
    extra_hosts: tuple[str, ...] = ()
    """Further names and addresses, for clients that call it by URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSettings:
    """Where the certificates live and how long they last."""

    namespace: str
    authority_secret: str
    """No pod mounts it."""
    leaves: tuple[Leaf, ...]
    configuration: str | None
    """Name that the mutating and the validating configuration share; None: there are none."""
    admission: str | None = None
    """ConfigMap that the webhook's pods wait for; None: they wait for none."""
    service_domain: str = "svc.cluster.local"
    authority_lifetime: timedelta = timedelta(days=5 * 365)
    serving_lifetime: timedelta = timedelta(days=90)
    overlap: timedelta = timedelta(minutes=15)
    """How long a replaced authority stays trusted. The kubelet brings a changed Secret into a
    pod within two minutes; the rest is margin for one that cannot reach the API server."""
    settle: timedelta = timedelta(seconds=2)
    """Time every API server gets to see a published caBundle before it is relied upon."""
    spread: timedelta = timedelta(minutes=10)
    """The same for pods: the operator has to write to each of them, and its kubelet to bring it
    into the pod. What is served stays good for longer than that."""

    def __post_init__(self) -> None:
        # Certificates are backdated by minutes: two thirds of a shorter life would be over at
        # once, and each certificate would be replaced as soon as it is made.
        if min(self.authority_lifetime, self.serving_lifetime) < timedelta(hours=1):
            raise ValueError("a certificate must live for at least an hour")

    def hosts(self, leaf: Leaf) -> tuple[str, ...]:
        """Every name a service is called by; the API server uses `<service>.<namespace>.svc`."""
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
    """What is stored in the cluster now.

    `serving` has the Secret of each leaf by its name. `bundles` has the decoded caBundle of each
    webhook, empty where there is none. `has_rules` is false if a webhook configuration lacks the
    rules, `is_registered` true if both configurations exist. `confirmed` is ca.crt of the
    ConfigMap that the webhook's pods wait for, empty if it has none, None if there is no such
    ConfigMap. `published_for` is how long the manager has seen the present bundles, those for
    pods among them, unchanged.
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
    """Make an authority and store it; `reason` is for the log."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishBundle:
    """Write `bundle` and the rules into every webhook that differs, and `bundle` into every
    Secret for pods that has another one."""

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
    """Nothing to do for `duration`, unless something changes."""

    duration: timedelta


Step = CreateAuthority | PublishBundle | IssueServing | ConfirmAdmission | Rest


def next_step(observed: Observed, *, now: datetime, settings: CertificateSettings) -> Step:
    """The one thing to do now; never raises, whatever the Secrets contain."""
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
        # Last: a cluster's policy that refuses this write must not cost other services theirs.
        return ConfirmAdmission(bundle=bundle)
    return Rest(duration=min(dates) - now)


def published_bundles(
    bundles: tuple[bytes, ...],
    serving: Mapping[str, Mapping[str, Any] | None],
    settings: CertificateSettings,
) -> tuple[bytes, ...]:
    """All that clients of the services are told to trust: the API server by caBundle, pods by
    ca.crt of each Secret for them that exists."""
    for_pods = (
        secret_value(secret, CA_CERTIFICATE)
        for leaf in settings.leaves
        if leaf.for_pods and (secret := serving.get(leaf.secret)) is not None
    )
    return (*bundles, *for_pods)


def _awaits_confirmation(observed: Observed, bundle: bytes) -> bool:
    """Whether the webhook configurations hold `bundle` and its ConfigMap has another one."""
    return observed.is_registered and observed.confirmed not in (None, bundle)


def _patience(
    leaf: Leaf,
    secret: Mapping[str, Any] | None,
    bundle: bytes,
    *,
    now: datetime,
    settings: CertificateSettings,
) -> timedelta:
    """How long a bundle must have been published before a certificate is issued by it."""
    if not leaf.for_pods:
        return settings.settle
    serving = secret_value(secret, CERTIFICATE)
    is_good = (
        is_pair(serving, secret_value(secret, PRIVATE_KEY))
        and not has_expired(serving, now=now + settings.spread)
        and any(is_issued_by(serving, each) for each in split_certificates(bundle))
    )
    # Pods that do not know the authority yet would trust what is served now just as little.
    return settings.spread if is_good else settings.settle


def trusted_bundle(
    observed: Observed, authority: Authority, *, now: datetime, settings: CertificateSettings
) -> bytes:
    """The caBundle wanted now: the authority, then its predecessors while they may be in use.

    Predecessors are read from the present caBundles, and from the serving Secrets in case those
    were emptied; neither needs the authority's own Secret, which may be what was lost.
    """
    current = authority.certificate_pem
    secrets = [observed.serving.get(leaf.secret) for leaf in settings.leaves]
    served = [secret_value(secret, CERTIFICATE) for secret in secrets]
    if all(authority.has_issued(each) and now >= _overlap_end(each, settings) for each in served):
        return current
    known = [
        certificate for bundle in observed.bundles for certificate in split_certificates(bundle)
    ]
    # A Secret lists what was trusted when its certificate was issued: all of it may still be
    # in use while the replicas change over, afterwards only the issuer.
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
    # The moment of issue is in the certificate: no clock reading has to be stored anywhere.
    return (issued_at(serving) or _NEVER) + settings.overlap
