"""Companions, the objects that a job brings along: allowed kinds, and names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import override

from di_api.dns_names import DNS_LABEL, MAX_LABEL
from di_api.field_error import mapping
from di_api.names import (
    GROUP,
    JOB_PLACEHOLDER,
)

COMPANION_NAME: Final = rf"\$\(JOB\)(-{DNS_LABEL})?"
"""Pattern of their names in the spec, without the length limit; the CRD has it too. A name that is
not derived from the job's would collide with the next job of the same manifest.
"""
LONGEST_COMPANION_NAME: Final = len(JOB_PLACEHOLDER) + MAX_LABEL - 1
"""Maximum length of a name in the spec; the job's own name has one character at least."""

BUILT_IN: Final[Mapping[tuple[str, str], str]] = {
    ("", "ConfigMap"): "configmaps",
    ("", "PersistentVolumeClaim"): "persistentvolumeclaims",
    ("resource.k8s.io", "ResourceClaim"): "resourceclaims",
    ("resource.k8s.io", "ResourceClaimTemplate"): "resourceclaimtemplates",
}
"""The built-in Kubernetes kinds that an administrator can allow, by group and kind, with their
names in paths: data, and storage or devices for pods. Many other kinds would extend the permissions
of users who can create a DIJob: to read Secrets, run as any account, bind roles, change admission.
The chart's schema has the same list.
"""

_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_PLURAL: Final = re.compile(r"[a-z][a-z0-9]{0,62}")
_VERSION: Final = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_DEFINED: Final = re.compile(rf"{DNS_LABEL}(\.{DNS_LABEL})+")
_LONGEST_GROUP: Final = 253
_PLACEHOLDER: Final = re.compile(r"\$?\$\(JOB\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanionKind:
    """An object kind, namespaced, that jobs can bring along."""

    api_version: str
    kind: str
    resource: str
    """Plural name in paths."""

    @override
    def __str__(self) -> str:
        """Return the kind as messages name it."""
        return f"{self.kind} ({self.api_version})"


def read_kinds(found: object) -> Iterator[CompanionKind]:
    """Yield the kinds of a JSON list of objects with apiVersion, kind and resource.

    Raises ValueError for any other value, and for a kind that can never be allowed.
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
    """Return whether an administrator can allow jobs to bring along objects of the kind.

    From Kubernetes' own groups, which have no dot or end in `.k8s.io`, only BUILT_IN. From other
    groups (custom resources) all except this project's, because a job could create jobs.
    """
    group, _, version = api_version.rpartition("/")
    if len(group) > _LONGEST_GROUP or not _VERSION.fullmatch(version):
        return False
    if (group, kind) in BUILT_IN:
        return True
    is_kubernetes = not _DEFINED.fullmatch(group) or group.endswith(".k8s.io")
    return not is_kubernetes and group != GROUP


def with_job_name(value: Any, job: str) -> Any:
    """Return a part of a companion with the job's name inserted into all its strings; keys are
    unchanged.

    As in Kubernetes' own `$(VARIABLE)`, a second `$` before the placeholder escapes it.
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
