"""What the cluster's scheduler costs a job that the allocator has placed.

    python -m tools.benchmarks.allocator.binding

Jobs of four pods on a fake node whose kubelet has a pod Running as soon as it is bound, first one
after the other, then all at once, with each binding in turn. Prints the table of
docs/explanation/allocation.md and keeps JSON in out/bench/binding.json.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from itertools import chain
from typing import TypedDict

from di_kube.resources import DIJOBS
from di_operator.builders.pinning import Binding
from tools.benchmarks import samples
from tools.benchmarks.follower import Seen
from tools.benchmarks.processes import ROOT
from tools.benchmarks.samples import Spread
from tools.benchmarks.session import DEADLINE, Session, session
from tools.benchmarks.testbed import OPERATOR, Testbed, control_plane
from tools.benchmarks.workloads import job

OUT = ROOT / "out/bench"
REPLICAS, JOBS, ROUNDS = 4, 25, 2
_RUN_FOR = 0.1


class BindingResult(TypedDict):
    """From a pod's creation to its readiness, and from that of a job's first pod to that of all."""

    binding: str
    way: str
    jobs: int
    pod_ms: Spread
    job_ms: Spread


async def run_jobs(trial: Session, names: list[str]) -> list[Seen]:
    """Jobs that are placed, all at once, to their end."""
    for name in names:
        body = job(name, REPLICAS, run_for=_RUN_FOR)
        body["spec"]["preemptible"] = True
        del body["spec"]["tasks"][0]["template"]["spec"]["nodeName"]
        await trial.testbed.client.create(DIJOBS, body, trial.namespace)
    await asyncio.wait_for(trial.until_finished(*names), DEADLINE)
    return [trial.follower.seen(name) for name in names]


async def measure(testbed: Testbed, binding: Binding) -> tuple[list[Seen], list[Seen]]:
    """Jobs one after the other, and jobs all at once."""
    settings = {"DI_OPERATOR_POLICY": "fit", "DI_OPERATOR_BINDING": binding.value}
    async with session(testbed, OPERATOR, replicas=REPLICAS, settings=settings) as trial:
        alone = [await run_jobs(trial, [f"alone-{number:06d}"]) for number in range(JOBS)]
        together = await run_jobs(trial, [f"burst-{number:06d}" for number in range(JOBS)])
    return list(chain.from_iterable(alone)), together


def result(binding: Binding, way: str, rounds: list[list[Seen]]) -> BindingResult:
    """What was seen of all rounds."""
    every = list(chain.from_iterable(rounds))
    delays = [seen.ready[pod] - made for seen in every for pod, made in seen.pods.items()]
    spans = [max(seen.ready.values()) - min(seen.pods.values()) for seen in every]
    return {
        "binding": binding.value,
        "way": way,
        "jobs": len(every),
        "pod_ms": samples.spread(delays),
        "job_ms": samples.spread(spans),
    }


def table(results: Iterable[BindingResult]) -> str:
    """Return the table in docs/explanation/allocation.md."""
    rows = [
        f"| `{one['binding']}` | {one['way']} | {one['pod_ms']['p50']:.0f}"
        f" | {one['pod_ms']['p99']:.0f} | {one['job_ms']['p50']:.0f}"
        f" | {one['job_ms']['p99']:.0f} |"
        for one in results
    ]
    head = "| binding | jobs | a pod, p50 | p99 | its job, p50 | p99 |\n|---|---|---|---|---|---|"
    return "\n".join([head, *rows])


async def main() -> None:
    """Each binding in turn, again and again: what drifts meanwhile hits both."""
    seen: dict[tuple[Binding, str], list[list[Seen]]] = {}
    async with control_plane(OUT / "logs/binding") as testbed, testbed.kubelet():
        for _ in range(ROUNDS):
            for binding in Binding:
                alone, together = await measure(testbed, binding)
                seen.setdefault((binding, "one by one"), []).append(alone)
                seen.setdefault((binding, f"{JOBS} at once"), []).append(together)
    results = [result(binding, way, rounds) for (binding, way), rounds in seen.items()]
    (OUT / "binding.json").write_text(json.dumps(results, indent=2) + "\n")
    print(table(results))


if __name__ == "__main__":
    asyncio.run(main())
