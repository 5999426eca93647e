"""Reading a job's spec, and remembering what was read.

A spec is judged by the rules of admission before its job's first start only. Afterwards these
rules may have changed, by an upgrade or a rollback, and the pods that run are worth more than a
rule: the job goes on by whatever can be read of its spec, and its conditions say what is wrong.

Judging a spec of 256 KiB takes up to 0.3 s, and what was read of it up to ten times its bytes. So
the cache of jobs measures each spec, and here the heavy ones are remembered by a budget of bytes.
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
"""Field of a heavy job as it is kept, and of no other: the bytes of its spec as JSON."""
SPEC_ERROR: Final = "specError"
"""Field of a job as it is kept whose spec is larger than a job may have, and of no other: why."""
HEAVY: Final = 16 * 1024
"""Bytes of a spec from which on a job is heavy."""
MOST_HEAVY_BYTES: Final = 16 * 1024 * 1024
"""Bytes of the heavy specs, as JSON, whose readings are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a spec says, and what the rules of this version have against it."""

    spec: JobSpec | None
    """None if it cannot even be read leniently."""
    errors: tuple[FieldError, ...] = ()
    """Of an unreadable spec at least one."""


_Key: TypeAlias = tuple[str, int]

Examine: TypeAlias = Callable[[Mapping[str, Any]], Reading]
"""From a whole job to the reading of its spec; never raises for what a user can write."""

SpecReader: TypeAlias = Callable[[Mapping[str, Any]], JobSpec]
"""From a whole job to the spec it goes by; raises InvalidSpec."""


def examine(job: Mapping[str, Any]) -> Reading:
    """Read the spec of a job and check it by the rules of admission.

    The webhook may have been off when the job was created, so nothing is taken for granted. A spec
    that is larger than a job may have is not checked by the other rules: they would take seconds.
    """
    if SPEC_ERROR not in job:
        return _read(job, tuple(validate_job(job)))
    # Of what is kept of one that does not run, what is missing is no fault.
    return replace(_read(job, ()), errors=(FieldError("spec", ABSENT, job[SPEC_ERROR]),))


def _read(job: Mapping[str, Any], errors: tuple[FieldError, ...]) -> Reading:
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
    checking a spec again in each reconcile would cost more than all other decisions about the job.
    Of heavy specs (`SPEC_BYTES`) so many bytes are remembered, and of all that none has anything
    against them: reading one again takes a tenth of the time that judging it does.
    Whether the job has been started is not part of it and looked at each time. Several threads
    may ask: the allocator reads beside the event loop.
    """

    def __init__(
        self, *, size: int, most_bytes: int = MOST_HEAVY_BYTES, examine: Examine = examine
    ) -> None:
        """`size` is the number of readings, `most_bytes` that of the heavy specs among them."""
        self._size = size
        self._most_bytes = most_bytes
        self._examine = examine
        self._readings: OrderedDict[_Key, Reading] = OrderedDict()
        self._heavy: OrderedDict[_Key, tuple[int, Reading]] = OrderedDict()
        self._heavy_bytes = 0
        self._faultless: OrderedDict[_Key, None] = OrderedDict()
        self._lock = Lock()

    def __call__(self, job: Mapping[str, Any]) -> JobSpec:
        """Return the spec that the job goes by, see `read_spec`. Raises InvalidSpec."""
        return _to_go_by(job, self.examine(job))

    def examine(self, job: Mapping[str, Any]) -> Reading:
        """Return the reading of the job's spec, whether or not the job has been started."""
        if (reading := self.known(job)) is not None:
            return reading
        key = _key(job)
        with self._lock:
            is_faultless = key in self._faultless
        # Not under the lock: the event loop must not wait for it.
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
        # The last one stays, however heavy: the decision that asked for it is still to come.
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
