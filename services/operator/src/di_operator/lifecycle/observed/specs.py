"""Reads the specs of jobs, and caches the results.

A spec is validated by the rules of admission only before the first start of its job. An upgrade or
a rollback may change these rules later, and running pods matter more than a rule. The job then
goes on with the readable part of its spec, and its conditions report the errors.

Validating a spec of 256 KiB takes up to 0.3 s, and the result up to ten times its bytes. So the
cache of jobs measures each spec, and heavy ones are remembered here within a budget of bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Final, TypeAlias

from di_api.field_error import ABSENT, FieldError, InvalidSpec
from di_api.spec import JobSpec
from di_api.validation import load_leniently, validate_job
from di_operator.lifecycle.observed.status import Status

SPEC_BYTES: Final = "specBytes"
"""Field of cached heavy jobs only: the size of the spec as JSON, in bytes."""
SPEC_ERROR: Final = "specError"
"""Field of cached jobs whose spec exceeds the limit: the error message."""
HEAVY: Final = 16 * 1024
"""Size in bytes from which a job is heavy."""
MOST_HEAVY_BYTES: Final = 16 * 1024 * 1024
"""Budget for remembered heavy specs, in bytes of their JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A spec, and its errors by the rules of this version."""

    spec: JobSpec | None
    """None if not even lenient reading succeeds."""
    errors: tuple[FieldError, ...] = ()
    """At least one error if the spec is None."""


_Key: TypeAlias = tuple[str, int]

Examine: TypeAlias = Callable[[Mapping[str, Any]], Reading]
"""A function from a whole job to the reading of its spec; never raises for user input."""

SpecReader: TypeAlias = Callable[[Mapping[str, Any]], JobSpec]
"""A function from a whole job to the spec that applies to it; raises InvalidSpec."""


def examine(job: Mapping[str, Any]) -> Reading:
    """Read the spec of a job and validate it by the rules of admission.

    The webhook may have been off when the job was created, so nothing is assumed. A spec above the
    size limit is not validated further: that would take seconds.
    """
    if SPEC_ERROR not in job:
        return _read(job, tuple(validate_job(job)))
    # The cache keeps only a part of a job that does not run; a missing field is then not an error.
    return replace(_read(job, ()), errors=(FieldError("spec", ABSENT, job[SPEC_ERROR]),))


def _read(job: Mapping[str, Any], errors: tuple[FieldError, ...]) -> Reading:
    try:
        return Reading(spec=load_leniently(job.get("spec")), errors=errors)
    except InvalidSpec as unreadable:
        known = {error.path for error in errors}
        new = (error for error in unreadable.errors if error.path not in known)
        return Reading(spec=None, errors=(*errors, *new))


def read_spec(job: Mapping[str, Any]) -> JobSpec:
    """Return the spec that applies to a job; for a job that has started, its readable part.

    Raises InvalidSpec for a job that must not be started, and for a spec that cannot be read.
    """
    return _to_go_by(job, examine(job))


class SpecCache:
    """A SpecReader that remembers recent specs by UID and generation.

    The generation changes with the spec, so an entry never goes stale; validating a spec again in
    each reconcile would cost more than the rest of the decision. For heavy specs (`SPEC_BYTES`)
    there is a budget in bytes. For every spec it is remembered whether it is valid: reading takes
    a tenth of the time of validation. Whether the job has started is not cached but checked each
    time. Thread-safe: the allocator reads beside the event loop.
    """

    def __init__(
        self, *, size: int, most_bytes: int = MOST_HEAVY_BYTES, examine: Examine = examine
    ) -> None:
        """`size` is the number of readings, `most_bytes` the budget of the heavy ones."""
        self._size = size
        self._most_bytes = most_bytes
        self._examine = examine
        self._readings: OrderedDict[_Key, Reading] = OrderedDict()
        self._heavy: OrderedDict[_Key, tuple[int, Reading]] = OrderedDict()
        self._heavy_bytes = 0
        self._faultless: OrderedDict[_Key, None] = OrderedDict()
        self._lock = Lock()

    def __call__(self, job: Mapping[str, Any]) -> JobSpec:
        """Return the spec that applies to the job, see `read_spec`. Raises InvalidSpec."""
        return _to_go_by(job, self.examine(job))

    def examine(self, job: Mapping[str, Any]) -> Reading:
        """Return the reading of the job's spec, started or not."""
        if (reading := self.known(job)) is not None:
            return reading
        key = _key(job)
        with self._lock:
            is_faultless = key in self._faultless
        # Outside the lock: the event loop must not wait for it.
        reading = _read(job, ()) if is_faultless else self._examine(job)
        with self._lock:
            if SPEC_BYTES in job:
                self._remember_heavy(key, job[SPEC_BYTES], reading)
            else:
                self._readings[key] = reading
                _cut(self._readings, self._size)
        return reading

    def known(self, job: Mapping[str, Any]) -> Reading | None:
        """Return the reading if it is remembered."""
        key = _key(job)
        with self._lock:
            if key in self._heavy:
                self._heavy.move_to_end(key)
                return self._heavy[key][1]
            if key in self._readings:
                self._readings.move_to_end(key)
                return self._readings[key]
        return None

    def _remember_heavy(self, key: _Key, spec_bytes: int, reading: Reading) -> None:
        if not reading.errors:
            self._faultless[key] = None
            _cut(self._faultless, self._size)
        self._heavy_bytes += spec_bytes - self._heavy.pop(key, (0, reading))[0]
        self._heavy[key] = spec_bytes, reading
        # The last one stays, whatever its size: a decision is about to use it.
        while self._heavy_bytes > self._most_bytes and len(self._heavy) > 1:
            _, (dropped, _) = self._heavy.popitem(last=False)
            self._heavy_bytes -= dropped


def _key(job: Mapping[str, Any]) -> _Key:
    metadata = job["metadata"]
    return metadata["uid"], metadata["generation"]


def _cut(remembered: OrderedDict[_Key, Any], size: int) -> None:
    if len(remembered) > size:
        remembered.popitem(last=False)


def _to_go_by(job: Mapping[str, Any], reading: Reading) -> JobSpec:
    if reading.spec is None:
        raise InvalidSpec(reading.errors)
    if reading.errors and not Status.read(job.get("status")).has_started:
        raise InvalidSpec(reading.errors)
    return reading.spec
