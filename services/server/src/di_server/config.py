"""Settings of the server, from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from marshmallow import EXCLUDE, Schema, ValidationError, fields, post_load, validate

from di_api.size import MAX_PODS
from di_server.decisions.scaling import DEFAULT_MAX_REPLICAS
from di_server.logs import LEVELS
from di_server.services.gate import AuthMode
from di_server.storage.learners import ConfigRef

_PREFIX: Final = "DI_SERVER_"


class ConfigError(ValueError):
    """A variable has a value that means nothing; the message has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What may differ between two installations."""

    binds: tuple[str, ...]
    """`host:port` each; the same application on all."""
    health_bind: str | None
    """One more, for probes: it has threads of its own, whatever the other requests wait for."""
    watch_namespace: str | None
    """The only namespace served; None means all."""
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
    log_level: str
    """Least level written: debug, info, warning or error."""
    drain_seconds: float
    """After SIGTERM: how long new connections are still taken. Endpoints of a Service change
    some seconds after the pod was told to end, and until then clients still come."""


def from_environment(environment: Mapping[str, str]) -> Config:
    """Read the DI_SERVER_* variables and KUBECONFIG; an empty value counts as missing.

    Raises:
        ConfigError: a value means nothing.
    """
    given = {
        key.removeprefix(_PREFIX).lower(): value
        for key, value in environment.items()
        if value and (key.startswith(_PREFIX) or key == "KUBECONFIG")
    }
    try:
        config: Config = _Variables().load(given)
    except ValidationError as error:
        found = error.messages_dict
        raise ConfigError(
            "; ".join(f"{_PREFIX}{key.upper()}: {' '.join(found[key])}" for key in sorted(found))
        ) from error
    return config


def _config_ref(text: str) -> ConfigRef:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise ValidationError("Must be <namespace>/<name>.")
    return ConfigRef(namespace, name)


class _Variables(Schema):
    class Meta:
        unknown = EXCLUDE

    binds = fields.String(load_default="0.0.0.0:8080,0.0.0.0:8081")
    health_bind = fields.String(load_default=None, validate=validate.Regexp(r".+:\d{1,5}$"))
    watch_namespace = fields.String(load_default=None)
    auth = fields.Enum(AuthMode, by_value=True, load_default=AuthMode.OPTIONAL)
    kubeconfig = fields.String(load_default=None)
    threads = fields.Integer(load_default=32, validate=validate.Range(1, 1024))
    rate = fields.Float(load_default=20.0, validate=validate.Range(0.1, 1e6))
    burst = fields.Integer(load_default=40, validate=validate.Range(1, 1_000_000))
    default_max_replicas = fields.Integer(
        load_default=DEFAULT_MAX_REPLICAS, validate=validate.Range(1, MAX_PODS)
    )
    refusal_rate = fields.Float(load_default=1.0, validate=validate.Range(0.1, 1e6))
    refusal_burst = fields.Integer(load_default=20, validate=validate.Range(1, 1_000_000))
    review_rate = fields.Float(load_default=100.0, validate=validate.Range(0.1, 1e6))
    lookup_rate = fields.Float(load_default=20.0, validate=validate.Range(0.1, 1e6))
    aggregator_config = fields.Function(deserialize=_config_ref, load_default=None)
    watch_nodes = fields.Boolean(load_default=True)
    log_level = fields.String(load_default="info", validate=validate.OneOf(LEVELS))
    drain_seconds = fields.Float(load_default=5.0, validate=validate.Range(0, 300))

    @post_load
    def _frozen(self, values: dict[str, Any], **_: object) -> Config:
        binds = tuple(bind.strip() for bind in values.pop("binds").split(","))
        return Config(binds=binds, **values)
