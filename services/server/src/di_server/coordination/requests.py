"""What the bodies and queries of a coordinator ask for, read as its clients write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from di_api.coordinated import coordinator_name, job_of
from di_api.names import GPU_RESOURCE, is_dns_label
from di_api.quantity import QuantityRangeError, format_quantity, parse_quantity
from di_api.spec import MAX_REPLICAS
from di_server.model.references import JobRef
from di_server.problems import Malformed, NoSuchJob, OutOfBounds

MAX_GPUS: Final = 1024
"""Most GPUs of one learner; each has a port and an address of its own."""
NAMESPACE: Final = "namespace"
PODS: Final = ("coordinator", "aggregator", "name")
"""Query keys for the pod that asks; what it is its name tells, whichever key it came under."""
_RESOURCES: Final = {"cpus": "cpu", "memory": "memory", "gpus": GPU_RESOURCE}


@dataclass(frozen=True, slots=True)
class Requester:
    """The coordinator or aggregator a request speaks for."""

    ref: JobRef
    """Its job."""
    pod: str

    @property
    def coordinator(self) -> str:
        """The coordinator itself, also when an aggregator asks."""
        return coordinator_name(self.ref.name)


@dataclass(frozen=True, slots=True)
class RoleDemand:
    """So many replicas of one role, each with these resources."""

    replicas: int = 0
    resources: Mapping[str, str | int] = field(default_factory=dict)
    """By core name; what is zero is left out."""

    @property
    def gpus(self) -> int:
        """Of each replica."""
        return int(self.resources.get(GPU_RESOURCE, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What to add or to remove."""

    collectors: RoleDemand
    learners: RoleDemand


def requester(namespace: object, pod: object) -> Requester:
    """The pod of these names.

    Raises:
        Malformed: a name is missing or none.
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
    """Who a query asks about: one pod, all jobs of a namespace, or (None) all jobs.

    Keys in any case; an empty value counts as missing.

    Raises:
        Malformed: an unknown key, a key twice, two pods, or a name that is none.
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
    """What a body adds or removes; unknown keys are ignored, what is missing is zero.

    Raises:
        Malformed: a value of the wrong type, or no quantity.
        OutOfBounds: a number that is well-formed and no number of replicas or of resources.
    """
    return Demand(
        collectors=_role_demand(body, "collectors"), learners=_role_demand(body, "learners")
    )


def failed(body: Mapping[str, Any]) -> frozenset[str]:
    """Names of the pods a body reports as failed, of either kind.

    Raises:
        Malformed: not lists of names.
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
    # Go programs write an empty string for what is missing.
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
