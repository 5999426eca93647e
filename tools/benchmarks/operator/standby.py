"""How soon a world is full again after a member has failed, with a pod that stands by and without.

    python -m tools.benchmarks.operator.standby

The job of examples/standby, whose program takes 10 s to begin, on a node that runs containers. One
member is killed after the other, each when all pods are ready again; it counts when the one of rank
0 has met everybody of the next world. Keeps JSON in out/bench/standby.json.
"""

from __future__ import annotations

import json
import secrets
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypedDict

from di_cluster.cluster import Cluster
from di_cluster.errors import CommandFailed
from di_cluster.release import Release
from di_cluster.reporter import Reporter
from tests.e2e.examples import job_of
from tests.e2e.kubectl import Kubectl
from tests.waiting import wait_until
from tools.benchmarks.processes import ROOT

OUT = ROOT / "out/bench"
KILLS = 5
_TASK = "learner"
_PATIENCE = 120.0
_LOOKS_EVERY = 0.05


class StandbyResult(TypedDict):
    """From the kill until a full world has met."""

    standby: int
    kills: int
    seconds_min: float
    seconds_median: float
    seconds_max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One that the member of rank 0 has met."""

    generation: int
    met: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """A job of two members, and so many pods that stand by."""

    kubectl: Kubectl
    namespace: str
    name: str
    standby: int

    def start(self, image: str) -> None:
        body = job_of("standby", image=image, namespace=self.namespace)
        body["metadata"]["name"] = self.name
        body["spec"]["backoffLimit"] = KILLS + 1
        body["spec"]["tasks"][0]["standby"] = self.standby
        self.kubectl.apply(body)

    def stop(self) -> None:
        self.kubectl("--namespace", self.namespace, "delete", "dijob", self.name)

    def second(self) -> str:
        """The pod of rank 1, or of index 1 while there is none."""
        status = self.kubectl.get("dijob", self.name, namespace=self.namespace)["status"]
        own = f"{self.name}-{_TASK}-1"
        return str(status.get("standIns", {}).get(_TASK, {}).get("1", own))

    def world(self, after: int = 0) -> World:
        """The last world that has met.

        Raises:
            AssertionError: none of a later generation has met in full.
        """
        lines = self.kubectl.logs(f"{self.name}-{_TASK}-0", namespace=self.namespace).splitlines()
        assert lines
        said = json.loads(lines[-1])
        found = World(generation=said["generation"], met=tuple(said["met"]))
        assert found.generation > after, found
        assert len(found.met) == 2, found
        return found

    def warm(self) -> World:
        """The world in which all pods are ready, those that stand by among them.

        Raises:
            AssertionError: it is not there yet.
        """
        pods = self.kubectl.items(
            "pods", f"--selector=diengine/job={self.name}", namespace=self.namespace
        )
        ready = [
            pod["metadata"]["name"]
            for pod in pods
            for each in pod["status"].get("conditions", ())
            if (each["type"], each["status"]) == ("Ready", "True")
        ]
        assert len(ready) == len(pods) == 2 + self.standby, ready
        found = self.world()
        assert found.met[1] == self.second(), found
        return found

    def kill_one(self) -> float:
        """Kill the one of rank 1; returns the seconds until the next world has met."""
        before = wait_until(self.warm, _PATIENCE, what="everybody to be ready", every=0.5)
        began = time.monotonic()
        with suppress(CommandFailed):
            self._interrupt(before.met[1])
        wait_until(
            lambda: self.world(before.generation),
            _PATIENCE,
            what="the next world",
            every=_LOOKS_EVERY,
        )
        return time.monotonic() - began

    def _interrupt(self, pod: str) -> None:
        """End the program of a pod, which also ends the `kubectl exec`."""
        where = ("--namespace", self.namespace, "exec", pod)
        self.kubectl(*where, "--", "sh", "-c", "kill -INT 1")


def result(standby: int, seconds: Sequence[float]) -> StandbyResult:
    return {
        "standby": standby,
        "kills": len(seconds),
        "seconds_min": round(min(seconds), 1),
        "seconds_median": round(statistics.median(seconds), 1),
        "seconds_max": round(max(seconds), 1),
    }


def table(results: Iterable[StandbyResult]) -> str:
    """As docs/how-to/roles.md has it."""
    rows = [
        f"| {one['standby']} | {one['kills']} | {one['seconds_min']:.1f}"
        f" | {one['seconds_median']:.1f} | {one['seconds_max']:.1f} |"
        for one in results
    ]
    head = "| `standby` | kills | s, min | median | max |\n|---|---|---|---|---|"
    return "\n".join([head, *rows])


def measure(kubectl: Kubectl, release: Release) -> list[StandbyResult]:
    """Install the release, and run one job after the other."""
    images = release.build_images()
    release.install(images)
    results = []
    for standby in (1, 0):
        crew = Crew(kubectl=kubectl, namespace="default", name=f"warm{standby}", standby=standby)
        crew.start(images["server"].reference)
        results.append(result(standby, [crew.kill_one() for _ in range(KILLS)]))
        crew.stop()
    return results


def main() -> None:
    reporter = Reporter(sys.stderr)
    cluster = Cluster(f"bench-{secrets.token_hex(3)}", profile="node", reporter=reporter)
    try:
        cluster.up()
        kubectl = Kubectl(program=cluster.binary("kubectl"), kubeconfig=cluster.kubeconfig)
        results = measure(kubectl, Release(cluster, root=ROOT, reporter=reporter))
    finally:
        cluster.down(purge=True)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "standby.json").write_text(json.dumps(results, indent=2) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
