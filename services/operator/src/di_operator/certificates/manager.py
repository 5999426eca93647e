"""The controller of the services' certificates: reads the cluster, executes the planned step, and
reads again.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, assert_never

import structlog

from di_api import names
from di_api.admission_rules import ADMISSION_RULES, CLUSTER_RULES
from di_certs.authority import Authority, KeyPair
from di_certs.inspection import fingerprint
from di_kube.client import KubeClient
from di_kube.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound
from di_kube.resources import CONFIGMAPS, SECRETS, Resource
from di_operator.certificates.ca_bundles import (
    admission_patch,
    bundles,
    have_rules,
    is_registered,
    names_of,
)
from di_operator.certificates.rotation import (
    CA_CERTIFICATE,
    CA_PRIVATE_KEY,
    CERTIFICATE,
    PRIVATE_KEY,
    CertificateSettings,
    ConfirmAdmission,
    CreateAuthority,
    IssueServing,
    Leaf,
    Observed,
    PublishBundle,
    Rest,
    next_step,
    published_bundles,
    secret_value,
)
from di_operator.cluster.watch_object import RETRY, follow
from di_operator.config import Config
from di_operator.process.clock import Clock

log = structlog.get_logger(__name__)

# Watches report changes at once; this interval is for changes that they miss.
MAX_REST: Final = timedelta(seconds=60)
# One rotation takes three steps. More means that another client reverts them at once.
_MAX_STEPS: Final = 8
_JSON_PATCH: Final = "application/json-patch+json"


def certificate_settings(config: Config) -> CertificateSettings | None:
    """Return which certificates this operator has to issue, None if there are none."""
    leaves = []
    if config.webhook_secret is not None:
        leaves.append(Leaf(secret=config.webhook_secret, service=config.webhook_service))
    # Clients of these get their CA certificates from the operator, in the pods' annotation.
    leaves += [
        Leaf(secret=secret, service=service, for_pods=True)
        for secret, service in (
            (config.server_secret, names.SERVER_NAME),
            (config.history_secret, names.HISTORY_NAME),
            (config.dashboard_secret, names.DASHBOARD_NAME),
        )
        if secret is not None
    ]
    if not leaves or config.authority_secret is None:
        return None
    return CertificateSettings(
        namespace=config.namespace,
        authority_secret=config.authority_secret,
        leaves=tuple(leaves),
        configuration=config.webhook_configuration if config.webhook_secret else None,
        rules=CLUSTER_RULES if config.watch_namespace is None else ADMISSION_RULES,
        admission=config.webhook_admission if config.webhook_secret else None,
        service_domain=config.service_domain,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """The objects as read; None for a Secret that does not exist."""

    authority: dict[str, Any] | None
    serving: Mapping[str, dict[str, Any] | None]
    """Serving Secrets by name."""
    configurations: tuple[tuple[Resource, dict[str, Any]], ...]
    admission: dict[str, Any] | None
    """The ConfigMap that the webhook's pods wait for."""


class CertificateManager:
    """Generates, publishes, renews and repairs certificates; only the leader runs it.

    A second manager that runs for a moment is harmless: every write is conditional on what was
    read, and the later writer gets a conflict and reads again.

    Needs: Secrets get, list, watch and update by name, and create; the two webhook configurations,
    the CRD of DIJobs and the ConfigMap that the webhook's pods wait for get, list, watch and patch
    by name.
    """

    def __init__(self, client: KubeClient, *, settings: CertificateSettings, clock: Clock) -> None:
        self._client = client
        self._settings = settings
        self._secrets = tuple(leaf.secret for leaf in settings.leaves)
        self._clock = clock
        self._changed = asyncio.Event()
        self._published: tuple[bytes, ...] | None = None
        self._published_since = 0.0

    async def run(self) -> None:
        """Keep the certificates valid until cancelled; retries after errors of the API server."""
        settings = self._settings
        objects: list[tuple[Resource, str, str | None]] = [
            *((SECRETS, secret, settings.namespace) for secret in self._secrets),
            (SECRETS, settings.authority_secret, settings.namespace),
            *((resource, name, None) for resource, name in names_of(settings).items()),
        ]
        if settings.admission is not None:
            objects.append((CONFIGMAPS, settings.admission, settings.namespace))
        async with asyncio.TaskGroup() as group:
            for each in objects:
                group.create_task(
                    follow(self._client, *each, changed=self._changed.set, clock=self._clock)
                )
            group.create_task(self._keep())

    async def reconcile_once(self) -> float:
        """Bring the certificates up to date; return the seconds until the next check.

        Raises:
            ApiError: a read or a write failed; the next call continues from there.
        """
        for _ in range(_MAX_STEPS):
            read = await self._read()
            step = next_step(self._observed(read), now=self._clock.now(), settings=self._settings)
            try:
                match step:
                    case CreateAuthority():
                        await self._create_authority(read, step)
                    case PublishBundle():
                        await self._publish(read, step)
                    case IssueServing():
                        await self._issue(read, step)
                    case ConfirmAdmission():
                        await self._confirm(read, step)
                    case Rest():
                        return min(step.duration, MAX_REST).total_seconds()
                    case _:
                        assert_never(step)
            except (AlreadyExists, Conflict, NotFound):
                # Changed, created or deleted since it was read: plan again from the present state.
                log.debug("certificates changed meanwhile", step=type(step).__name__)
        log.warning("certificates are changed by another client", steps=_MAX_STEPS)
        return RETRY

    async def _keep(self) -> None:
        while True:
            self._changed.clear()
            try:
                seconds = await self.reconcile_once()
            except ApiError as error:
                log.warning("certificates not reconciled", error=str(error))
                # No change ends this delay: the write that fails may be the one that follows every
                # change.
                await self._clock.sleep(RETRY)
                continue
            await self._wait(seconds)

    async def _wait(self, seconds: float) -> None:
        """Wait for a change, at most `seconds`."""
        sleep = asyncio.ensure_future(self._clock.sleep(seconds))
        change = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({sleep, change}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            change.cancel()

    async def _read(self) -> _Read:
        settings = self._settings
        configurations = names_of(settings)
        authority, serving, found, admission = await asyncio.gather(
            self._get(SECRETS, settings.authority_secret, settings.namespace),
            asyncio.gather(
                *(self._get(SECRETS, secret, settings.namespace) for secret in self._secrets)
            ),
            asyncio.gather(
                *(self._get(resource, name, None) for resource, name in configurations.items())
            ),
            self._get(CONFIGMAPS, settings.admission, settings.namespace),
        )
        return _Read(
            authority=authority,
            serving=dict(zip(self._secrets, serving, strict=True)),
            configurations=tuple(
                (resource, body)
                for resource, body in zip(configurations, found, strict=True)
                if body is not None
            ),
            admission=admission,
        )

    def _observed(self, read: _Read) -> Observed:
        told = bundles(read.configurations, self._settings)
        published = published_bundles(told, read.serving, self._settings)
        return Observed(
            authority=read.authority,
            serving=read.serving,
            bundles=told,
            has_rules=have_rules(read.configurations, self._settings),
            is_registered=is_registered(read.configurations),
            confirmed=_confirmed(read.admission),
            published_for=self._published_for(published),
        )

    async def _get(
        self, resource: Resource, name: str | None, namespace: str | None
    ) -> dict[str, Any] | None:
        """Return the object, None if it does not exist or `name` is None."""
        if name is None:
            return None
        try:
            return await self._client.get(resource, name, namespace)
        except NotFound:
            return None

    def _published_for(self, published: tuple[bytes, ...]) -> timedelta:
        # After a restart the time counts from the first read: waiting twice costs two seconds, not
        # waiting could fail admissions.
        monotonic = self._clock.monotonic()
        if published != self._published:
            self._published, self._published_since = published, monotonic
        return timedelta(seconds=monotonic - self._published_since)

    async def _create_authority(self, read: _Read, step: CreateAuthority) -> None:
        settings = self._settings
        now = self._clock.now()
        authority = Authority.create(
            settings.authority_secret, now=now, lifetime=settings.authority_lifetime
        )
        data = {
            CA_CERTIFICATE: authority.certificate_pem,
            CA_PRIVATE_KEY: authority.private_key_pem,
        }
        await self._store(settings.authority_secret, "Opaque", data, read.authority)
        log.info(
            "authority created",
            reason=step.reason,
            fingerprint=fingerprint(authority.certificate_pem),
        )

    async def _publish(self, read: _Read, step: PublishBundle) -> None:
        for resource, configuration in read.configurations:
            patch = admission_patch(resource, configuration, step.bundle, self._settings)
            if not patch:
                continue
            try:
                await self._client.patch(
                    resource,
                    names_of(self._settings)[resource],
                    patch,
                    content_type=_JSON_PATCH,
                    field_manager=names.OPERATOR_NAME,
                )
            except Invalid as error:
                # A `test` operation failed: the list of webhooks has changed since it was read.
                raise _as_conflict(error) from error
            log.info("caBundle and rules published", kind=resource.kind, reason=step.reason)
        for leaf in self._settings.leaves:
            secret = read.serving[leaf.secret]
            published = secret_value(secret, CA_CERTIFICATE)
            if leaf.for_pods and secret is not None and published != step.bundle:
                await self._store(
                    leaf.secret, "kubernetes.io/tls", {CA_CERTIFICATE: step.bundle}, secret
                )
                log.info("ca.crt published", secret=leaf.secret, reason=step.reason)

    async def _issue(self, read: _Read, step: IssueServing) -> None:
        settings = self._settings
        pair: KeyPair = step.authority.issue(
            step.leaf.service,
            now=self._clock.now(),
            lifetime=settings.serving_lifetime,
            hosts=settings.hosts(step.leaf),
            server=True,
        )
        data = {
            CERTIFICATE: pair.certificate_pem,
            PRIVATE_KEY: pair.private_key_pem,
            CA_CERTIFICATE: step.bundle,
        }
        secret = step.leaf.secret
        await self._store(secret, "kubernetes.io/tls", data, read.serving[secret])
        log.info(
            "serving certificate issued",
            secret=secret,
            reason=step.reason,
            fingerprint=fingerprint(pair.certificate_pem),
        )

    async def _confirm(self, read: _Read, step: ConfirmAdmission) -> None:
        assert read.admission is not None, "only a ConfigMap that exists awaits confirmation"
        name = read.admission["metadata"]["name"]
        # Includes the resourceVersion that was read: a compare-and-swap.
        version = {"resourceVersion": read.admission["metadata"]["resourceVersion"]}
        await self._client.patch(
            CONFIGMAPS,
            name,
            {"metadata": version, "data": {CA_CERTIFICATE: step.bundle.decode()}},
            self._settings.namespace,
            field_manager=names.OPERATOR_NAME,
        )
        log.info("admission confirmed", config_map=name)

    async def _store(
        self, name: str, kind: str, data: Mapping[str, bytes], present: dict[str, Any] | None
    ) -> None:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        if present is not None:
            # Includes the resourceVersion that was read: a compare-and-swap. Labels of other
            # clients stay.
            body = {**present, "data": {**(present.get("data") or {}), **encoded}}
            await self._client.replace(SECRETS, name, body, self._settings.namespace)
            return
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": kind,
            "metadata": {
                "name": name,
                "namespace": self._settings.namespace,
                "labels": {"app.kubernetes.io/managed-by": names.OPERATOR_NAME},
            },
            "data": encoded,
        }
        await self._client.create(SECRETS, body, self._settings.namespace)


def _confirmed(config_map: Mapping[str, Any] | None) -> bytes | None:
    if config_map is None:
        return None
    return str((config_map.get("data") or {}).get(CA_CERTIFICATE, "")).encode()


def _as_conflict(error: ApiError) -> Conflict:
    return Conflict(
        kind=error.kind, name=error.name, code=409, reason=error.reason, message=error.message
    )
