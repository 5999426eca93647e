"""The resources that the services use, and their URL paths."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from di_api import names

_NAMESPACES_PLURAL = "namespaces"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A served resource; `group` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return the apiVersion as in objects and owner references."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self,
        namespace: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
    ) -> str:
        """Return the URL path, percent-encoded; without `namespace` that of all namespaces.

        Raises:
            ValueError: a part is empty, "." or ".." (it would name another object or the whole
                collection), a namespaced object has no namespace, or a cluster-scoped one has one.
        """
        if namespace is not None and not self.namespaced:
            raise ValueError(f"{self.kind} is cluster-scoped, it has no namespace {namespace!r}")
        if name is not None and namespace is None and self.namespaced:
            raise ValueError(f"{self.kind} {name!r} needs its namespace")
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace is not None:
            parts += [_NAMESPACES_PLURAL, _segment(namespace)]
        parts.append(self.plural)
        if name is not None:
            parts.append(_segment(name))
        if subresource is not None:
            parts.append(_segment(subresource))
        return "/" + "/".join(parts)


def _segment(text: str) -> str:
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} is not a name")
    return quote(text, safe="")


def _core(plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource(group="", version="v1", plural=plural, kind=kind, namespaced=namespaced)


def _cluster(group: str, plural: str, kind: str) -> Resource:
    return Resource(group=group, version="v1", plural=plural, kind=kind, namespaced=False)


PODS = _core("pods", "Pod")
SERVICES = _core("services", "Service")
CONFIGMAPS = _core("configmaps", "ConfigMap")
CLAIMS = _core("persistentvolumeclaims", "PersistentVolumeClaim")
EVENTS = _core("events", "Event")
SECRETS = _core("secrets", "Secret")
SERVICE_ACCOUNTS = _core("serviceaccounts", "ServiceAccount")
QUOTAS = _core("resourcequotas", "ResourceQuota")
LIMIT_RANGES = _core("limitranges", "LimitRange")
NODES = _core("nodes", "Node", namespaced=False)
NAMESPACES = _core(_NAMESPACES_PLURAL, "Namespace", namespaced=False)
PRIORITY_CLASSES = Resource(
    group="scheduling.k8s.io",
    version="v1",
    plural="priorityclasses",
    kind="PriorityClass",
    namespaced=False,
)
DEPLOYMENTS = Resource(group="apps", version="v1", plural="deployments", kind="Deployment")
LEASES = Resource(group="coordination.k8s.io", version="v1", plural="leases", kind="Lease")
DIJOBS = Resource(group=names.GROUP, version=names.VERSION, plural=names.PLURAL, kind=names.KIND)
DIJOB_TASKS = Resource(
    group=names.GROUP, version=names.VERSION, plural=names.TASK_PLURAL, kind=names.TASK_KIND
)
DISWEEPS = Resource(
    group=names.GROUP, version=names.VERSION, plural=names.SWEEP_PLURAL, kind=names.SWEEP_KIND
)
JOB_TEMPLATES = Resource(
    group=names.GROUP,
    version=names.VERSION,
    plural=names.JOB_TEMPLATE_PLURAL,
    kind=names.JOB_TEMPLATE_KIND,
)
CLUSTER_JOB_TEMPLATES = Resource(
    group=names.GROUP,
    version=names.VERSION,
    plural=names.CLUSTER_JOB_TEMPLATE_PLURAL,
    kind=names.CLUSTER_JOB_TEMPLATE_KIND,
    namespaced=False,
)
AGGREGATOR_CONFIGS = Resource(
    group=names.GROUP,
    version=names.COORDINATED_VERSIONS[0],
    plural=names.AGGREGATOR_CONFIG_PLURAL,
    kind=names.AGGREGATOR_CONFIG_KIND,
)
CRDS = _cluster("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition")
MUTATING_WEBHOOKS = _cluster(
    "admissionregistration.k8s.io",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
)
VALIDATING_WEBHOOKS = _cluster(
    "admissionregistration.k8s.io",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
)
TOKEN_REVIEWS = _cluster("authentication.k8s.io", "tokenreviews", "TokenReview")
SELF_SUBJECT_REVIEWS = _cluster("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview")
SUBJECT_ACCESS_REVIEWS = _cluster(
    "authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"
)
SELF_ACCESS_REVIEWS = _cluster(
    "authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"
)
SELF_RULES_REVIEWS = _cluster(
    "authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"
)
POD_METRICS = Resource(group="metrics.k8s.io", version="v1beta1", plural="pods", kind="PodMetrics")
GPU_METRICS = Resource(
    group="custom.metrics.k8s.io",
    version="v1beta1",
    plural="pods/*/DCGM_FI_DEV_GPU_UTIL",
    kind="MetricValue",
)
"""Use of pods' GPUs in percent: of NVIDIA's dcgm-exporter, by an adapter of custom metrics."""

_KUEUE = "kueue.x-k8s.io"


def _of_kueue(plural: str, kind: str, *, namespaced: bool = False) -> Resource:
    return Resource(
        group=_KUEUE, version="v1beta2", plural=plural, kind=kind, namespaced=namespaced
    )


WORKLOADS = _of_kueue("workloads", "Workload", namespaced=True)
RESOURCE_FLAVORS = _of_kueue("resourceflavors", "ResourceFlavor")
WORKLOAD_PRIORITY_CLASSES = _of_kueue("workloadpriorityclasses", "WorkloadPriorityClass")
