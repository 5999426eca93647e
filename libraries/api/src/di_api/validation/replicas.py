"""Rules about `spec.coordinated.replicas`, which the server writes and users can edit."""

from __future__ import annotations

from collections.abc import Iterator

from di_api.field_error import ABSENT, FieldError, items, mapping
from di_api.spec.coordinated import Role
from di_api.validation.repeated import names_of, repeated_names


def replica_errors(replicas: object) -> Iterator[FieldError]:
    """Yield the errors for repeated names and missing aggregators in a raw list of replicas."""
    path = "spec.coordinated.replicas"
    yield from repeated_names(names_of(replicas), path, "another replica")
    entries = [(f"{path}[{index}]", mapping(raw)) for index, raw in enumerate(items(replicas))]
    aggregators = [raw.get("name") for _, raw in entries if raw.get("role") == Role.AGGREGATOR]
    known = {name for name in aggregators if isinstance(name, str)}
    for where, raw in entries:
        aggregator, is_ddp = raw.get("aggregator"), raw.get("role") == Role.DDP_LEARNER
        if is_ddp and not (isinstance(aggregator, str) and aggregator in known):
            yield FieldError(
                f"{where}.aggregator",
                ABSENT if aggregator is None else aggregator,
                "must be the name of an aggregator among the replicas",
            )
        elif not is_ddp and aggregator is not None:
            yield FieldError(f"{where}.aggregator", aggregator, "only a ddp-learner has one")
