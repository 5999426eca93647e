"""Many plans side by side on one API server, judged."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from di_cluster.cluster import Cluster
from di_kube.config import KubeConfig
from tests.integration.conftest import api_server_with_crd
from tests.integration.kueue.installation import kueue_api_server
from tests.waiting import wait_until
from tools.faults.footprint import complaints
from tools.faults.oracle import Baseline, differences, judge
from tools.faults.plan import Plan, Request
from tools.faults.run import Run, run
from tools.faults.scene import Scene, scene
from tools.faults.testbed import prepared
from tools.faults.trace import Trace
from tools.lanes.progress import State, remaining

CLEAN_RUNS = 3
# Runs mostly wait: for pods, for pauses, for quiet.
LANES = 10
_RUNS = "runs"
_CONTROLLERS = "kube-controller-manager"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A run and what was wrong with it."""

    run: Run
    wrong: tuple[str, ...]

    @property
    def was_met(self) -> bool:
        """Whether every fault of the plan happened."""
        return len(self.run.met) >= len(self.run.plan.faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    traces: Mapping[str, Trace]
    clean_writes: Mapping[str, frozenset[Request]]
    """By workload: what was written in any of its clean runs."""
    verdicts: tuple[Verdict, ...]


@dataclass(slots=True, kw_only=True)
class Count:
    """The runs of a session that have ended, of all of them.

    Attributes:
        plans: how many there are.
        clean: how many clean runs come before them.
        clock: seconds that only grow.
        on_change: called after each end.
    """

    plans: int
    clean: int
    clock: Callable[[], float] = time.monotonic
    on_change: Callable[[], None] = lambda: None
    bugs: int = 0
    """Plans that found something."""
    _clean_done: int = 0
    _plans_done: int = 0
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    @property
    def total(self) -> int:
        return self.clean + self.plans

    @property
    def done(self) -> int:
        return self._clean_done + self._plans_done

    def cleaned(self) -> None:
        """Count a clean run."""
        self._clean_done += 1
        self.on_change()

    def judged(self, *, found: bool) -> None:
        """Count a plan, and whether it found something."""
        self._plans_done += 1
        self.bugs += found
        self.on_change()

    def state(self) -> State:
        """How far the session is."""
        share = self.done / max(1, self.total)
        clean = f"{self._clean_done} of {self.clean} clean runs"
        plans = f"{self._plans_done} of {self.plans} plans, {self.bugs} found something"
        return State(
            share=share,
            text=plans if self._clean_done >= self.clean else clean,
            left=remaining(share, self.clock() - self._began),
        )


@contextmanager
def api_server(folder: Path) -> Iterator[KubeConfig]:
    """Bring up an API server with the CRD that keeps an audit log in ``folder``."""
    policy = folder / "audit-policy.json"
    folder.mkdir(parents=True, exist_ok=True)
    policy.write_text(json.dumps(_AUDIT_POLICY))
    audit = (f"--audit-policy-file={policy}", f"--audit-log-path={audit_log(folder)}")
    with api_server_with_crd("faults", *audit) as (cluster, config):
        renew_controllers(cluster)
        yield config


def renew_controllers(cluster: Cluster) -> None:
    """Have the garbage collector know what is served now: it looks for new resources twice a
    minute, and at its start."""
    pid = _pid_of_controllers(cluster)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    # `up` leaves alone what it still finds running.
    wait_until(lambda: _pid_of_controllers(cluster) is None)
    cluster.up()


@contextmanager
def api_server_with_kueue(folder: Path) -> Iterator[KubeConfig]:
    """Bring up an API server with the CRD and with Kueue beside it."""
    with kueue_api_server("faults-kueue", folder / "kueue") as server:
        renew_controllers(server.cluster)
        yield server.config


def _pid_of_controllers(cluster: Cluster) -> int | None:
    return next(one.pid for one in cluster.status() if one.name == _CONTROLLERS)


def audit_log(folder: Path) -> Path:
    """The file with one JSON line for each write."""
    return folder / "audit.log"


def carry_out(
    config: KubeConfig,
    folder: Path,
    plans: Iterable[Plan],
    *,
    lanes: int = LANES,
    on_clean: Callable[[], None] = lambda: None,
    on_verdict: Callable[[Verdict], None] = lambda _: None,
) -> Results:
    """Run clean runs of the plans' workloads, then the plans; each end is reported."""
    return asyncio.run(
        _carry_out(config, folder, tuple(plans), lanes, on_clean=on_clean, on_verdict=on_verdict)
    )


def workloads_of(plans: Iterable[Plan]) -> list[str]:
    """Return the workloads of plans; each has `CLEAN_RUNS` clean runs."""
    return list(dict.fromkeys(plan.workload for plan in plans))


async def _carry_out(
    config: KubeConfig,
    folder: Path,
    plans: tuple[Plan, ...],
    lanes: int,
    *,
    on_clean: Callable[[], None],
    on_verdict: Callable[[Verdict], None],
) -> Results:
    async with prepared(config, folder / _RUNS) as testbed:
        free_lanes = asyncio.Semaphore(lanes)
        # Beside the others: for most of their time one process is frozen and the other waits.
        frozen_lanes = asyncio.Semaphore(lanes)

        async def clean(workload: str) -> list[Run]:
            return await asyncio.gather(*(one(Plan(workload=workload)) for _ in range(CLEAN_RUNS)))

        async def one(plan: Plan) -> Run:
            async with free_lanes:
                found = await run(testbed, plan, lambda _: True)
            on_clean()
            return found

        workloads = workloads_of(plans)
        cleans = dict(zip(workloads, await asyncio.gather(*map(clean, workloads)), strict=True))
        baselines = {workload: Baseline.of(runs) for workload, runs in cleans.items()}

        async def judged(plan: Plan) -> Verdict:
            async with frozen_lanes if plan.is_frozen else free_lanes:
                baseline = baselines[plan.workload]
                done = await run(
                    testbed, plan, lambda found: not any(differences(found, baseline, plan))
                )
                verdict = Verdict(run=done, wrong=judge(done, baseline))
                on_verdict(verdict)
                return verdict

        verdicts = await asyncio.gather(*map(judged, plans))
        traces = {workload: Trace.of(runs) for workload, runs in cleans.items()}
        writes = {
            workload: frozenset(each for run in runs for each in run.requests if each.is_write)
            for workload, runs in cleans.items()
        }
        return Results(traces=traces, clean_writes=writes, verdicts=tuple(verdicts))


def play(
    config: KubeConfig,
    folder: Path,
    story: Callable[[Scene], Awaitable[None]],
    *,
    replicas: int = 1,
) -> None:
    """Play a story on a scene of its own.

    Raises:
        AssertionError: a log holds a traceback, or what the story raises.
    """

    async def main() -> None:
        async with (
            prepared(config, folder / _RUNS) as testbed,
            scene(testbed, replicas=replicas, title=story.__qualname__) as stage,
        ):
            await story(stage)
        assert not list(complaints(stage.logs))

    asyncio.run(main())


_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "Metadata"},
    ],
}
