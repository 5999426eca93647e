"""The operator's configuration: environment variables, each also as a flag."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate
from typing_extensions import override

from di_api.names import (
    AGGREGATOR_CONFIG,
    DEFAULT_SERVICE_DOMAIN,
    OPERATOR_NAME,
    coordinated_server_url,
    server_url,
)

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


class ConfigError(Exception):
    """The configuration cannot be used; the message names every variable at fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the operator is told at start; `watch_namespace` None means all namespaces.

    `sync_period` is in seconds. Without `webhook_secret` certificates are not managed.
    """

    namespace: str
    watch_namespace: str | None
    service_domain: str
    server_url: str
    coordinated_server_url: str
    aggregator_config: tuple[str, str]
    """Namespace and name of the AggregatorConfig that coordinated jobs use."""
    aggregator_template: Mapping[str, Any]
    """What that AggregatorConfig is made of; empty: it is not made."""
    health: Address
    lease_name: str
    identity: str
    leader_elect: bool
    sync_period: float
    workers: int
    webhook_secret: str | None
    webhook_service: str
    webhook_configuration: str | None
    token_audience: str | None
    policy: str | None
    """Name of the allocation policy; None: preemptible jobs run like all others."""
    policy_arguments: Mapping[str, Any]
    scheduling_period: float
    """Seconds between two reconsiderations of all preemptible jobs."""
    kubeconfig: str | None
    log_level: str


class _AddressField(fields.Field[Address]):
    @override
    def _deserialize(self, value: Any, *_: Any, **__: Any) -> Address:
        host, colon, port = str(value).rpartition(":")
        if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise ValidationError("must be HOST:PORT")
        return Address(host=host.strip("[]"), port=int(port))


class _ReferenceField(fields.Field[tuple[str, str]]):
    @override
    def _deserialize(self, value: Any, *_: Any, **__: Any) -> tuple[str, str]:
        namespace, slash, name = str(value).partition("/")
        if not (slash and _NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
            raise ValidationError("must be NAMESPACE/NAME")
        return namespace, name


class _ObjectField(fields.Field[dict[str, Any]]):
    @override
    def _deserialize(self, value: Any, *_: Any, **__: Any) -> dict[str, Any]:
        try:
            found = json.loads(str(value))
        except json.JSONDecodeError as error:
            raise ValidationError(f"must be a JSON object: {error}") from error
        if not isinstance(found, dict):
            raise ValidationError("must be a JSON object")
        return found


def _name(**options: Any) -> fields.String:
    return fields.String(validate=validate.Regexp(rf"{_NAME.pattern}\Z"), **options)


_LEVELS = ("debug", "info", "warning", "error")
# Variable, field, help. The flag is the variable without its prefix: DI_OPERATOR_SYNC_PERIOD is
# --sync-period.
_SETTINGS: tuple[tuple[str, fields.Field[Any], str], ...] = (
    (
        "DI_OPERATOR_NAMESPACE",
        _name(required=True, attribute="namespace"),
        "namespace of the operator itself: its lease, secret and services",
    ),
    (
        "DI_OPERATOR_WATCH_NAMESPACE",
        _name(load_default=None, attribute="watch_namespace"),
        "the only namespace whose jobs are run; empty: all",
    ),
    (
        "DI_OPERATOR_SERVICE_DOMAIN",
        _name(load_default=DEFAULT_SERVICE_DOMAIN, attribute="service_domain"),
        "the cluster's service domain",
    ),
    (
        "DI_OPERATOR_SERVER_URL",
        fields.String(
            load_default=None,
            attribute="server_url",
            validate=validate.URL(schemes={"http", "https"}, require_tld=False),
        ),
        "DI_SERVER_URL of the pods; empty: di-server in the operator's namespace",
    ),
    (
        "DI_OPERATOR_COORDINATED_SERVER_URL",
        fields.String(
            load_default=None,
            attribute="coordinated_server_url",
            validate=validate.URL(schemes={"http", "https"}, require_tld=False),
        ),
        "KUBERNETES_SERVER_URL of the pods of coordinated jobs; empty: as above",
    ),
    (
        "DI_OPERATOR_AGGREGATOR_CONFIG",
        _ReferenceField(load_default=None, attribute="aggregator_config"),
        "AggregatorConfig of coordinated jobs, NAMESPACE/NAME; empty: aggregator-config in the "
        "operator's namespace",
    ),
    (
        "DI_OPERATOR_AGGREGATOR_TEMPLATE",
        _ObjectField(load_default=dict, attribute="aggregator_template"),
        "pod template that the AggregatorConfig is made of, a JSON object; empty: not made",
    ),
    (
        "DI_OPERATOR_HEALTH_BIND",
        _AddressField(load_default=Address(host="0.0.0.0", port=8080), attribute="health"),
        "address of /healthz, /readyz and /metrics",
    ),
    (
        "DI_OPERATOR_LEASE_NAME",
        _name(load_default=OPERATOR_NAME, attribute="lease_name"),
        "name of the Lease of the leader election",
    ),
    (
        "DI_OPERATOR_IDENTITY",
        fields.String(load_default=None, attribute="identity"),
        "who this replica is in the Lease, unique among replicas; empty: a random one",
    ),
    (
        "DI_OPERATOR_LEADER_ELECT",
        fields.Boolean(load_default=True, attribute="leader_elect"),
        "false only where there can never be a second replica",
    ),
    (
        "DI_OPERATOR_SYNC_PERIOD",
        fields.Float(
            load_default=60.0, attribute="sync_period", validate=validate.Range(min=1, max=86400)
        ),
        "seconds between two full re-lists",
    ),
    (
        "DI_OPERATOR_WORKERS",
        fields.Integer(
            load_default=32, attribute="workers", validate=validate.Range(min=1, max=256)
        ),
        "jobs reconciled at the same time",
    ),
    (
        "DI_OPERATOR_WEBHOOK_SECRET",
        _name(load_default=None, attribute="webhook_secret"),
        "Secret of the webhook's certificate; empty: certificates are not managed",
    ),
    (
        "DI_OPERATOR_WEBHOOK_SERVICE",
        _name(load_default="di-webhook", attribute="webhook_service"),
        "Service of the webhook, the name in its certificate",
    ),
    (
        "DI_OPERATOR_WEBHOOK_CONFIGURATION",
        _name(load_default=None, attribute="webhook_configuration"),
        "name of the mutating and the validating webhook configuration",
    ),
    (
        "DI_OPERATOR_TOKEN_AUDIENCE",
        fields.String(load_default=None, attribute="token_audience"),
        "audience of the token projected into every pod; empty: no token",
    ),
    (
        "DI_OPERATOR_POLICY",
        fields.String(load_default=None, attribute="policy"),
        "allocation policy of preemptible jobs; empty: they run like all others",
    ),
    (
        "DI_OPERATOR_POLICY_ARGUMENTS",
        _ObjectField(load_default=dict, attribute="policy_arguments"),
        "the policy's arguments, a JSON object",
    ),
    (
        "DI_OPERATOR_SCHEDULING_PERIOD",
        fields.Float(
            load_default=60.0,
            attribute="scheduling_period",
            validate=validate.Range(min=1, max=86400),
        ),
        "seconds between two reconsiderations of all preemptible jobs",
    ),
    (
        "DI_OPERATOR_LOG_LEVEL",
        fields.String(load_default="info", attribute="log_level", validate=validate.OneOf(_LEVELS)),
        f"one of {', '.join(_LEVELS)}",
    ),
    (
        "KUBECONFIG",
        fields.String(load_default=None, attribute="kubeconfig"),
        "empty: the pod's own service account",
    ),
)


def load_config(
    argv: Sequence[str], environ: Mapping[str, str], *, random_identity: Callable[[], str]
) -> Config:
    """Read the configuration; a flag wins over its variable, an empty value counts as absent.

    Raises:
        ConfigError: values are missing or wrong; all of them are named.
        SystemExit: argparse's own: an unknown flag, or --help.
    """
    parser = argparse.ArgumentParser(
        prog=OPERATOR_NAME, description="Runs DIJobs. Every flag is also an environment variable."
    )
    for variable, _, text in _SETTINGS:
        parser.add_argument(_flag(variable), dest=variable, help=f"{text} [{variable}]")
    given = {**environ, **{k: v for k, v in vars(parser.parse_args(argv)).items() if v is not None}}
    schema = Schema.from_dict({variable: field for variable, field, _ in _SETTINGS})()
    wanted = {variable: given[variable] for variable, _, _ in _SETTINGS if given.get(variable)}
    try:
        values = schema.load(wanted)
    except ValidationError as error:
        messages = error.messages_dict
        problems = "; ".join(
            f"{name}={wanted.get(name, '')!r}: {' '.join(messages[name])}"
            for name in sorted(messages)
        )
        raise ConfigError(problems) from error
    values["identity"] = values["identity"] or random_identity()
    values["server_url"] = (
        values["server_url"] or server_url(values["namespace"], values["service_domain"])
    ).rstrip("/")
    values["coordinated_server_url"] = (
        values["coordinated_server_url"] or coordinated_server_url(values["namespace"])
    ).rstrip("/")
    values["aggregator_config"] = values["aggregator_config"] or (
        values["namespace"],
        AGGREGATOR_CONFIG,
    )
    if values["webhook_secret"] and not values["webhook_configuration"]:
        raise ConfigError("DI_OPERATOR_WEBHOOK_CONFIGURATION is required with the webhook's secret")
    return Config(**values)


def _flag(variable: str) -> str:
    return "--" + variable.removeprefix("DI_OPERATOR_").lower().replace("_", "-")
