"""Resource amounts as integers in thousandths of the base unit, so that sums are exact.

One CPU is 1000, one GPU is 1000, one byte is 1000. `pods` is a resource like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any, Final, TypeAlias

from di_api.quantity import LONGEST, read_quantity

Object: TypeAlias = Mapping[str, Any]
Resources: TypeAlias = Mapping[str, int]

UNIT: Final = 1000
PODS: Final = "pods"


def read_resources(quantities: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the amounts of a manifest's `requests`, `limits` or `allocatable`.

    Fractions of a thousandth are rounded up, as the API server does; an amount out of range becomes
    the nearest one in range. Raises ValueError for an invalid quantity.
    """
    return {name: _read(value) for name, value in (quantities or {}).items() if value is not None}


def _read(value: Any) -> int:
    # Most amounts of a cluster are the same few texts.
    if isinstance(value, str) and len(value) <= LONGEST:
        return _remembered(value)
    return _amount(value)


@lru_cache(maxsize=4096)
def _remembered(value: str) -> int:
    return _amount(value)


def _amount(value: Any) -> int:
    return int((read_quantity(value) * UNIT).to_integral_value(ROUND_CEILING))


def total(amounts: Iterable[Resources]) -> dict[str, int]:
    """Return the sum by resource."""
    result: dict[str, int] = {}
    for amount in amounts:
        for name, value in amount.items():
            result[name] = result.get(name, 0) + value
    return result


def largest(amounts: Iterable[Resources]) -> dict[str, int]:
    """Return the largest amount by resource."""
    result: dict[str, int] = {}
    for amount in amounts:
        for name, value in amount.items():
            result[name] = max(result.get(name, 0), value)
    return result


def in_units(value: int) -> str:
    """Return the amount in base units as a person writes it: 1500 is 1.5."""
    return f"{(Decimal(value) / UNIT).normalize():f}"


def pod_request(spec: Object) -> dict[str, int]:
    """Return what a pod uses of its node, by the scheduler's rule.

    This is the sum of the containers and the sidecars. If an init container, together with the
    sidecars that started before it, needs more, that counts. The runtime's overhead and one pod are
    added. Requests of the pod itself replace those of its containers.
    """
    result = total([_request(container) for container in spec.get("containers") or ()])
    if before := spec.get("initContainers"):
        result = _with_init_containers(result, before)
    result |= _request(spec)
    if overhead := spec.get("overhead"):
        result = total((result, read_resources(overhead)))
    result[PODS] = UNIT
    return result


def _with_init_containers(running: Resources, before: Iterable[Object]) -> dict[str, int]:
    sidecars: dict[str, int] = {}
    peaks: list[Resources] = []
    for container in before:
        request = _request(container)
        if container.get("restartPolicy") == "Always":
            sidecars = total((sidecars, request))
            peaks.append(sidecars)
        else:
            peaks.append(total((sidecars, request)))
    return largest((total((running, sidecars)), *peaks))


def _request(container: Object) -> dict[str, int]:
    resources = container.get("resources")
    if not resources:
        return {}
    # A resource with only a limit requests the limit. The API server writes it so into pods, but
    # not into the pod template of a job.
    limits, requests = resources.get("limits"), resources.get("requests")
    return read_resources({**limits, **(requests or {})} if limits else requests)
