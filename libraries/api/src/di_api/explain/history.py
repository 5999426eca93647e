"""Observations from Events and from past states, which explain nothing about the present state."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from di_api.explain.facts import Object, is_healthy, node_of, text_of, uid_of, unhealthy_pods
from di_api.explain.job import Condition, Job
from di_api.explain.observations import Observation, Source, condition_observations
from di_api.field_error import items, mapping
from di_api.phase import Phase
from di_api.pods.main_container import all_statuses
from di_api.timestamps import last_seen, parse_time

_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_DISRUPTIONS: Final = frozenset(
    {"Preempted", "TaintManagerEviction", "Evicted", "NodeNotReady", "NodeLost"}
)
"""Reasons of Events for why a pod was removed, whatever its program did; some are not Warnings."""
_DELAY: Final = re.compile(r'Back-off pulling image "[^"]*"')
_ONE_KILL: Final = timedelta(minutes=5)
"""Maximum time between a probe's failure and the restart that it caused."""
_ONE_LOOK: Final = timedelta(seconds=5)
"""Losses that are recorded within this time count as one loss in the operator."""


def event_observations(job: Job) -> tuple[Observation, ...]:
    """Return the Events of unhealthy pods, and of the job in its phase, the newest first."""
    unhealthy = {uid_of(pod): pod for pod in unhealthy_pods(job.facts)}
    found = []
    for event, seen in _warnings(job):
        about = mapping(event.get("involvedObject"))
        pod = unhealthy.get(text_of(about.get("uid")))
        if seen.reason in _DISRUPTIONS:
            keeps = pod is not None
        elif job.phase is Phase.RUNNING:
            # The pod runs, so what prevented its start is over.
            keeps = False
        elif pod is not None:
            keeps = seen.reason != "FailedScheduling" or not node_of(pod)
        else:
            keeps = not seen.pod and _is_of_phase(job, seen)
        if keeps:
            found.append(seen)
    return _newest_first(found)


def probe_observations(job: Job) -> tuple[Observation, ...]:
    """Return the probe because of which the kubelet killed a container of the first failed pod. The
    pod's status shows only how the container reacted.

    The Event of the kill names the probe only if the container is restarted.
    """
    return kills(job, next(map(uid_of, unhealthy_pods(job.facts)), ""))


def kills(job: Job, uid: str) -> tuple[Observation, ...]:
    """Return the failures of the probe for which the kubelet killed a container of a pod, the
    newest first; empty if it killed none.
    """
    events = [
        event
        for event in job.facts.events
        if uid and text_of(mapping(event.get("involvedObject")).get("uid")) == uid
    ]
    if not any(event.get("reason") == "Killing" for event in events):
        return ()
    failed = [event for event in events if event.get("reason") == "Unhealthy"]
    return _newest_first(
        [_observation(event) for event in failed if _ends(text_of(event.get("message")))]
    )


def kills_in_place(job: Job) -> tuple[Observation, ...]:
    """Return the same for a pod that is ready again after its container was restarted."""
    for pod in job.facts.pods:
        counts = (each.get("restartCount") for each in all_statuses(pod))
        is_restarted = any(isinstance(count, int) and count > 0 for count in counts)
        if is_restarted and (found := kills(job, uid_of(pod))):
            return found
    return ()


def _kills_before(job: Job, restart: Condition) -> tuple[Observation, ...]:
    """Return the same for the pod because of which the job restarted: a later one has its name."""
    named = next((seen.pod for seen in condition_observations(restart)), "")
    present = {uid_of(pod) for pod in job.facts.pods}
    for event in job.facts.events:
        about = mapping(event.get("involvedObject"))
        uid, at = text_of(about.get("uid")), last_seen(event)
        is_near = at is not None and restart.since is not None and restart.since - at <= _ONE_KILL
        is_meant = named and about.get("name") == named and uid not in present and is_near
        if is_meant and (found := kills(job, uid)):
            return found
    return ()


def pull_error(job: Job, seen: Observation) -> str:
    """Return the Event with the error of a pull whose container's message has only the delay."""
    if not _DELAY.fullmatch(seen.text):
        return ""
    pulls = [each for _, each in _warnings(job) if each.pod == seen.pod and "pull" in each.text]
    return next((each.text for each in _newest_first(pulls) if each.text.count(":")), "")


def _ends(message: str) -> bool:
    return message.startswith(("Liveness probe", "Startup probe"))


def past_observations(job: Job) -> tuple[Observation, ...]:
    """Return why pods were last replaced, from the operator's conditions and, if the pods did not
    fail, from Events of deleted pods.
    """
    last = _last_disturbance(job)
    losses = _newest_first([_of_loss(mapping(each)) for each in items(job.status.get("failures"))])
    newest = losses[0].at if losses else None
    recent = [each for each in losses if newest and each.at and newest - each.at <= _ONE_LOOK]
    named = {seen.pod for seen in condition_observations(last)}
    # Of those of one second the operator knows the first.
    recent.sort(key=lambda each: each.pod not in named)
    told = (*condition_observations(last), *recent)
    failed = last is not None and last.type == Phase.RESTARTING
    if last is not None and failed:
        return (*_kills_before(job, last), *told)
    return (*_disruptions(job), *told)


def _disruptions(job: Job) -> tuple[Observation, ...]:
    well = {uid_of(pod) for pod in job.facts.pods if is_healthy(pod)}
    return _newest_first(
        [
            seen
            for event, seen in _warnings(job)
            if seen.reason in _DISRUPTIONS
            and text_of(mapping(event.get("involvedObject")).get("uid")) not in well
        ]
    )


def _warnings(job: Job) -> Iterator[tuple[Object, Observation]]:
    for event in job.facts.events:
        reason = text_of(event.get("reason"))
        if event.get("type") != "Warning" and reason not in _DISRUPTIONS:
            continue
        yield event, _observation(event)


def _observation(event: Object) -> Observation:
    about = mapping(event.get("involvedObject"))
    return Observation(
        source=Source.EVENT,
        reason=text_of(event.get("reason")),
        text=text_of(event.get("message")),
        pod=text_of(about.get("name")) if about.get("kind") == "Pod" else "",
        at=last_seen(event),
    )


def _is_of_phase(job: Job, seen: Observation) -> bool:
    since = job.current.since if job.current is not None else None
    return since is None or (seen.at is not None and seen.at >= since)


def _last_disturbance(job: Job) -> Condition | None:
    """Return the newer one of the last restart and the last reschedule."""
    kinds = (job.condition(phase.value) for phase in Phase if phase.is_replacing)
    found = [each for each in kinds if each is not None]
    return max(found, key=lambda each: each.since or _FIRST, default=None)


def _of_loss(loss: Object) -> Observation:
    code = loss.get("exitCode")
    is_code = isinstance(code, int) and not isinstance(code, bool)
    return Observation(
        source=Source.ENDED if is_code else Source.POD,
        reason=text_of(loss.get("reason")),
        pod=text_of(loss.get("pod")),
        exit_code=code if isinstance(code, int) and is_code else None,
        at=parse_time(loss.get("time")),
    )


def _newest_first(observations: list[Observation]) -> tuple[Observation, ...]:
    return tuple(sorted(observations, key=lambda seen: seen.at or _FIRST, reverse=True))
