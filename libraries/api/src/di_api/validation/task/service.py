"""Rules about the ports of a task's Service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.field_error import FieldError, items, mapping
from di_api.spec.task_service import Protocol
from di_api.validation.repeated import names_of, repeated_names


def wrong_service(path: str, task: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors for ports of the same name, or of the same number and protocol."""
    where = f"{path}.service.ports"
    ports = items(mapping(task.get("service")).get("ports"))
    yield from repeated_names(names_of(ports), where, "another port of the Service")
    first: dict[tuple[int, str], int] = {}
    for index, port in enumerate(map(mapping, ports)):
        number, given = port.get("port"), port.get("protocol")
        protocol = Protocol.TCP.value if given is None else given
        if not isinstance(number, int) or not isinstance(protocol, str):
            continue
        taken = first.setdefault((number, protocol), index)
        if taken != index:
            message = f"{where}[{taken}] has that number and protocol already"
            yield FieldError(f"{where}[{index}].port", number, message)
