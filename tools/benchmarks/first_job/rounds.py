"""Rounds of one program: each prints its number and the time at which it starts."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from di_cluster.errors import CommandFailed
from tests.e2e.kubectl import Kubectl
from tests.waiting import wait_until

PATIENCE = 300.0
NAMESPACE = "default"
PROGRAM = """
import time
print({number}, time.time(), flush=True)
time.sleep(3600)
"""
FUNCTION = """
def train():
    import time
    print({number}, time.time(), flush=True)
    time.sleep(3600)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where all ways run.

    Attributes:
        folder: the user's working directory, new for each way.
        image: with Python, on the node.
    """

    kubectl: Kubectl
    folder: Path
    image: str

    def apply(self, body: dict[str, Any]) -> None:
        """Create an object."""
        self.kubectl("--namespace", NAMESPACE, "create", "-f", "-", stdin=json.dumps(body))

    def delete(self, kind: str, name: str) -> None:
        """Delete an object and wait until it and its pods are gone; not timed."""
        self.kubectl("--namespace", NAMESPACE, "delete", kind, name, seconds=PATIENCE)

        def pods() -> list[str]:
            found = self.kubectl.items("pods", namespace=NAMESPACE)
            return [each["metadata"]["name"] for each in found]

        wait_until(lambda: not any(each.startswith(name) for each in pods()), PATIENCE, what=name)

    def log_of(self, pod: str) -> Callable[[], str]:
        """Return a function that returns the log of a pod so far."""

        def read() -> str:
            try:
                return self.kubectl.logs(pod, namespace=NAMESPACE)
            except CommandFailed:
                return ""

        return read


def started(number: int, text: str) -> float:
    """Return the time that a round printed. Raises AssertionError before it did."""
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == str(number):
            return float(words[1])
    raise AssertionError(text)


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds to the line of a round, and the load of the machine at its end, over a minute."""

    seconds: float
    load: float


@contextmanager
def timed(number: int, found: list[Round]) -> Iterator[list[Callable[[], str]]]:
    """Time a round: the block runs the user's commands, and appends what reads their lines."""
    began = time.time()
    logs: list[Callable[[], str]] = []
    yield logs
    (log,) = logs
    what = f"the line of round {number}"
    printed = wait_until(lambda: started(number, log()), PATIENCE, what=what, every=0.2)
    found.append(Round(printed - began, os.getloadavg()[0]))


def row(way: str, rounds: Sequence[Round]) -> str:
    """Return the row of a table in Markdown: the first job, and the median and longest edit."""
    first, *edits = rounds
    seconds = [each.seconds for each in edits]
    load = median(each.load for each in rounds)
    return (
        f"| {way} | {first.seconds:.1f} | {median(seconds):.1f} | {max(seconds):.1f} | {load:.0f} |"
    )
