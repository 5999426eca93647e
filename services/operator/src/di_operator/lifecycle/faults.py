"""What the API server's refusals of an action mean for the job.

The executor knows errors of the wire; it hands over what they mean, so that phase, reason and
message of a refused job are decided here, beside all others:

- 422 on a create: :class:`TemplateRefused`
- 403 on a create: :class:`QuotaExceeded` when a quota says so, else :class:`CreateForbidden`
- AlreadyExists with another owner: :class:`NameTaken` with the object that was found

Everything else (conflicts, time-outs, 429, 5xx) is no fault of the job: the shell retries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from di_operator.lifecycle.decision import Decision
from di_operator.lifecycle.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateRefused:
    """The API server refused an object as invalid (422); ``message`` is its own text."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaExceeded:
    """A ResourceQuota refused an object (403); ``message`` is the API server's text."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateForbidden:
    """Admission or authorization refused an object (403), quota apart."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NameTaken:
    """An object of the wanted name exists under another owner; ``found`` is that object."""

    kind: str
    found: Mapping[str, Any]


Fault: TypeAlias = TemplateRefused | QuotaExceeded | CreateForbidden | NameTaken


def gravest(faults: Iterable[Fault]) -> Fault:
    """Return the fault that decides when a batch of creates met several. Raises ValueError if none.

    A refused template ends the job, a foreign object too, the other two make it wait.
    """
    raise NotImplementedError


def on_error(snapshot: Snapshot, fault: Fault, now: datetime) -> Decision:
    """Decide what a refused action makes of the job.

    The answer replaces the status and events of the decision whose action was refused; its own
    actions, if any, are executed in the same way.
    """
    raise NotImplementedError
