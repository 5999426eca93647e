"""Kill, suspend and resume trainings of torchrun on a real node, and count lost steps and restarts.

    python -m tools.faults.torch_training --times 10

Brings up a node with the release, and removes it at the end. A training of two processes runs, in
one pod and in two pods. So many times a process is killed, and then the job is suspended and
resumed. A kill may lose the steps since the last checkpoint, a suspension none, and only a kill may
count as a restart.

Prints a line for each number of pods, and returns 1 if something else happened.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Final, Protocol

from di_cluster.errors import CommandFailed
from di_cluster.reporter import Reporter
from tests.e2e.conftest import fresh_namespace
from tests.e2e.examples import load_image
from tests.e2e.torch_training import TorchTraining
from tools.faults.whole_groups import node

TURNS_OF_A_JOB: Final = 2
"""Each restart delays the next one, and a new job has none."""


class Training(Protocol):
    """What befalls a training; see `TorchTraining`."""

    def running(self) -> AbstractContextManager[None]: ...

    def wait_for_steps(self) -> int: ...

    def befall(self, turn: int) -> tuple[int, int]: ...


@dataclass(slots=True, kw_only=True)
class Tally:
    """The results of one number of pods.

    Attributes:
        kills, suspensions: how often each has happened.
        most_lost: steps by a kill.
        wrong: what should not have happened.
    """

    kills: int = 0
    suspensions: int = 0
    most_lost: int = 0
    wrong: list[str] = field(default_factory=list)


def tally(make: Callable[[str], Training], times: int) -> Tally:
    """Kill and suspend so many times, a new job after each two; return what came of it."""
    found = Tally()
    turns = 0
    while turns < times:
        training = make(f"torch-{turns}")
        with training.running():
            try:
                training.wait_for_steps()
                for turn in range(min(TURNS_OF_A_JOB, times - turns)):
                    lost, _ = training.befall(turn)
                    found.kills += 1
                    found.suspensions += 1
                    found.most_lost = max(found.most_lost, lost)
            except (AssertionError, CommandFailed) as error:
                found.wrong.append(str(error)[:500])
        turns += TURNS_OF_A_JOB
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; return the exit code of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="kills, and as many suspensions")
    parser.add_argument("--pods", default="1,2", help="numbers of pods, with commas")
    options = parser.parse_args(arguments)
    has_failed = False
    with node(Reporter(sys.stderr)) as (cluster, kubectl, _):
        image = load_image(cluster, "torch-ddp")
        for pods in map(int, options.pods.split(",")):
            with fresh_namespace(kubectl) as namespace:

                def make(name: str, pods: int = pods, namespace: str = namespace) -> TorchTraining:
                    return TorchTraining(kubectl, namespace, name=name, image=image, pods=pods)

                found = tally(make, options.times)
            has_failed = has_failed or bool(found.wrong)
            print(json.dumps({"pods": pods, **asdict(found)}), flush=True)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
