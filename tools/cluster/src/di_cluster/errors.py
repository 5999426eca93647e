"""The failures that `di-cluster` reports to a person instead of a traceback."""

from __future__ import annotations


class ClusterError(Exception):
    """Something a person can act on; the message says what happened and what to do."""


class CommandFailed(ClusterError):
    """A program that the cluster relies on ended with an error or ran out of time."""

    def __init__(self, *, command: str, reason: str, output: str) -> None:
        super().__init__(f"{command}: {reason}" + (f"\n{output}" if output else ""))
        self.command = command
        self.output = output


class TimedOut(ClusterError):
    """A state that should have come within a time limit did not come."""
