"""The command that shows the log of a run of a container that ended."""

from __future__ import annotations

from di_api.explain.facts import Object, text_of
from di_api.explain.job import Job
from di_api.explain.observations import Observation
from di_api.field_error import mapping
from di_api.names import ANNOTATION_RANK, DI_CONTAINER
from di_api.pods.main_container import all_statuses


def log_command(job: Job, seen: Observation) -> str:
    """Return the command for the log of the container run that an observation describes.

    This is the pod's present run or the one before it. Only the history keeps logs of deleted pods.
    """
    name = job.facts.name
    if not seen.pod:
        return f"di logs {name}"
    pod = job.pod(seen.pod)
    previous = None if pod is None else is_of_previous_run(pod, seen)
    if pod is None or previous is None:
        return f"di logs {name} --ended (where di-history is installed)"
    rank = text_of(mapping(mapping(pod.get("metadata")).get("annotations")).get(ANNOTATION_RANK))
    words = [f"di logs {name}"]
    words += [f"--rank {rank}"] if rank else []
    words += [f"-c {seen.container}"] if seen.container not in ("", DI_CONTAINER) else []
    words += ["--previous"] if previous else []
    return " ".join(words)


def is_of_previous_run(pod: Object, seen: Observation) -> bool | None:
    """Return whether the container has been started again since; None if this pod has no run that
    ended so.
    """
    for container in all_statuses(pod):
        if seen.container and container.get("name") != seen.container:
            continue
        for state, is_previous in (("state", False), ("lastState", True)):
            ended = mapping(mapping(container.get(state)).get("terminated"))
            code = ended.get("exitCode")
            if code is not None and code != 0 and seen.exit_code in (None, code):
                return is_previous
    return None
