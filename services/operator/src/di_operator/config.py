"""The operator's configuration: environment variables, each also available as a flag."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from marshmallow import ValidationError, fields, validate
from typing_extensions import override

from di_api.companions import CompanionKind
from di_api.names import (
    AGGREGATOR_CONFIG,
    DEFAULT_SERVICE_DOMAIN,
    OPERATOR_NAME,
    coordinated_server_url,
    server_url,
)
from di_operator.builders.pinning import Binding
from di_operator.notification_targets import Target, read_targets
from di_service.settings import (
    COMPANION_KINDS,
    KUBECONFIG,
    LOG_LEVEL,
    Address,
    AddressField,
    ObjectField,
    ReferenceField,
    Setting,
    SettingsError,
    name_field,
    read_settings,
)
from di_service.tracing import TRACE_RATIO, TRACES


class TargetsField(fields.Field[tuple[Target, ...]]):
    """A JSON list of objects with name, format, urlFile, on and default."""

    @override
    def _deserialize(self, value: Any, *_: Any, **__: Any) -> tuple[Target, ...]:
        try:
            return read_targets(str(value))
        except (RecursionError, TypeError, ValueError) as error:
            raise ValidationError(f"must be a JSON list of targets: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The operator's settings; `watch_namespace` None means all namespaces.

    `sync_period` is in seconds.
    """

    namespace: str
    watch_namespace: str | None
    service_domain: str
    server_url: str
    coordinated_server_url: str
    aggregator_config: tuple[str, str]
    """Namespace and name of the AggregatorConfig that coordinated jobs use."""
    aggregator_template: Mapping[str, Any]
    """PodTemplate for that AggregatorConfig; empty: it is not created."""
    health_bind: Address
    lease_name: str
    identity: str
    leader_elect: bool
    sync_period: float
    workers: int
    authority_secret: str | None
    """Secret of the authority that issues the certificates in the next four."""
    webhook_secret: str | None
    """Secret of the webhook's certificate; None: another tool issues it."""
    server_secret: str | None
    """Secret of di-server's certificate; None: another tool issues it."""
    history_secret: str | None
    """Secret of di-history's certificate; None: another tool issues it."""
    dashboard_secret: str | None
    """Secret of di-dashboard's certificate; None: another tool issues it."""
    job_secrets: str | None
    """Name of the Secret with the key from which job secrets are derived; None: jobs have no
    secret.
    """
    server_ca_secret: str | None
    """Secret whose ca.crt is passed to pods for di-server; None: none is passed."""
    server_deployment: str | None
    """Deployment of di-server in the operator's namespace; None: it runs elsewhere."""
    webhook_service: str
    webhook_configuration: str | None
    webhook_admission: str | None
    """ConfigMap that the webhook's pods wait for, written once the webhook configurations hold the
    authority; None: they do not wait.
    """
    token_audience: str | None
    policy: str | None
    """Name of the allocation policy; None: preemptible jobs run like all others."""
    policy_arguments: Mapping[str, Any]
    node_kind_label: str | None
    """Node label whose value is the node type; None: all nodes have one type."""
    scheduling_period: float
    """Seconds between two reallocations of all preemptible jobs."""
    binding: Binding
    """The component that binds the pods of jobs that the allocator places."""
    companion_kinds: tuple[CompanionKind, ...]
    """Object kinds that jobs are allowed to bring along."""
    suspect_taint_percent: int
    """Largest share of the nodes that get a taint while they are suspect; 0: none gets it."""
    job_tasks: bool
    """Whether scalable tasks get a DIJobTask."""
    sweeps: bool
    """Whether DISweeps run."""
    suspend_idle_jobs: bool
    """Whether jobs are suspended by their idlePolicy."""
    scale_down_idle_jobs: bool
    """Whether jobs are scaled down by their idlePolicy."""
    kueue: bool
    """Whether jobs can have a queue of Kueue."""
    high_priority_class: str | None
    """PriorityClass of the pods of jobs with high priority."""
    notification_targets: tuple[Target, ...]
    """Targets that jobs can name for notifications."""
    notification_waiting: float
    """Seconds after which a Pending job causes a notification; 0: never."""
    traces: str | None
    """Base URL of an OTLP receiver; None: no traces."""
    trace_ratio: float
    job_metrics: int
    """Number of jobs with metrics of their own; 0: none."""
    kubeconfig: str | None
    log_level: str


# A label's name, with an optional prefix, by the rules of Kubernetes.
_LABEL: Final = r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?\Z"
_SETTINGS: Final = (
    Setting(
        "namespace",
        name_field(required=True),
        "namespace of the operator, with its Lease, Secrets and Services",
    ),
    Setting(
        "watch_namespace",
        name_field(load_default=None),
        "the only namespace whose jobs the operator runs; empty: all",
    ),
    Setting(
        "service_domain",
        name_field(load_default=DEFAULT_SERVICE_DOMAIN),
        "the cluster's service domain",
    ),
    Setting(
        "server_url",
        fields.String(
            load_default=None,
            validate=validate.URL(schemes={"http", "https"}, require_tld=False),
        ),
        "DI_SERVER_URL of the pods; empty: di-server in the operator's namespace",
    ),
    Setting(
        "coordinated_server_url",
        fields.String(
            load_default=None,
            validate=validate.URL(schemes={"http", "https"}, require_tld=False),
        ),
        "KUBERNETES_SERVER_URL of the pods of coordinated jobs; empty: as above",
    ),
    Setting(
        "aggregator_config",
        ReferenceField(load_default=None),
        "AggregatorConfig of coordinated jobs, NAMESPACE/NAME; empty: aggregator-config in the "
        "operator's namespace",
    ),
    Setting(
        "aggregator_template",
        ObjectField(load_default=dict),
        "pod template of the AggregatorConfig that the operator creates, a JSON object; empty: "
        "none is created",
    ),
    Setting(
        "health_bind",
        AddressField(load_default=Address(host="::", port=8080)),
        "address of /healthz, /readyz and /metrics",
    ),
    Setting(
        "lease_name",
        name_field(load_default=OPERATOR_NAME),
        "name of the Lease of the leader election",
    ),
    Setting(
        "identity",
        fields.String(load_default=None),
        "holderIdentity of this replica in the Lease, unique among replicas; empty: random",
    ),
    Setting(
        "leader_elect",
        fields.Boolean(load_default=True),
        "whether replicas elect a leader; false only if there is never a second replica",
    ),
    Setting(
        "sync_period",
        fields.Float(load_default=60.0, validate=validate.Range(min=1, max=86400)),
        "seconds between two full re-lists",
    ),
    Setting(
        "workers",
        fields.Integer(load_default=32, validate=validate.Range(min=1, max=256)),
        "jobs reconciled at the same time",
    ),
    Setting(
        "authority_secret",
        name_field(load_default=None),
        "Secret of the authority that issues the certificates below; empty: the name of the first "
        "of them with the suffix -ca",
    ),
    Setting(
        "webhook_secret",
        name_field(load_default=None),
        "Secret of the webhook's certificate; empty: the operator does not issue it",
    ),
    Setting(
        "server_secret",
        name_field(load_default=None),
        "Secret of di-server's certificate; empty: the operator does not issue it",
    ),
    Setting(
        "history_secret",
        name_field(load_default=None),
        "Secret of di-history's certificate; empty: the operator does not issue it",
    ),
    Setting(
        "dashboard_secret",
        name_field(load_default=None),
        "Secret of di-dashboard's certificate; empty: the operator does not issue it",
    ),
    Setting(
        "job_secrets",
        name_field(load_default=None),
        "Secret with the key from which job secrets are derived, created if it does not exist; "
        "empty: jobs have no secret",
    ),
    Setting(
        "server_ca_secret",
        name_field(load_default=None),
        "Secret whose ca.crt verifies di-server in pods, if server_url is HTTPS; empty: none",
    ),
    Setting(
        "server_deployment",
        name_field(load_default=None),
        "Deployment of di-server in the operator's namespace; no job counts as hanging while it "
        "has no ready pod; empty: unknown",
    ),
    Setting(
        "webhook_service",
        name_field(load_default="di-webhook"),
        "Service of the webhook, whose name is in its certificate",
    ),
    Setting(
        "webhook_configuration",
        name_field(load_default=None),
        "name of the mutating and of the validating webhook configuration",
    ),
    Setting(
        "webhook_admission",
        name_field(load_default=None),
        "ConfigMap that the webhook's pods wait for; its ca.crt is written after the webhook "
        "configurations have it; empty: none",
    ),
    Setting(
        "token_audience",
        fields.String(load_default=None),
        "audience of the token projected into every pod; empty: no token",
    ),
    Setting(
        "policy",
        fields.String(load_default=None),
        "allocation policy of preemptible jobs; empty: they run like other jobs",
    ),
    Setting(
        "policy_arguments", ObjectField(load_default=dict), "the policy's arguments, a JSON object"
    ),
    Setting(
        "node_kind_label",
        fields.String(load_default=None, validate=validate.Regexp(_LABEL)),
        "node label with the type of the node's GPUs; empty: all nodes have one type",
    ),
    Setting(
        "scheduling_period",
        fields.Float(
            load_default=60.0,
            validate=validate.Range(min=1, max=86400),
        ),
        "seconds between two reallocations of all preemptible jobs",
    ),
    Setting(
        "binding",
        fields.Enum(Binding, by_value=True, load_default=Binding.SCHEDULER),
        "component that binds the pods that the allocator places: Scheduler, or Direct (the "
        "operator, without a scheduler)",
    ),
    Setting(
        "kueue",
        fields.Boolean(load_default=True),
        "whether jobs with a queue of Kueue run; false: they wait",
    ),
    Setting(
        "high_priority_class",
        fields.String(load_default=None, validate=validate.Length(max=253)),
        "PriorityClass of the pods of jobs with high priority; empty: none",
    ),
    TRACES,
    TRACE_RATIO,
    Setting(
        "job_tasks",
        fields.Boolean(load_default=False),
        "true: scalable tasks get a DIJobTask, for kubectl scale and autoscalers; needs its "
        "definition",
    ),
    Setting(
        "sweeps",
        fields.Boolean(load_default=False),
        "true: DISweeps run, as jobs that they control; needs their definition",
    ),
    Setting(
        "suspend_idle_jobs",
        fields.Boolean(load_default=False),
        "true: a job is suspended if its idlePolicy requests it; false: it is only reported",
    ),
    Setting(
        "scale_down_idle_jobs",
        fields.Boolean(load_default=False),
        "true: a job is scaled down if its idlePolicy requests it; false: it is only reported",
    ),
    Setting(
        "suspect_taint_percent",
        fields.Integer(load_default=0, validate=validate.Range(min=0, max=50)),
        "largest share of the nodes, in percent, that get a taint while several jobs avoid them; "
        "0: none",
    ),
    Setting(
        "notification_targets",
        TargetsField(load_default=()),
        "targets of notifications that jobs can name, a JSON list; empty: none",
    ),
    Setting(
        "notification_waiting",
        fields.Float(load_default=0.0, validate=validate.Range(min=0, max=31_536_000)),
        "seconds after which a Pending job causes a notification; 0: never",
    ),
    Setting(
        "job_metrics",
        fields.Integer(load_default=200, validate=validate.Range(min=0, max=10_000)),
        "number of jobs with metrics of their own, hanging and failing jobs first; 0: none",
    ),
    COMPANION_KINDS,
    LOG_LEVEL,
)


def load_config(
    argv: Sequence[str], environ: Mapping[str, str], *, random_identity: Callable[[], str]
) -> Config:
    """Read the configuration; a flag wins over its variable, an empty value counts as absent.

    Raises:
        SettingsError: values are missing or wrong; all of them are named.
        SystemExit: argparse's own: an unknown flag, or --help.
    """
    values = read_settings(
        _SETTINGS,
        program=OPERATOR_NAME,
        about="Runs DIJobs.",
        prefix="DI_OPERATOR_",
        argv=argv,
        environ=environ,
        unprefixed=(KUBECONFIG,),
    )
    values["identity"] = values["identity"] or random_identity()
    values["server_url"] = (
        values["server_url"]
        or server_url(
            values["namespace"], values["service_domain"], tls=bool(values["server_ca_secret"])
        )
    ).rstrip("/")
    values["coordinated_server_url"] = (
        values["coordinated_server_url"] or coordinated_server_url(values["namespace"])
    ).rstrip("/")
    values["aggregator_config"] = values["aggregator_config"] or (
        values["namespace"],
        AGGREGATOR_CONFIG,
    )
    if values["webhook_secret"] and not values["webhook_configuration"]:
        raise SettingsError(
            "DI_OPERATOR_WEBHOOK_CONFIGURATION is required with the webhook's secret"
        )
    if values["policy"] == "goodput" and values["node_kind_label"]:
        for name in ("shares", "queues"):
            if values["policy_arguments"].get(name):
                raise SettingsError(
                    "DI_OPERATOR_POLICY_ARGUMENTS: goodput shares out nodes of one kind only: "
                    f"{name} do not go with DI_OPERATOR_NODE_KIND_LABEL yet"
                )
    managed = ("webhook_secret", "server_secret", "history_secret", "dashboard_secret")
    if first := next(filter(None, (values[each] for each in managed)), None):
        values["authority_secret"] = values["authority_secret"] or f"{first}-ca"
    return Config(**values)
