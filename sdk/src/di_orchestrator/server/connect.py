"""Connection of a pod to its job at di-server, from the pod's variables."""

from __future__ import annotations

import sys
import threading

from di_orchestrator.errors import BadEnvironment
from di_orchestrator.job import Job
from di_orchestrator.server.api import Api
from di_orchestrator.server.client import Send
from di_orchestrator.server.transport import Transport

OUTSIDE = (
    "di_orchestrator: not in a DIJob (DI_JOB_ID is not set): nothing is scaled or reported, and "
    "there are no peers"
)


class _Once:
    """Prints each line once per process."""

    def __init__(self) -> None:
        self._said = set[str]()
        self._lock = threading.Lock()

    def __call__(self, line: str) -> None:
        with self._lock:
            if line in self._said:
                return
            self._said.add(line)
        print(line, file=sys.stderr, flush=True)

    def forget(self) -> None:
        """Reset, for tests."""
        with self._lock:
            self._said.clear()


say_once = _Once()


def connection(job: Job) -> tuple[Api, Send] | None:
    """Return the parts of a client of the job; None outside a job, which is printed on stderr.

    Raises:
        BadEnvironment: the pod has no address of di-server.
    """
    if not job.is_inside:
        say_once(OUTSIDE)
        return None
    transport = Transport.of(job.environment)
    if transport is None:
        raise BadEnvironment(
            "DI_SERVER_URL is not set, and should be where di-server answers: the operator sets it "
            "in pods of a DIJob; does the template, or the program's start, unset it?"
        )
    return Api(job.id, job.pod), transport.send
