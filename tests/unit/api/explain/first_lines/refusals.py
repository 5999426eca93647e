"""Pods that the API server refuses: its message, whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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


def forbidden(message: str, reason: str = "CreateForbidden") -> Facts:
    """A job whose pods are refused, as the operator reports it."""
    return seen("Pending", reason, message)


CASES: Final[Mapping[str, Case]] = {
    "limit-range": Case(
        facts=forbidden(f"{_FORBIDDEN}{_LIMITS}"), says=("LimitRange", "namespace rl", _LIMITS)
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
