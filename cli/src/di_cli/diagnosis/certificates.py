"""Check that the CA certificates of the API server and of pods exist, agree, and are valid."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from di_api.field_error import items, mapping
from di_api.names import ANNOTATION_SERVER_CA
from di_cli.diagnosis.facts import Facts, Object
from di_cli.diagnosis.finding import Finding, fault, unread, warning

SOON: Final = timedelta(days=30)
"""Remaining time below which a certificate is reported; the operator should replace it earlier,
with a third of its lifetime left.
"""
_RENEWAL: Final = "the operator's leader renews them: see the topic operator"


def check(facts: Facts) -> Iterator[Finding]:
    """Check each place with a CA certificate."""
    places = [*_of_webhooks(facts), *_of_conversion(facts)]
    for answer, what in ((facts.mutating, "mutating"), (facts.validating, "validating")):
        if not answer.is_good:
            yield unread(answer, f"the {what} webhook configurations")
    bundles: dict[bytes, str] = {}
    for place, told in places:
        try:
            bundle = base64.b64decode(told, validate=True)
        except (binascii.Error, ValueError):
            bundle = b"?"
        yield from _of_bundle(bundle.decode(errors="replace"), place, facts.now)
        bundles.setdefault(bundle, place)
    if len(bundles) > 1:
        yield warning(
            f"the API server is told different authorities: {' and '.join(bundles.values())}",
            remedy=f"wait a minute: a new one is being published; if it stays so, {_RENEWAL}",
        )
    yield from _of_pods(facts)


def _of_webhooks(facts: Facts) -> Iterator[tuple[str, str]]:
    for answer in (facts.mutating, facts.validating):
        for configuration in answer.found:
            name = mapping(configuration.get("metadata")).get("name")
            for hook in map(mapping, items(configuration.get("webhooks"))):
                # Never called, so it needs no trust: the topic webhook reports it.
                if not items(hook.get("rules")):
                    continue
                client = mapping(hook.get("clientConfig"))
                yield f"{configuration.get('kind') or 'webhooks'} {name}", _text(client)


def _of_conversion(facts: Facts) -> Iterator[tuple[str, str]]:
    for definition in facts.definition.found:
        webhook = mapping(mapping(mapping(definition.get("spec")).get("conversion")).get("webhook"))
        if webhook:
            yield "the conversion of DIJobs", _text(mapping(webhook.get("clientConfig")))


def _text(client: Object) -> str:
    found = client.get("caBundle")
    return found if isinstance(found, str) else ""


def _of_pods(facts: Facts) -> Iterator[Finding]:
    told: dict[str, str] = {}
    for pod in facts.pods.found:
        metadata = mapping(pod.get("metadata"))
        found = mapping(metadata.get("annotations")).get(ANNOTATION_SERVER_CA)
        if isinstance(found, str) and found:
            told.setdefault(found, f"pod {metadata.get('name')}, to know di-server by")
    for text, place in told.items():
        yield from _of_bundle(text, place, facts.now)


def _of_bundle(text: str, place: str, now: datetime) -> Iterator[Finding]:
    if not text:
        yield warning(
            "no authority is told: only a certificate that the API server's host trusts is taken",
            where=place,
            remedy=f"with certificates.mode existingSecret set caBundle, else {_RENEWAL}",
        )
        return
    ends = _ends(text)
    if not ends:
        yield fault("what is told as an authority is none", where=place, remedy=_RENEWAL)
    elif max(ends) <= now:
        yield fault(
            f"the authority has expired, {max(ends):%Y-%m-%d}", where=place, remedy=_RENEWAL
        )
    elif max(ends) <= now + SOON:
        yield warning(f"the authority expires {max(ends):%Y-%m-%d}", where=place, remedy=_RENEWAL)


def _ends(text: str) -> list[datetime]:
    """Return the expiry times of CA certificates in PEM; empty if there are none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        return []
    return [
        datetime.fromtimestamp(ssl.cert_time_to_seconds(str(each["notAfter"])), UTC)
        for each in context.get_ca_certs()
    ]
