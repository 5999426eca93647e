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
"""Default limit of a task without maxReplicas. The pods of a job can scale it without a user's
permission, so the limit must protect the cluster.
"""


class AuthMode(StrEnum):
    """The authentication that callers need."""

    OFF = "off"
    """All callers can do everything: for development only."""
    OPTIONAL = "optional"
    """Without a token a pod can use its own job, found by its address; other callers can do
    nothing.
    """
    REQUIRED = "required"
    """All callers need a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of an installation."""

    binds: tuple[Address, ...]
    """Addresses to listen on, all with the same application."""
    tls_port: int | None
    """The port of `binds` with HTTPS; the others, plain HTTP, accept only tokens of pods. None: all
    are plain HTTP and accept all tokens; a proxy may encrypt them.
    """
    cert_dir: Path
    """Folder with tls.crt and tls.key; reloaded when they change."""
    health_bind: Address | None
    """Additional address for probes: it has separate threads and does not wait for other
    requests.
    """
    watch_namespace: str | None
    """The only namespace served; None means all."""
    service_domain: str
    """The cluster's DNS domain of Services, for the DNS names of pods."""
    auth: AuthMode
    kubeconfig: str | None
    threads: int
    """Number of requests handled concurrently."""
    rate: float
    """Sustained requests per second of one job."""
    burst: int
    """Burst of requests of one job."""
    report_seconds: float
    """Seconds between two writes of a job's reports, on average."""
    default_max_replicas: int
    """Maximum replicas to which a task without maxReplicas is scaled."""
    names_callers: bool
    """Whether jobs record the author of their last change."""
    refusal_rate: float
    """Sustained refusals per second of one address."""
    refusal_burst: int
    """Burst of refusals of one address."""
    review_rate: float
    """TokenReviews per second, for tokens without a previous valid review."""
    lookup_rate: float
    """Lists of pods per second, for callers with an unknown address."""
    aggregator_config: ConfigRef | None
    """AggregatorConfig with the template of aggregators; None: learners use one GPU each."""
    watch_nodes: bool
    """Whether the server can watch nodes, to find the number of GPUs per node."""
    traces: str | None
    """Base URL of an OTLP receiver; None: no traces."""
    trace_ratio: float
    log_level: str
    peers: tuple[Address, ...]
    """Addresses of all replicas, which exchange members; empty: this replica is alone."""
    peer_token_file: Path | None
    """Token of this server's own account for the audience di-server, sent to the other replicas."""
    peer_host: str
    """Name in the certificate of each replica."""
    drain_seconds: float
    """Seconds after SIGTERM in which new connections are still accepted. Endpoints of a Service
    change some seconds after the pod's termination begins, and until then clients still connect.
    """


def _a_second(default: float) -> fields.Float:
    return fields.Float(load_default=default, validate=validate.Range(0.1, 1e6))


def _at_once(default: int) -> fields.Integer:
    return fields.Integer(load_default=default, validate=validate.Range(1, 1_000_000))


_SETTINGS: Final = (
    Setting(
        "binds",
        AddressesField(load_default=(Address(host="::", port=8080), Address(host="::", port=8081))),
        "addresses of the listeners, separated by commas",
    ),
    Setting(
        TLS_PORT,
        fields.Integer(load_default=None),
        "port among binds that serves HTTPS; empty: all serve plain HTTP",
    ),
    CERT_DIR,
    HEALTH_BIND,
    Setting(
        "watch_namespace",
        fields.String(load_default=None),
        "the only namespace whose jobs di-server serves; empty: all",
    ),
    Setting(
        "service_domain",
        name_field(load_default=DEFAULT_SERVICE_DOMAIN),
        "the cluster's service domain",
    ),
    Setting(
        "auth",
        fields.Enum(AuthMode, by_value=True, load_default=AuthMode.OPTIONAL),
        f"whether callers have to authenticate: {', '.join(AuthMode)}",
    ),
    Setting(
        "threads",
        fields.Integer(load_default=32, validate=validate.Range(1, 1024)),
        "number of requests handled at the same time",
    ),
    Setting("rate", _a_second(20.0), "requests a second that one job may send, for long"),
    Setting("burst", _at_once(40), "requests that one job may send at once"),
    Setting(
        "report_seconds",
        fields.Float(load_default=1.0, validate=validate.Range(0.01, 60)),
        "seconds between two writes of a job's reports",
    ),
    Setting(
        "default_max_replicas",
        fields.Integer(load_default=DEFAULT_MAX_REPLICAS, validate=validate.Range(1, MAX_PODS)),
        "upper bound of replicas of a task without maxReplicas",
    ),
    Setting(
        "names_callers",
        fields.Boolean(load_default=False),
        "whether changes name their caller; the webhook must list di-server among its speakers",
    ),
    Setting(
        "refusal_rate",
        _a_second(1.0),
        "sustained unauthenticated requests per second of one address",
    ),
    Setting("refusal_burst", _at_once(20), "the same, at once"),
    Setting(
        "review_rate",
        _a_second(100.0),
        "TokenReviews per second of tokens that are not in the cache",
    ),
    Setting(
        "lookup_rate",
        _a_second(20.0),
        "LIST requests for pods per second, for callers with unknown addresses",
    ),
    Setting(
        "aggregator_config",
        ReferenceField(load_default=None),
        "AggregatorConfig from which aggregators are created, NAMESPACE/NAME; empty: none",
    ),
    Setting(
        "watch_nodes",
        fields.Boolean(load_default=True),
        "whether di-server watches nodes, to know how many GPUs one pod can have",
    ),
    Setting(
        "peers",
        AddressesField(load_default=()),
        "addresses of all replicas, or DNS names of them, separated by commas; empty: one replica",
    ),
    Setting(
        "peer_token_file",
        fields.Function(deserialize=Path, load_default=None),
        "file with a token of di-server's account for audience di-server, sent to other replicas",
    ),
    Setting(
        "peer_host",
        name_field(load_default=SERVER_NAME),
        "name in the certificate of the other replicas",
    ),
    TRACES,
    TRACE_RATIO,
    LOG_LEVEL,
    DRAIN_SECONDS,
)


def load_config(argv: Sequence[str], environ: Mapping[str, str]) -> Config:
    """Read flags, DI_SERVER_* and KUBECONFIG.

    Raises:
        SettingsError: a value is invalid; the message has all of them.
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
