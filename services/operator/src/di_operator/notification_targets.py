"""Targets of notifications, which only the administrator configures."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from di_api.field_error import mapping
from di_api.names import ANNOTATION_NOTIFY

MOST_TARGETS: Final = 16
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Format(StrEnum):
    """Body format of a target."""

    JSON = "JSON"
    SLACK = "Slack"


class Happening(StrEnum):
    """Happening of a job that causes a notification."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    HUNG = "Hung"
    IDLE = "Idle"
    WAITING = "Waiting"
    """The job has been Pending for longer than forecast, or than is usual in this cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target that jobs can name.

    Attributes:
        url_file: file with the URL, read for each notification: it is a secret, and can change.
        default: whether it is notified of jobs that name no target.
    """

    name: str
    format: Format
    url_file: Path
    on: frozenset[Happening]
    default: bool


def named_targets(job: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the names in a job's annotation, even if there are no such targets; None without the
    annotation.
    """
    notes = mapping(mapping(job.get("metadata")).get("annotations"))
    named = notes.get(ANNOTATION_NOTIFY)
    if not isinstance(named, str):
        return None
    return frozenset(filter(None, (name.strip() for name in named.split(","))))


def read_targets(text: str) -> tuple[Target, ...]:
    """Parse a JSON list. Raises ValueError with the fault."""
    found = json.loads(text)
    if not isinstance(found, list) or len(found) > MOST_TARGETS:
        raise ValueError(f"must be a list of at most {MOST_TARGETS} targets")
    targets = tuple(_read_target(each) for each in found)
    if len({each.name for each in targets}) < len(targets):
        raise ValueError("two targets have the same name")
    return targets


def _read_target(raw: object) -> Target:
    fields: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
    name, path = str(fields.get("name")), str(fields.get("urlFile") or "")
    if not _NAME.fullmatch(name) or not path.startswith("/"):
        raise ValueError("a target has a name (letters, digits, -) and an urlFile")
    return Target(
        name=name,
        format=Format(fields.get("format", Format.JSON)),
        url_file=Path(path),
        on=frozenset(map(Happening, fields.get("on", list(Happening)))),
        default=fields.get("default") is True,
    )
