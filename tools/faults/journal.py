"""What went through a proxy."""

from __future__ import annotations

from dataclasses import dataclass, field

from tools.faults.plan import Fault, Notice, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A request with the API server's answer; code 0 means that it never got there."""

    request: Request
    code: int
    at: float


@dataclass(slots=True, kw_only=True)
class Journal:
    """What went through: requests and events in order, and the faults that were met."""

    requests: list[Done] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    met: list[Fault] = field(default_factory=list)
