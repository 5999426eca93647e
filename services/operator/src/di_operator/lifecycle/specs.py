"""Reading a job's spec, and remembering what was read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from di_api.field_error import InvalidSpec
from di_api.model import JobSpec
from di_api.schema import load_spec
from di_api.validation import validate_job

SpecReader: TypeAlias = Callable[[Mapping[str, Any]], JobSpec]
"""From a whole job to its spec; raises InvalidSpec."""


def read_spec(job: Mapping[str, Any]) -> JobSpec:
    """Read and check the spec of a job by the rules of admission.

    The webhook may have been off when the job was created, so nothing is taken for granted.
    Raises InvalidSpec with all that is wrong.
    """
    errors = validate_job(job)
    if errors:
        raise InvalidSpec(tuple(errors))
    return load_spec(job["spec"])


class SpecCache:
    """A SpecReader that remembers the specs read last, by UID and generation.

    The generation changes with every change of the spec, so an entry is never wrong; checking a
    spec anew in each reconcile would cost more than all other decisions about the job.
    """

    def __init__(self, *, size: int, reader: SpecReader = read_spec) -> None:
        self._size = size
        self._reader = reader
        self._specs: OrderedDict[tuple[str, int], JobSpec] = OrderedDict()

    def __call__(self, job: Mapping[str, Any]) -> JobSpec:
        """Return the spec of the job. Raises InvalidSpec."""
        metadata = job["metadata"]
        key = (metadata["uid"], metadata["generation"])
        spec = self._specs.get(key)
        if spec is None:
            spec = self._specs[key] = self._reader(job)
            if len(self._specs) > self._size:
                self._specs.popitem(last=False)
        else:
            self._specs.move_to_end(key)
        return spec
