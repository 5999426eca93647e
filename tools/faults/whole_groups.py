"""Lose, kill and scale members of process groups of fixed size on a real node, and count.

    python -m tools.faults.whole_groups --program sockets --times 10

Brings up a node with the release, and removes it at the end. A group of three members runs. Then
each event happens to it, so many times. Afterwards every pod has to be new, all members have to
meet with the same size, and only a kill may count as a restart. A group that does not is a half.

Prints a line for each event, and returns 1 if there was a half.
"""

from __future__ import annotations

import argparse
import json
import secrets
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from di_cluster.cluster import Cluster
from di_cluster.errors import CommandFailed
from di_cluster.release import Release
from di_cluster.reporter import Reporter
from tests.e2e.conftest import NAMESPACE, fresh_namespace
from tests.e2e.deployments import is_admitted
from tests.e2e.examples import load_image
from tests.e2e.jobs import job, task
from tests.e2e.kubectl import Kubectl
from tests.e2e.whole_groups import (
    EVENTS,
    JAX,
    MPI,
    MPIRUN,
    SOCKETS,
    TORCH,
    TORCHRUN,
    WholeGroup,
    members_only,
)
from tests.failures.clusters import running
from tests.waiting import wait_until

ROOT: Final = Path(__file__).resolve().parents[2]
SERVICES: Final = ("webhook", "operator", "server")
TIMES_OF_A_JOB: Final = 2
"""Events of one job: each loss of a pod delays the next one, and a new job has lost none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What the members of a group run.

    Attributes:
        source: Python.
        example: whose image has its libraries; None: any image with Python.
        command: that runs the source.
        launcher: that starts the command in all pods.
    """

    source: str
    framework: str = "torch"
    example: str | None = None
    command: tuple[str, ...] = ("python3", "-u", "/tmp/program.py")
    launcher: tuple[str, ...] = ()


PROGRAMS: Final = {
    "sockets": Program(source=SOCKETS),
    "torchrun": Program(source=TORCH, example="torch-ddp", command=TORCHRUN),
    "jax": Program(source=JAX, framework="jax", example="jax"),
    "mpi": Program(source=MPI, framework="mpi", example="mpi", launcher=MPIRUN),
}


@dataclass(slots=True, kw_only=True)
class Tally:
    """The results of one event.

    Attributes:
        times: how often it happened.
        halves: groups that were not replaced as a whole, or counted as they should not.
        wrong: what was seen of them.
        seconds: until the group was whole again, of the others.
    """

    event: str
    times: int = 0
    halves: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def line(self) -> dict[str, object]:
        """Return it with the median time."""
        found = {key: value for key, value in asdict(self).items() if key != "seconds"}
        median = round(statistics.median(self.seconds), 1) if self.seconds else None
        return {**found, "median_seconds": median}


def tally(group: WholeGroup, event: str, times: int, *, clock: Callable[[], float]) -> Tally:
    """Let an event happen to a group so many times; return what came of it."""
    found = Tally(event=event)
    while found.times < times:
        group.start()
        for _ in range(min(TIMES_OF_A_JOB, times - found.times)):
            found.times += 1
            began = clock()
            try:
                group.befall(event)
            except (AssertionError, CommandFailed) as error:
                found.halves += 1
                found.wrong.append(str(error)[:500])
                break
            found.seconds.append(clock() - began)
        group.remove()
    return found


@contextmanager
def node(reporter: Reporter) -> Iterator[tuple[Cluster, Kubectl, str]]:
    """Yield a cluster with the release, its kubectl, and an image with Python."""
    name = f"groups-{secrets.token_hex(3)}"
    with running(Cluster(name, profile="node", reporter=reporter)) as cluster:
        kubectl = Kubectl(program=cluster.binary("kubectl"), kubeconfig=cluster.kubeconfig)
        release = Release(cluster, root=ROOT, reporter=reporter, namespace=NAMESPACE)
        images = release.build_images(SERVICES)
        kubectl("create", "namespace", NAMESPACE)
        release.install(images, arguments=[])
        probe = job("probe", namespace="default", tasks=[task("learner", image="a", program="")])
        wait_until(lambda: is_admitted(kubectl, probe))
        yield cluster, kubectl, images["server"].reference


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; return the exit code of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="sockets", help="one or more, with commas")
    parser.add_argument("--times", type=int, default=10, help="of each event")
    parser.add_argument("--events", default=",".join(EVENTS), help="of these, with commas")
    options = parser.parse_args(arguments)
    events = options.events.split(",")
    if unknown := sorted(set(events) - set(EVENTS)):
        parser.error(f"no such event: {', '.join(unknown)}; there are {', '.join(EVENTS)}")
    names = options.program.split(",")
    if unknown := sorted(set(names) - set(PROGRAMS)):
        parser.error(f"no such program: {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    halves = 0
    with node(Reporter(sys.stderr)) as (cluster, kubectl, python_image):
        for name in names:
            program = PROGRAMS[name]
            image = load_image(cluster, program.example) if program.example else python_image
            with fresh_namespace(kubectl) as namespace, members_only(kubectl, namespace):
                group = WholeGroup(
                    kubectl,
                    namespace,
                    image=image,
                    program=program.source,
                    framework=program.framework,
                    command=program.command,
                    launcher=program.launcher,
                )
                for event in events:
                    found = tally(group, event, options.times, clock=time.monotonic)
                    halves += found.halves
                    print(json.dumps({"program": name, **found.line()}), flush=True)
    return 1 if halves else 0


if __name__ == "__main__":
    sys.exit(main())
