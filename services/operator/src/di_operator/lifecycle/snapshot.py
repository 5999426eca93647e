"""One job and everything that belongs to it, read once and sorted into buckets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One job and its objects at one moment."""

    job: Mapping[str, Any]

    @classmethod
    def build(
        cls,
        job: Mapping[str, Any],
        pods: Iterable[Mapping[str, Any]] = (),
        services: Iterable[Mapping[str, Any]] = (),
        configmaps: Iterable[Mapping[str, Any]] = (),
    ) -> Snapshot:
        """Sort the objects of the job's namespace that carry the label ``diengine/job=<name>``.

        Objects of others may be among them: ownership is judged by the controller reference, so
        the caller may pass too many, never too few.
        """
        raise NotImplementedError
