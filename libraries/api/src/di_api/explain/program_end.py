"""How a program ended: the error in its log, its exit code, and what to do about known errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from di_api.explain.job import Job
from di_api.explain.log_command import is_of_previous_run
from di_api.explain.messages import NOT_STARTED, of_operator, one_line
from di_api.explain.observations import Observation, Source
from di_api.explain.program_errors import exit_text, program_error, unresolved_host

_CODE: Final = re.compile(r"exit code (\d+)")
_REMEDIES: Final = (
    (
        r"No module named '([\w.]+)'",
        "the image lacks the module {0}: install it in the image, or name an image that has it",
    ),
    (
        r"out of memory|OutOfMemory",
        "the memory of the GPU is full: a smaller batch, or GPUs with more memory",
    ),
    (
        r"Bus error|shared memory",
        "mount an emptyDir with medium Memory at /dev/shm: its size limits what processes share",
    ),
    (
        r"driver version is insufficient|no kernel image",
        "the image's CUDA does not fit the driver or the GPU of the node: choose another image, or "
        "other nodes",
    ),
    (
        r"address already in use|EADDRINUSE",
        "another process of the pod, or of its host network, has that port: choose another one",
    ),
    (
        r"unrecognized arguments|the following arguments are required|can't open file",
        "correct command and args of the template",
    ),
)
"""What to do about errors that programs of this kind often have; the first match decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEnd:
    """How a program ended.

    Attributes:
        error: the error in its log; empty if none was found there.
        code: the exit code as text.
        host: the host name that it could not resolve; None if that is not the error.
        namespace: of the job.
    """

    error: str
    code: str
    host: str | None
    namespace: str

    def summary(self, what: str) -> str:
        """Return what happened, with the error or else the exit code."""
        if self.host is not None:
            name = f"host name {self.host}" if self.host else "a host name"
            return f"{what}, {name} could not be resolved: {self.error}"
        shown = f"{what} ({self.code})" if self.code and self.code not in what else what
        return f"{shown}: {self.error}" if self.error and self.error not in what else shown

    def remedy(self, otherwise: str) -> str:
        """Return what to do."""
        logs, _, _ = otherwise.partition(":")
        if self.host is not None:
            return (
                f"correct the name, or create the Service that it is to name: kubectl get services "
                f"-n {self.namespace}"
            )
        for pattern, remedy in _REMEDIES:
            if found := re.search(pattern, self.error):
                more = f"; its log has more: {logs}" if logs.startswith("di logs") else ""
                return f"{remedy.format(*found.groups())}{more}"
        return otherwise


def program_end(job: Job, seen: Observation, observations: Sequence[Observation]) -> ProgramEnd:
    """Return how a program ended, by the logs of its pod and the operator's message."""
    pod = job.pod(seen.pod)
    error, host = "", None
    for lines in _logs(job, seen, observations):
        error = program_error(lines)
        if error:
            host = unresolved_host(error, lines, pod)
            break
    own = one_line(seen.text) if seen.reason in NOT_STARTED else ""
    coded = _CODE.search(of_operator(seen.text)) if seen.exit_code is None else None
    code = exit_text(int(coded[1]) if coded else seen.exit_code)
    return ProgramEnd(error=error or own, code=code, host=host, namespace=job.facts.namespace)


def _logs(
    job: Job, seen: Observation, observations: Sequence[Observation]
) -> Iterator[Sequence[str]]:
    """Yield the log tails of the run that an observation is about, the surest first."""
    own = seen.text.splitlines() if seen.source in (Source.ENDED, Source.LOG) else []
    others = [each.text for each in observations if each.source is Source.LOG and not each.pod]
    read = job.facts.logs.get(seen.pod) or ()
    if seen.source is Source.LOG and not seen.pod:
        own = _split(seen.text)
    pod = job.pod(seen.pod)
    if pod is not None and is_of_previous_run(pod, seen):
        yield own
        yield read
    else:
        yield read
        yield own
    for text in others:
        yield _split(text)


def _split(text: str) -> list[str]:
    """Return the lines of the operator's message, which has them in one."""
    return text.split(" / ")
