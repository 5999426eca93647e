"""The evidence that is shown with an explanation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from di_api.explain.explanation import Evidence
from di_api.explain.facts import name_of, ready_condition, text_of
from di_api.explain.job import Job
from di_api.explain.observations import Observation, Source
from di_api.timestamps import parse_time

LOG_LINES: Final = 20
"""Number of lines of a log tail that are shown."""
_LONGEST: Final = 300


def operator_says(job: Job) -> tuple[Evidence, ...]:
    """Return the condition of the job's phase."""
    current = job.current
    if current is None:
        return ()
    text = ": ".join(part for part in (current.reason, _cut(current.message)) if part)
    return (Evidence(label="operator", text=text, at=current.since),)


def evidence_of(job: Job, seen: Observation | None) -> tuple[Evidence, ...]:
    """Return the evidence for an observation: pod, operator's message, node and log tail."""
    return (
        *(_first(seen) if seen is not None else ()),
        *operator_says(job),
        *_counts(job),
        *(_node(job, seen) if seen is not None and seen.node else ()),
        *_log(job, seen),
    )


def _first(seen: Observation) -> Iterator[Evidence]:
    if seen.source is Source.CONDITION:
        return
    code = "" if seen.exit_code is None else f"exit code {seen.exit_code}"
    ended = f"{code} ({seen.reason})" if code and seen.reason not in ("", "Error") else code
    said = ended or seen.reason
    text = seen.text.splitlines()[-1] if seen.text.strip() else ""
    where = f"on node {seen.node}" if seen.node else ""
    who = f"{seen.pod}/{seen.container}" if seen.container else seen.pod
    parts = (who, said, where, _cut(text) if seen.source is not Source.LOG else "")
    label = {Source.EVENT: "event", Source.NODE: "node"}.get(seen.source, "first")
    yield Evidence(label=label, text=", ".join(part for part in parts if part), at=seen.at)


def _counts(job: Job) -> Iterator[Evidence]:
    restarts, reschedules = job.count("restarts"), job.count("reschedules")
    limit = job.spec.get("backoffLimit")
    if restarts:
        of = f" (backoffLimit {limit})" if isinstance(limit, int) else ""
        yield Evidence(label="restarts", text=f"{restarts}{of}")
    if reschedules:
        yield Evidence(label="reschedules", text=str(reschedules))


def _node(job: Job, seen: Observation) -> Iterator[Evidence]:
    for node in job.facts.nodes:
        if name_of(node) == seen.node and seen.source is not Source.NODE:
            ready = ready_condition(node)
            state = "is ready" if ready.get("status") == "True" else "is not ready"
            why = _cut(text_of(ready.get("message")))
            yield Evidence(
                label="node",
                text=f"{seen.node} {state}{f': {why}' if why else ''}",
                at=parse_time(ready.get("lastTransitionTime")),
            )


def _log(job: Job, seen: Observation | None) -> Iterator[Evidence]:
    """Yield the log tail of the observation's pod, or of the only pod that has one."""
    logs = job.facts.logs
    pod = seen.pod if seen is not None and seen.pod else next(iter(logs), "")
    lines = [line for line in logs.get(pod) or () if line.strip()]
    if lines:
        yield Evidence(label="last log", text="\n".join(lines[-LOG_LINES:]))


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
