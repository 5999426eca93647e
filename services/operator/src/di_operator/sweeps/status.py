"""The status of a DISweep, and the objects that its trials become. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from di_api.field_error import FieldError, items, mapping
from di_api.names import (
    ANNOTATION_RUNGS,
    API_VERSION,
    SWEEP_KIND,
)
from di_api.ownership import sweep_uid
from di_api.sweeps import (
    Decision,
    SweepSpec,
    Trial,
    copy_job,
    count_created,
    missing_checkpoints,
    rungs_text,
    summarize,
    trial_job,
    trial_name,
)
from di_api.timestamps import format_time

Object = Mapping[str, Any]
COMPLETE: Final = "Complete"
VALID: Final = "Valid"
REFUSED: Final = "Refused"
COPYING: Final = "Copying"
_LONGEST: Final = 1024
_SHOWN_ERRORS: Final = 8


def is_trial_of(job: Object, sweep: Object) -> bool:
    """Return whether a sweep controls a job: any client can write labels."""
    return sweep_uid(job) == str(sweep["metadata"]["uid"])


def owned_job(
    sweep: Object, spec: SweepSpec, index: int, replaced: Trial | None = None
) -> dict[str, Any]:
    """Return the job of a trial, which is deleted with its sweep; with a trial that it replaces it
    is a copy.
    """
    job = (
        trial_job(sweep, spec, index)
        if replaced is None
        else copy_job(sweep, spec, index, replaced)
    )
    owner = {
        "apiVersion": API_VERSION,
        "kind": SWEEP_KIND,
        "name": sweep["metadata"]["name"],
        "uid": sweep["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }
    return {**job, "metadata": {**job["metadata"], "ownerReferences": [owner]}}


def trial_patch(job: Object, trial: Trial) -> dict[str, Any]:
    """Return the merge patch with the record of a trial, and with its stop: one write, so that no
    comparison is made twice.
    """
    return {
        # Preconditions: another job can have the name by now, and another process can have written
        # a record that is not known yet, such as that of a stop.
        "metadata": {
            "uid": job["metadata"]["uid"],
            "resourceVersion": job["metadata"]["resourceVersion"],
            "annotations": {ANNOTATION_RUNGS: rungs_text(trial)},
        },
        **({"spec": {"suspend": True}} if trial.stopped else {}),
    }


def status_of(
    sweep: Object,
    spec: SweepSpec,
    trials: Iterable[Trial],
    parameters: Callable[[int], Mapping[str, Any]],
    decision: Decision,
    *,
    refused: str,
    now: datetime,
) -> dict[str, Any]:
    """Return the status of a valid sweep.

    Args:
        sweep: the sweep with its present status.
        spec: its spec.
        trials: all that exist.
        parameters: returns those of a trial by its index; called for the best one alone.
        decision: what was decided about them.
        refused: the API server's message about a trial that it refused; empty without one.
        now: time of a new condition.
    """
    found = list(trials)
    counts, before = summarize(spec, found), mapping(sweep.get("status"))
    indexes = {each.index for each in found}
    created = count_created(spec, indexes, before.get("created") or 0)
    name = str(sweep["metadata"]["name"])
    best = {}
    if counts.best is not None:
        texts = {key: str(value) for key, value in parameters(counts.best).items()}
        trial = trial_name(name, counts.best)
        best = {"best": {"trial": trial, "value": counts.value, "parameters": texts}}
    conditions = [
        (VALID, True, "Valid", ""),
        (COMPLETE, decision.is_over, *_completion(spec, decision, created)),
    ]
    if refused or any(each.get("type") == REFUSED for each in _conditions(before)):
        reason = "TrialRefused" if refused else "TrialsCreated"
        conditions.append((REFUSED, bool(refused), reason, refused))
    if spec.population is not None:
        missing = missing_checkpoints(spec, found)
        reason = "NoCheckpoint" if missing else "CheckpointsReported"
        conditions.append((COPYING, not missing, reason, missing))
    return {
        "observedGeneration": sweep["metadata"].get("generation", 0),
        "created": created,
        "pending": counts.pending,
        "running": counts.running,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "stopped": counts.stopped,
        **best,
        "conditions": [_condition(before, *each, now=now) for each in conditions],
    }


def invalid_status(sweep: Object, errors: Sequence[FieldError], now: datetime) -> dict[str, Any]:
    """Return the status of a sweep that breaks rules, with the path of each fault."""
    before = mapping(sweep.get("status"))
    message = "; ".join(f"{each.path}: {each.advice}" for each in errors[:_SHOWN_ERRORS])
    wrong = _condition(before, VALID, False, "InvalidSpec", message, now=now)
    others = [each for each in _conditions(before) if each.get("type") != VALID]
    generation = sweep["metadata"].get("generation", 0)
    return {**before, "observedGeneration": generation, "conditions": [wrong, *others]}


def is_complete(sweep: Object) -> bool:
    """Return whether a sweep is over for good."""
    return any(
        (each.get("type"), each.get("status")) == (COMPLETE, "True")
        for each in _conditions(mapping(sweep.get("status")))
    )


def _completion(spec: SweepSpec, decision: Decision, created: int) -> tuple[str, str]:
    if decision.exhausted:
        return "BudgetUsed", decision.exhausted
    if decision.is_over:
        return "TrialsEnded", f"all {created} trials have ended"
    return "InProgress", ""


def _conditions(status: Object) -> list[Object]:
    return [mapping(each) for each in items(status.get("conditions"))]


def _condition(
    before: Object, kind: str, holds: bool, reason: str, message: str, *, now: datetime
) -> dict[str, Any]:
    """Return a condition, with the time of its last change."""
    status = "True" if holds else "False"
    old = next((each for each in _conditions(before) if each.get("type") == kind), {})
    since = old.get("lastTransitionTime") if old.get("status") == status else None
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message[:_LONGEST],
        "lastTransitionTime": since or format_time(now),
    }
