"""What the operator does in a clean run, as recorded: the moments at which plans strike."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.faults.moments import DRY_RUN
from tools.faults.plan import Notice, Request
from tools.faults.run import Run

FILE = Path(__file__).with_name("traces.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Requests and watch events that come in every clean run of a workload, in order."""

    requests: tuple[Request, ...]
    notices: tuple[Notice, ...]

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Trace:
        """Learn from clean runs; what happens in some of them only is left out."""
        first, *others = runs
        return cls(
            requests=tuple(
                request
                for request in first.requests
                if _repeats(request) and all(request in other.requests for other in others)
            ),
            notices=tuple(
                notice
                for notice in first.notices
                if all(notice in other.notices for other in others)
            ),
        )

    @property
    def writes(self) -> tuple[Request, ...]:
        return tuple(request for request in self.requests if request.is_write)


def load(workloads: Collection[str], file: Path = FILE) -> dict[str, Trace]:
    """Read recorded traces of workloads, by their names."""
    return {
        workload: Trace(
            requests=tuple(Request(**fields) for fields in found["requests"]),
            notices=tuple(Notice(**fields) for fields in found["notices"]),
        )
        for workload, found in json.loads(file.read_text()).items()
        if workload in workloads
    }


def save(traces: Mapping[str, Trace], file: Path = FILE) -> None:
    """Write traces, one moment a line, so that a change of the operator reads as a change."""
    parts = []
    for workload, trace in traces.items():
        lists = []
        for name, moments in (("requests", trace.requests), ("notices", trace.notices)):
            lines = ",\n".join(f"      {json.dumps(asdict(moment))}" for moment in moments)
            lists.append(f'    "{name}": [\n{lines}\n    ]')
        parts.append(_part(workload, lists))
    file.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def _part(workload: str, lists: Sequence[str]) -> str:
    inner = ",\n".join(lists)
    return f'  "{workload}": {{\n{inner}\n  }}'


def _repeats(request: Request) -> bool:
    """Leave out what time brings: renewals of the lease, events whose count grows, and dry runs of
    pods of a job that its queue keeps waiting for more than a second."""
    if request.verb == DRY_RUN:
        return False
    if request.what == "leases":
        return request.verb in ("get", "create")
    return not (request.what == "events" and request.verb == "patch")
