"""The objects that a job brings along: which kinds there may be, and what they are called."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import override

from di_api.field_error import mapping
from di_api.names import DNS_LABEL, GROUP, JOB_PLACEHOLDER, MAX_LABEL

COMPANION_NAME: Final = rf"\$\(JOB\)(-{DNS_LABEL})?"
"""A regular expression of their names in the spec, the length aside; the CRD has it as a pattern. A
name that is not made from the job's would be in the way of the next job of the same manifest."""
LONGEST_COMPANION_NAME: Final = len(JOB_PLACEHOLDER) + MAX_LABEL - 1
"""In the spec, where the job's own name has one character at least."""

BUILT_IN: Final[Mapping[tuple[str, str], str]] = {
    ("", "ConfigMap"): "configmaps",
    ("", "PersistentVolumeClaim"): "persistentvolumeclaims",
    ("resource.k8s.io", "ResourceClaim"): "resourceclaims",
    ("resource.k8s.io", "ResourceClaimTemplate"): "resourceclaimtemplates",
}
"""By group and kind, the names in paths of all that may be allowed of Kubernetes' own: data, and
room or devices for pods. Many others would give who may create a DIJob more rights than that: read
Secrets, run as any account, bind roles, change admission. The chart's schema says the same."""

_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_PLURAL: Final = re.compile(r"[a-z][a-z0-9]{0,62}")
_VERSION: Final = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_DEFINED: Final = re.compile(rf"{DNS_LABEL}(\.{DNS_LABEL})+")
_LONGEST_GROUP: Final = 253
_PLACEHOLDER: Final = re.compile(r"\$?\$\(JOB\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanionKind:
    """A kind of objects that jobs may bring along, namespaced."""

    api_version: str
    kind: str
    resource: str
    """Its name in paths, in the plural."""

    @override
    def __str__(self) -> str:
        """As a message names it."""
        return f"{self.kind} ({self.api_version})"


def read_kinds(found: object) -> Iterator[CompanionKind]:
    """Kinds from JSON, a list of objects with apiVersion, kind and resource.

    Raises ValueError for anything else, and for a kind that may never be allowed.
    """
    if not isinstance(found, list):
        raise ValueError("no list")
    for each in found:
        api_version, kind, resource = (
            mapping(each).get(field) for field in ("apiVersion", "kind", "resource")
        )
        if not (
            isinstance(api_version, str)
            and isinstance(kind, str)
            and isinstance(resource, str)
            and _KIND.fullmatch(kind)
            and _PLURAL.fullmatch(resource)
        ):
            raise ValueError(
                "a kind has an apiVersion, a kind and a resource (its plural in paths)"
            )
        if not may_be_allowed(api_version, kind):
            raise ValueError(f"{kind} ({api_version}) is no kind that jobs may ever bring along")
        group = api_version.rpartition("/")[0]
        if resource != BUILT_IN.get((group, kind), resource):
            raise ValueError(f"{kind} ({api_version}) is not served as {resource}")
        yield CompanionKind(api_version=api_version, kind=kind, resource=resource)


def may_be_allowed(api_version: str, kind: str) -> bool:
    """Whether a cluster may let its jobs bring along objects of the kind.

    Of Kubernetes' own groups, which have no dot or end in `.k8s.io`, those of BUILT_IN; of others,
    whose kinds custom resource definitions make, all but ours: a job would make jobs.
    """
    group, _, version = api_version.rpartition("/")
    if len(group) > _LONGEST_GROUP or not _VERSION.fullmatch(version):
        return False
    if (group, kind) in BUILT_IN:
        return True
    is_kubernetes = not _DEFINED.fullmatch(group) or group.endswith(".k8s.io")
    return not is_kubernetes and group != GROUP


def with_job_name(value: Any, job: str) -> Any:
    """A part of a companion with the job's name in all its texts; keys stay.

    As in Kubernetes' own `$(VARIABLE)` a second `$` before it keeps the placeholder, without that.
    """
    match value:
        case str():
            return _PLACEHOLDER.sub(lambda found: _in_place(found[0], job), value)
        case Mapping():
            return {key: with_job_name(each, job) for key, each in value.items()}
        case list():
            return [with_job_name(each, job) for each in value]
        case _:
            return value


def _in_place(found: str, job: str) -> str:
    return job if found == JOB_PLACEHOLDER else JOB_PLACEHOLDER
