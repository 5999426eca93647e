"""`caBundle` and `rules` of the webhook configurations and the CRD: pure functions.

The objects are the two webhook configurations, and the CustomResourceDefinition of DIJobs, because
the webhook also converts between versions. The operator publishes `caBundle`, and in the
configurations `rules`. All other fields belong to helm, or to another client that created the
objects.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from di_api import names
from di_kube.resources import CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from di_operator.certificates.rotation import CertificateSettings

_ADMISSION: Final = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
CONFIGURATIONS: Final = (*_ADMISSION, CRDS)
_DEFINITION: Final = f"{names.PLURAL}.{names.GROUP}"
_CONVERSION: Final = "/spec/conversion/webhook/clientConfig"


class _Client(NamedTuple):
    """The fields of one webhook in one of these objects."""

    path: str
    """JSON pointer of the clientConfig."""
    config: Mapping[str, Any]
    unchanged: tuple[str, object]
    """JSON pointer and value of a `test` operation that fails if the object has changed since it
    was read.
    """
    rules: tuple[str, object] | None = None
    """JSON pointer and value of its `rules`; None for a conversion webhook, which has none."""

    def has_rules(self, published: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether its `rules` are the published ones, or it needs none."""
        return self.rules is None or self.rules[1] == [*published]


def names_of(settings: CertificateSettings) -> dict[Resource, str]:
    """Return the name of the object of each of CONFIGURATIONS; empty if there is no webhook."""
    configuration = settings.configuration
    if configuration is None:
        return {}
    return {each: _DEFINITION if each is CRDS else configuration for each in CONFIGURATIONS}


def bundles(
    read: Iterable[tuple[Resource, Mapping[str, Any]]], settings: CertificateSettings
) -> tuple[bytes, ...]:
    """Return the decoded caBundle of each webhook, empty bytes if it has none."""
    return tuple(
        _bundle(client.config)
        for resource, body in read
        for client in _of(resource, body, settings)
    )


def have_rules(
    read: Iterable[tuple[Resource, Mapping[str, Any]]], settings: CertificateSettings
) -> bool:
    """Return whether every webhook in the existing webhook configurations has the rules."""
    return all(
        client.has_rules(settings.rules)
        for resource, body in read
        for client in _of(resource, body, settings)
    )


def is_registered(read: Iterable[tuple[Resource, Mapping[str, Any]]]) -> bool:
    """Return whether both webhook configurations exist and have a webhook."""
    found = {resource for resource, body in read if body.get("webhooks")}
    return found.issuperset(_ADMISSION)


def admission_patch(
    resource: Resource, body: Mapping[str, Any], bundle: bytes, settings: CertificateSettings
) -> list[dict[str, Any]]:
    """Return the RFC 6902 operations that publish `bundle` and the rules where they differ.

    Empty if nothing differs. Both are in one patch: with the rules alone the API server would call
    a webhook that it does not trust.
    """
    encoded = base64.b64encode(bundle).decode()
    patch: list[dict[str, Any]] = []
    for client in _of(resource, body, settings):
        changes: list[dict[str, Any]] = []
        if _bundle(client.config) != bundle:
            changes.append({"op": "add", "path": f"{client.path}/caBundle", "value": encoded})
        if client.rules is not None and not client.has_rules(settings.rules):
            changes.append({"op": "add", "path": client.rules[0], "value": [*settings.rules]})
        if changes:
            path, value = client.unchanged
            patch += [{"op": "test", "path": path, "value": value}, *changes]
    return patch


def _of(
    resource: Resource, body: Mapping[str, Any], settings: CertificateSettings
) -> Iterator[_Client]:
    if resource is not CRDS:
        for index, webhook in enumerate(body.get("webhooks", [])):
            path = f"/webhooks/{index}"
            unchanged = (f"{path}/name", webhook.get("name"))
            yield _Client(
                f"{path}/clientConfig",
                webhook.get("clientConfig", {}),
                unchanged,
                rules=(f"{path}/rules", webhook.get("rules")),
            )
        return
    # All releases of a cluster share the CRD: this operator must not change a definition without
    # conversion, or one that calls another release's webhook.
    config = (body["spec"].get("conversion", {}).get("webhook") or {}).get("clientConfig", {})
    if _is_called(config, settings):
        where = "service" if "service" in config else "url"
        yield _Client(_CONVERSION, config, (f"{_CONVERSION}/{where}", config[where]))


def _is_called(config: Mapping[str, Any], settings: CertificateSettings) -> bool:
    """Return whether `config` calls a Service of these settings."""
    service = config.get("service") or {}
    host = urlsplit(config.get("url") or "").hostname
    return any(
        (service.get("namespace"), service.get("name")) == (settings.namespace, leaf.service)
        or host in leaf.extra_hosts
        for leaf in settings.leaves
    )


def _bundle(config: Mapping[str, Any]) -> bytes:
    try:
        return base64.b64decode(config.get("caBundle") or "")
    except ValueError:
        return b""
