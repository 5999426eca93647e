"""Parsing of the bodies and queries of coordinators, in the forms that clients send."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from di_api.coordinated import coordinator_name, job_of
from di_api.dns_names import is_dns_label
from di_api.names import (
    GPU_RESOURCE,
)
from di_api.quantity import QuantityRangeError, format_quantity, parse_quantity
from di_api.spec import MAX_REPLICAS
from di_server.model.references import JobRef
from di_server.problems import Malformed, NoSuchJob, OutOfBounds

MAX_GPUS: Final = 1024
"""Maximum GPUs of one learner; each has its own port and address."""
NAMESPACE: Final = "namespace"
PODS: Final = ("coordinator", "aggregator", "name")
"""Query keys for the requesting pod; its name shows its role, whichever key is used."""
_RESOURCES: Final = {"cpus": "cpu", "memory": "memory", "gpus": GPU_RESOURCE}


@dataclass(frozen=True, slots=True)
class Requester:
    """The coordinator or aggregator of a request."""

    ref: JobRef
    """Job of the requester."""
    pod: str

    @property
    def coordinator(self) -> str:
        """Return the name of the coordinator, also if an aggregator sends the request."""
        return coordinator_name(self.ref.name)


@dataclass(frozen=True, slots=True)
class RoleDemand:
    """A number of replicas of one role, each with these resources."""

    replicas: int = 0
    resources: Mapping[str, str | int] = field(default_factory=dict)
    """Amounts by resource name; zeros are left out."""

    @property
    def gpus(self) -> int:
        """Return the GPUs of each replica."""
        return int(self.resources.get(GPU_RESOURCE, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The replicas to add or remove."""

    collectors: RoleDemand
    learners: RoleDemand


def requester(namespace: object, pod: object) -> Requester:
    """Return the requester with these names.

    Raises:
        Malformed: a name is missing or invalid.
        NoSuchJob: no coordinator or aggregator has such a name.
    """
    if not is_dns_label(namespace):
        raise Malformed("namespace must be given, a DNS label")
    if not is_dns_label(pod):
        raise Malformed("coordinator must be given, the name of a pod")
    job = job_of(str(pod))
    if job is None:
        raise NoSuchJob(
            f"no such coordinator: {namespace}/{pod}; no coordinator or aggregator is named so, "
            f"and a job with tasks is asked for at /v2alpha1/job/{namespace}.<its name>/replicas"
        )
    return Requester(JobRef(str(namespace), job), str(pod))


def query(pairs: Iterable[tuple[str, str]]) -> Requester | str | None:
    """Return the subject of a query: one pod, all jobs of a namespace, or (None) all jobs.

    Keys are case-insensitive; an empty value counts as missing.

    Raises:
        Malformed: an unknown key, a repeated key, two pods, or an invalid name.
        NoSuchJob: no coordinator or aggregator has such a name.
    """
    given: dict[str, str] = {}
    for key, value in pairs:
        name = key.lower()
        if name != NAMESPACE and name not in PODS:
            raise Malformed(f"request param {key} is not supported")
        if name in given:
            raise Malformed(f"request param {name} is given twice")
        given[name] = value
    pods = [given[key] for key in PODS if given.get(key)]
    if len(pods) > 1:
        raise Malformed(f"give one of {', '.join(PODS)}")
    namespace = given.get(NAMESPACE)
    if pods:
        return requester(namespace, pods[0])
    if namespace and not is_dns_label(namespace):
        raise Malformed("namespace must be a DNS label")
    return namespace or None


def demand(body: Mapping[str, Any]) -> Demand:
    """Return the demand in a body; unknown keys are ignored, missing numbers are zero.

    Raises:
        Malformed: a value of the wrong type, or an invalid quantity.
        OutOfBounds: a number out of the range for replicas or resources.
    """
    return Demand(
        collectors=_role_demand(body, "collectors"), learners=_role_demand(body, "learners")
    )


def failed(body: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the pods that a body reports as failed, of either role.

    Raises:
        Malformed: the values are not lists of names.
    """
    found: list[str] = []
    for key in ("collectors", "learners"):
        names = body.get(key) or []
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            raise Malformed(f"{key} must be a list of names of pods")
        found += names
    return frozenset(found)


def _role_demand(body: Mapping[str, Any], kind: str) -> RoleDemand:
    raw = body.get(kind)
    if raw is None:
        return RoleDemand()
    if not isinstance(raw, Mapping):
        raise Malformed(f"{kind} must be an object")
    count = raw.get("replicas")
    if count is None:
        count = 0
    if isinstance(count, bool) or not isinstance(count, int):
        raise Malformed(f"{kind}.replicas must be a whole number")
    if not 0 <= count <= MAX_REPLICAS:
        raise OutOfBounds(f"{kind}.replicas must be between 0 and {MAX_REPLICAS}")
    amounts = {name: _amount(raw.get(key), f"{kind}.{key}") for key, name in _RESOURCES.items()}
    gpus = amounts.pop(GPU_RESOURCE)
    if gpus != int(gpus) or gpus > MAX_GPUS:
        raise OutOfBounds(f"{kind}.gpus must be a whole number, at most {MAX_GPUS}")
    resources: dict[str, str | int] = {
        name: format_quantity(amount) for name, amount in amounts.items() if amount
    }
    return RoleDemand(count, resources | ({GPU_RESOURCE: int(gpus)} if gpus else {}))


def _amount(raw: object, path: str) -> Decimal:
    # Go programs write an empty string for an absent value.
    text = raw.strip() if isinstance(raw, str) else raw
    if text is None or text == "":
        return Decimal(0)
    try:
        amount = parse_quantity(text)  # type: ignore[arg-type]  # any type: others are refused
    except QuantityRangeError as error:
        raise OutOfBounds(f"{path} is too large") from error
    except ValueError as error:
        raise Malformed(f"{path} must be a quantity, such as 2, 500m or 1Gi") from error
    if amount < 0:
        raise OutOfBounds(f"{path} must not be negative")
    return amount
