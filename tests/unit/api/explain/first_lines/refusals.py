"""Pods that the API server refuses: its message, whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from di_api.explain import Facts
from tests.unit.api.explain.cluster import POD, seen
from tests.unit.api.explain.first_lines.case import Case

_FORBIDDEN: Final = f'pods "{POD}" is forbidden: '
_LIMITS: Final = (
    "[maximum cpu usage per Container is 500m, but limit is 2, maximum memory usage per Container "
    "is 1Gi, but limit is 4Gi]"
)
_SECURITY: Final = (
    'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container '
    '"di-container" must set securityContext.allowPrivilegeEscalation=false), unrestricted '
    'capabilities (container "di-container" must set securityContext.capabilities.drop=["ALL"]), '
    'runAsNonRoot != true (pod or container "di-container" must set '
    "securityContext.runAsNonRoot=true), seccompProfile (pod or container "
    '"di-container" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
    '"Localhost")'
)
_QUOTA: Final = (
    "exceeded quota: team, requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=4, "
    "limited: requests.nvidia.com/gpu=8"
)
_UNLIMITED: Final = (
    "failed quota: team: must specify limits.cpu for: di-container; limits.memory for: di-container"
)
_GATEKEEPER: Final = (
    'admission webhook "validation.gatekeeper.sh" denied the request: [psp-privileged-container] '
    "Privileged container is not allowed: di-container, securityContext: {}"
)


_RATIO: Final = "cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000"


def _limit_range(name: str, kind: str, **bounds: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"limits": [{"type": kind, **bounds}]}}


def forbidden(message: str, reason: str = "CreateForbidden") -> Facts:
    """A job whose pods are refused, as the operator reports it."""
    return seen("Pending", reason, message)


CASES: Final[Mapping[str, Case]] = {
    "limit-range": Case(
        facts=forbidden(f"{_FORBIDDEN}{_LIMITS}"), says=("LimitRange", "namespace rl", _LIMITS)
    ),
    "limit-range-by-name": Case(
        facts=replace(
            forbidden(f"{_FORBIDDEN}{_LIMITS}"),
            limit_ranges=[
                _limit_range("of-pods", "Pod", max={"cpu": "500m"}),
                _limit_range("wide", "Container", max={"cpu": "64", "memory": "256Gi"}),
                _limit_range("small", "Container", max={"cpu": "0.5", "memory": "1024Mi"}),
            ],
        ),
        says=("LimitRange small of namespace rl", _LIMITS),
    ),
    "limit-range-of-a-ratio": Case(
        facts=replace(
            forbidden(f"{_FORBIDDEN}{_RATIO}"),
            limit_ranges=[
                _limit_range("steady", "Container", maxLimitRequestRatio={"cpu": "2"}),
                _limit_range("other", "Container", maxLimitRequestRatio={"cpu": "4"}),
            ],
        ),
        says=("LimitRange steady of namespace rl", _RATIO),
    ),
    "limit-range-minimum": Case(
        facts=forbidden(f"{_FORBIDDEN}minimum cpu usage per Container is 100m, but request is 10m"),
        says=("LimitRange", "minimum cpu usage per Container is 100m, but request is 10m"),
        thread="https://github.com/zalando-incubator/kubernetes-on-aws/issues/278",
    ),
    "pod-security": Case(
        facts=forbidden(f"{_FORBIDDEN}{_SECURITY}"), says=("Pod Security", _SECURITY)
    ),
    "quota": Case(
        facts=forbidden(f"{_FORBIDDEN}{_QUOTA}", "QuotaExceeded"), says=("quota", _QUOTA)
    ),
    "quota-without-limits": Case(
        facts=forbidden(f"{_FORBIDDEN}{_UNLIMITED}"),
        says=("quota", _UNLIMITED),
    ),
    "policy-of-a-webhook": Case(
        facts=forbidden(_GATEKEEPER),
        says=(_GATEKEEPER,),
    ),
    "webhook-away": Case(
        facts=forbidden(
            'Internal error occurred: failed calling webhook "pods.kyverno.svc": failed to call '
            'webhook: Post "https://kyverno-svc.kyverno.svc:443/mutate": no endpoints available '
            'for service "kyverno-svc"'
        ),
        says=("pods.kyverno.svc", 'no endpoints available for service "kyverno-svc"'),
        thread="https://github.com/kyverno/kyverno/issues/11122",
    ),
    "service-account": Case(
        facts=forbidden(
            f"{_FORBIDDEN}error looking up service account rl/trainer: serviceaccount "
            '"trainer" not found'
        ),
        says=('serviceaccount "trainer" not found',),
    ),
}
