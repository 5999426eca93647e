"""kubectl as a person uses it; what tests read while they wait comes without its processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from di_cluster.commands import run
from di_cluster.errors import CommandFailed
from tests.e2e import api_reads
from tests.waiting import DEADLINE

Object = dict[str, Any]
_OF_SEVERAL: Final = "a container name must be specified"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    """Runs kubectl against one cluster; every call ends within its time limit."""

    program: Path
    kubeconfig: Path

    def __call__(self, *arguments: str, stdin: str = "", seconds: float = DEADLINE) -> str:
        """What kubectl printed.

        Raises:
            CommandFailed: its exit code is not zero; `output` has what it said.
        """
        return run(
            [self.program, "--kubeconfig", self.kubeconfig, *arguments],
            stdin=stdin,
            seconds=seconds,
        )

    def apply(self, body: Mapping[str, Any]) -> str:
        """`kubectl apply` of one object."""
        return self("apply", "--filename", "-", stdin=json.dumps(body))

    def get(self, *arguments: str, namespace: str) -> Object:
        """`kubectl get` as an object; a list when no name is given."""
        found: Object
        if api_reads.is_simple(arguments):
            found = api_reads.read(self.kubeconfig, arguments, namespace, DEADLINE)
        else:
            said = self("--namespace", namespace, "get", *arguments, "--output", "json")
            found = json.loads(said)
        return found

    def items(self, *arguments: str, namespace: str) -> list[Object]:
        """The objects of a list."""
        found: list[Object] = self.get(*arguments, namespace=namespace)["items"]
        return found

    def logs(self, pod: str, *, namespace: str) -> str:
        """What the pod has printed so far.

        Raises:
            CommandFailed: its container has not started.
        """
        try:
            return api_reads.read_log(self.kubeconfig, pod, namespace, DEADLINE)
        except CommandFailed as error:
            if _OF_SEVERAL not in error.output:
                raise
        return self("--namespace", namespace, "logs", pod)

    def phase(self, job: str, *, namespace: str) -> str:
        """The phase of a DIJob; empty before the operator has seen it."""
        return str(self.get("dijob", job, namespace=namespace).get("status", {}).get("phase", ""))
