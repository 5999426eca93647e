"""Settings of the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from marshmallow import fields, validate

from di_api.names import DEFAULT_SERVICE_DOMAIN, SERVER_NAME
from di_api.spec import MAX_PODS
from di_server.model.references import ConfigRef
from di_service.settings import (
    CERT_DIR,
    DRAIN_SECONDS,
    HEALTH_BIND,
    KUBECONFIG,
    LOG_LEVEL,
    TLS_PORT,
    Address,
    AddressesField,
    ReferenceField,
    Setting,
    name_field,
    read_settings,
)
from di_service.tracing import TRACE_RATIO, TRACES

DEFAULT_MAX_REPLICAS: Final = 32
"""Bound of a task without maxReplicas, unless the installation has another. The pods of a job may
scale it without anybody's permission, so it must not be one that takes the cluster."""


class AuthMode(StrEnum):
    """Whether callers have to say who they are."""

    OFF = "off"
    """Whoever reaches the server may do everything: for development only."""
    OPTIONAL = "optional"
    """Without a token a pod reaches its own job, found by its address; nobody else anything."""
    REQUIRED = "required"
    """Nothing without a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What may differ between two installations."""

    binds: tuple[Address, ...]
    """The same application on all."""
    tls_port: int | None
    """The port of `binds` that is HTTPS. Then the others, plain HTTP, take no tokens but those of
    pods. None: all are plain HTTP and take everybody's, encrypted by something else if at all."""
    cert_dir: Path
    """Folder with tls.crt and tls.key; read anew when they change."""
    health_bind: Address | None
    """One more, for probes: it has threads of its own, whatever the other requests wait for."""
    watch_namespace: str | None
    """The only namespace served; None means all."""
    service_domain: str
    """The cluster's, for the DNS names of pods."""
    auth: AuthMode
    kubeconfig: str | None
    threads: int
    """Requests handled at once."""
    rate: float
    """Requests a second one job may send, for long."""
    burst: int
    """Requests one job may send at once."""
    default_max_replicas: int
    """Most replicas that a task without maxReplicas is scaled to."""
    names_callers: bool
    """Whether jobs say who asked for their last change."""
    refusal_rate: float
    """Requests a second that one address may send without saying who it is, for long."""
    refusal_burst: int
    """The same, at once."""
    review_rate: float
    """TokenReviews a second, of tokens that are not known to have held."""
    lookup_rate: float
    """Lists of pods a second, for callers whose address is not known."""
    aggregator_config: ConfigRef | None
    """Whose template aggregators are made from; None: learners are on one GPU each."""
    watch_nodes: bool
    """Whether nodes may be watched, to know how many GPUs one pod can have."""
    traces: str | None
    """Base URL of a receiver of OTLP; None: there are no traces."""
    trace_ratio: float
    log_level: str
    peers: tuple[Address, ...]
    """Names of all replicas, for members to be known to each; empty: this one is alone."""
    peer_token_file: Path | None
    """A token of this server's own account for the audience di-server, shown to the others."""
    peer_host: str
    """The name in the certificate of each."""
    drain_seconds: float
    """After SIGTERM: how long new connections are still taken. Endpoints of a Service change
    some seconds after the pod was told to end, and until then clients still come."""


def _a_second(default: float) -> fields.Float:
    return fields.Float(load_default=default, validate=validate.Range(0.1, 1e6))


def _at_once(default: int) -> fields.Integer:
    return fields.Integer(load_default=default, validate=validate.Range(1, 1_000_000))


_SETTINGS: Final = (
    Setting(
        "binds",
        AddressesField(load_default=(Address(host="::", port=8080), Address(host="::", port=8081))),
        "addresses of the listeners, with commas",
    ),
    Setting(
        TLS_PORT,
        fields.Integer(load_default=None),
        "the port of binds that is HTTPS; empty: all are plain HTTP",
    ),
    CERT_DIR,
    HEALTH_BIND,
    Setting(
        "watch_namespace",
        fields.String(load_default=None),
        "the only namespace whose jobs are served; empty: all",
    ),
    Setting(
        "service_domain",
        name_field(load_default=DEFAULT_SERVICE_DOMAIN),
        "the cluster's service domain",
    ),
    Setting(
        "auth",
        fields.Enum(AuthMode, by_value=True, load_default=AuthMode.OPTIONAL),
        f"whether callers have to say who they are: {', '.join(AuthMode)}",
    ),
    Setting(
        "threads",
        fields.Integer(load_default=32, validate=validate.Range(1, 1024)),
        "requests handled at once",
    ),
    Setting("rate", _a_second(20.0), "requests a second that one job may send, for long"),
    Setting("burst", _at_once(40), "requests that one job may send at once"),
    Setting(
        "default_max_replicas",
        fields.Integer(load_default=DEFAULT_MAX_REPLICAS, validate=validate.Range(1, MAX_PODS)),
        "most replicas that a task without maxReplicas is scaled to",
    ),
    Setting(
        "names_callers",
        fields.Boolean(load_default=False),
        "whether jobs say who asked for their last change, to a webhook that believes it",
    ),
    Setting(
        "refusal_rate",
        _a_second(1.0),
        "requests a second that one address may send without saying who it is, for long",
    ),
    Setting("refusal_burst", _at_once(20), "the same, at once"),
    Setting(
        "review_rate", _a_second(100.0), "TokenReviews a second, of tokens not known to have held"
    ),
    Setting(
        "lookup_rate", _a_second(20.0), "lists of pods a second, for callers at unknown addresses"
    ),
    Setting(
        "aggregator_config",
        ReferenceField(load_default=None),
        "AggregatorConfig that aggregators are made from, NAMESPACE/NAME; empty: none are made",
    ),
    Setting(
        "watch_nodes",
        fields.Boolean(load_default=True),
        "whether nodes may be watched, to know how many GPUs one pod can have",
    ),
    Setting(
        "peers",
        AddressesField(load_default=()),
        "addresses of all replicas or names that stand for them, with commas; empty: it is alone",
    ),
    Setting(
        "peer_token_file",
        fields.Function(deserialize=Path, load_default=None),
        "file with a token of its own account for audience di-server, which the others are shown",
    ),
    Setting(
        "peer_host",
        name_field(load_default=SERVER_NAME),
        "the name in the certificate of the other replicas",
    ),
    TRACES,
    TRACE_RATIO,
    LOG_LEVEL,
    DRAIN_SECONDS,
)


def load_config(argv: Sequence[str], environ: Mapping[str, str]) -> Config:
    """Read flags, DI_SERVER_* and KUBECONFIG.

    Raises:
        SettingsError: a value means nothing; the message has all of them.
    """
    values = read_settings(
        _SETTINGS,
        program=SERVER_NAME,
        about="Scales and shows DIJobs over REST.",
        prefix="DI_SERVER_",
        argv=argv,
        environ=environ,
        unprefixed=(KUBECONFIG,),
    )
    if values["aggregator_config"]:
        values["aggregator_config"] = ConfigRef(*values["aggregator_config"])
    return Config(**values)
