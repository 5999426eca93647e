"""Reading a job's spec, and remembering what was read.

A spec is judged by the rules of admission before its job's first start only. Afterwards these
rules may have changed, by an upgrade or a rollback, and the pods that run are worth more than a
rule: the job goes on by whatever can be read of its spec, and its conditions say what is wrong.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeAlias

from di_api.field_error import FieldError, InvalidSpec
from di_api.spec import JobSpec
from di_api.validation import load_leniently, validate_job
from di_operator.lifecycle.status import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a spec says, and what the rules of this version have against it."""

    spec: JobSpec | None
    """None if it cannot even be read leniently."""
    errors: tuple[FieldError, ...] = ()
    """Of an unreadable spec at least one."""


Examine: TypeAlias = Callable[[Mapping[str, Any]], Reading]
"""From a whole job to the reading of its spec; never raises for what a user can write."""

SpecReader: TypeAlias = Callable[[Mapping[str, Any]], JobSpec]
"""From a whole job to the spec it goes by; raises InvalidSpec."""


def examine(job: Mapping[str, Any]) -> Reading:
    """Read the spec of a job and check it by the rules of admission.

    The webhook may have been off when the job was created, so nothing is taken for granted.
    """
    errors = tuple(validate_job(job))
    try:
        return Reading(spec=load_leniently(job.get("spec")), errors=errors)
    except InvalidSpec as unreadable:
        known = {error.path for error in errors}
        new = (error for error in unreadable.errors if error.path not in known)
        return Reading(spec=None, errors=(*errors, *new))


def read_spec(job: Mapping[str, Any]) -> JobSpec:
    """Return the spec that a job goes by: of one that has been started, all that can be read.

    Raises InvalidSpec for a job that may not be started, and for a spec that cannot be read.
    """
    return _to_go_by(job, examine(job))


class SpecCache:
    """A SpecReader that remembers the specs read last, by UID and generation.

    The generation changes with every change of the spec, so what is remembered of one is right;
    checking a spec anew in each reconcile would cost more than all other decisions about the job.
    Whether the job has been started is not part of it and looked at each time. Several threads
    may ask: the allocator reads beside the event loop.
    """

    def __init__(self, *, size: int, examine: Examine = examine) -> None:
        self._size = size
        self._examine = examine
        self._readings: OrderedDict[tuple[str, int], Reading] = OrderedDict()
        self._lock = Lock()

    def __call__(self, job: Mapping[str, Any]) -> JobSpec:
        """Return the spec that the job goes by, see `read_spec`. Raises InvalidSpec."""
        return _to_go_by(job, self.examine(job))

    def examine(self, job: Mapping[str, Any]) -> Reading:
        """Return the reading of the job's spec, whether or not the job has been started."""
        metadata = job["metadata"]
        key = (metadata["uid"], metadata["generation"])
        with self._lock:
            reading = self._readings.get(key)
            if reading is not None:
                self._readings.move_to_end(key)
                return reading
        # Not under the lock: the event loop must not wait for it.
        reading = self._examine(job)
        with self._lock:
            self._readings[key] = reading
            if len(self._readings) > self._size:
                self._readings.popitem(last=False)
        return reading


def _to_go_by(job: Mapping[str, Any], reading: Reading) -> JobSpec:
    if reading.spec is None:
        raise InvalidSpec(reading.errors)
    if reading.errors and not Status.read(job.get("status")).has_started:
        raise InvalidSpec(reading.errors)
    return reading.spec
