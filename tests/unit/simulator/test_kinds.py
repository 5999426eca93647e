"""Simulations on several node types: step times by type, and who knows the types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from di_operator.allocator.model.job import JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo
from di_simulator.application import Application, load_applications
from di_simulator.cluster import Cluster
from di_simulator.hardware import Group, make_nodes, parse_groups
from di_simulator.job import RESTART_SECONDS, SimulatedJob
from di_simulator.main import RECORDED, find_tables, main
from di_simulator.results import Result
from di_simulator.simulation import Setting, run
from di_simulator.step_times import read_table

TABLES = RECORDED.parent / "made-kinds"
# How much faster computing is said to be on fast nodes (the README beside the tables).
FASTER = {
    "bert": 5.0,
    "cifar10": 2.0,
    "deepspeech2": 1.25,
    "imagenet": 3.0,
    "ncf": 1.0,
    "yolov3": 1.5,
}
CLUSTER = parse_groups("slow:3x4,fast:2x4")
WORKLOAD = "name,time,application,num_replicas,batch_size\n" + "".join(
    f"{name}-{number},{100 + 300 * number},{name},2,{batch}\n"
    for number, (name, batch) in enumerate(
        [("bert", 48), ("cifar10", 512), ("deepspeech2", 160), ("bert", 48), ("cifar10", 512)]
    )
)


@pytest.fixture(scope="module")
def applications() -> dict[str, Application]:
    return load_applications(RECORDED / "traces", TABLES)


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "workload-kinds.csv"
    path.write_text(WORKLOAD)
    return path


def simulate(
    workload: Path, applications: Mapping[str, Application], *, kinds_known: bool
) -> Result:
    setting = Setting(workload=workload, policy="goodput", groups=CLUSTER, kinds_known=kinds_known)
    return run(setting, applications, stopwatch=lambda: 0.0)


def test_groups_of_nodes_are_named_by_their_type() -> None:
    nodes = make_nodes(parse_groups("a:1x4,b-c:2x8"))

    assert list(nodes) == ["a-0000", "b-c-0000", "b-c-0001"]
    assert [node.kind for node in nodes.values()] == ["a", "b-c", "b-c"]
    assert list(make_nodes([Group(nodes=1, gpus=4)])) == ["node-0000"]


@pytest.mark.parametrize("text", ["", "a", "a:4", "a:4x", ":4x4", "a:1x1,", "a:-1x4"])
def test_invalid_groups_of_nodes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a group of nodes is given as KIND:NODESxGPUS"):
        parse_groups(text)


@pytest.mark.parametrize("name", sorted(FASTER))
@pytest.mark.parametrize("table", ["placements", "scalability"])
def test_the_made_tables_follow_their_readme(name: str, table: str) -> None:
    key = ("placement",) if table == "placements" else ("num_nodes", "num_replicas")
    recorded = {
        tuple(row[column] for column in (*key, "local_bsz")): row
        for row in read_table(RECORDED / "traces" / name / f"{table}.csv")
    }
    for kind, computing, syncing in (("slow", 1.0, 1.0), ("fast", FASTER[name], 2.0)):
        rows = read_table(TABLES / name / f"{table}-{kind}.csv")
        assert rows
        for row in rows:
            found = recorded[tuple(row[column] for column in (*key, "local_bsz"))]
            step, sync = float(found["step_time"]), float(found["sync_time"])
            expected = ((step - sync) / computing + sync / syncing, sync / syncing)
            assert (float(row["step_time"]), float(row["sync_time"])) == pytest.approx(
                expected, rel=1e-5
            )


def test_replicas_wait_for_the_slowest_node_type(applications: Mapping[str, Application]) -> None:
    bert = applications["bert"]
    slow, fast = (bert.step((2, 2), 8, {kind}) for kind in ("slow", "fast"))

    assert fast < slow
    assert bert.step((2, 2), 8, {"slow", "fast"}) == slow


def test_batch_limits_are_those_of_the_smallest_node_type(
    applications: Mapping[str, Application],
) -> None:
    times = applications["bert"].times["slow"]
    by_kind = {"small": replace(times, local_max=8), "large": replace(times, local_max=32)}
    bert = Application.load(RECORDED / "traces" / "bert", by_kind)

    assert bert.limits.local_max == 8
    assert bert.limits_on({"large"}).local_max == 32
    assert bert.limits_on({"large", "small"}).local_max == 8


def test_the_nearest_recorded_placement_counts_beyond_the_tables(
    applications: Mapping[str, Application],
) -> None:
    bert = applications["bert"]

    # No node with more than four replicas was recorded, and no more than 16 nodes.
    assert bert.step((8, 8), 8, {"slow"}) == bert.step((4, 4, 4, 4), 8, {"slow"})
    assert bert.step((4,) * 20, 8, {"slow"}) == bert.step((4,) * 16, 8, {"slow"})


def test_a_job_that_knows_node_types_measures_each(
    applications: Mapping[str, Application],
) -> None:
    def models(*, knows_kinds: bool) -> dict[str, float]:
        job = SimulatedJob(
            name="a",
            application=applications["bert"],
            submitted=0.0,
            replicas=1,
            batch=None,
            knows_kinds=knows_kinds,
        )
        for kind in ("slow", "fast"):
            job.place((1,), {kind})
            job.run(RESTART_SECONDS + 60)
        return {kind: model.perf.alpha_c for kind, model in job.models.items()}

    assert set(models(knows_kinds=False)) == {""}
    told = models(knows_kinds=True)
    assert told["slow"] > told["fast"]


@pytest.mark.parametrize(("knows_kinds", "largest"), [(True, 12), (False, 8)])
def test_a_job_without_node_types_uses_the_smallest_batch_limit(
    applications: Mapping[str, Application], knows_kinds: bool, largest: int
) -> None:
    times = applications["bert"].times["slow"]
    by_kind = {"small": replace(times, local_max=8), "large": times}
    job = SimulatedJob(
        name="a",
        application=Application.load(RECORDED / "traces" / "bert", by_kind),
        submitted=0.0,
        replicas=1,
        batch=None,
        knows_kinds=knows_kinds,
    )
    job.place((1,), {"large"})
    job.run(RESTART_SECONDS + 60)

    (model,) = job.models.values()
    assert model.limits.local_max == largest


class Watching:
    """Puts all on the first node, and notes what it was told."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.measured: set[str] = set()

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> NodeList:
        return NodeList()

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, NodeList],
    ) -> dict[str, NodeList]:
        self.kinds |= {node.kind for node in nodes.values()}
        self.measured |= {kind for job in jobs.values() for kind in job.by_kind}
        return {key: NodeList((("learner", (next(iter(nodes)),)),)) for key in list(jobs)[:1]}


@pytest.mark.parametrize("known", [True, False])
def test_hidden_node_types_reach_neither_policy_nor_reports(
    applications: Mapping[str, Application], known: bool
) -> None:
    policy = Watching()
    job = SimulatedJob(
        name="a",
        application=applications["bert"],
        submitted=0.0,
        replicas=1,
        batch=None,
        knows_kinds=known,
    )
    cluster = Cluster(
        policy=policy,
        jobs=[job],
        nodes=make_nodes(CLUSTER),
        stopwatch=lambda: 0.0,
        kinds_known=known,
    )
    for _ in range(4):
        cluster.step()

    assert policy.kinds == ({"slow", "fast"} if known else {""})
    assert policy.measured == ({"slow"} if known else set())
    # What is hidden is true all the same.
    assert cluster.nodes["slow-0000"].kind == "slow"


def test_known_node_types_shorten_jobs_and_are_never_mixed(
    workload: Path, applications: Mapping[str, Application]
) -> None:
    told, hidden = (simulate(workload, applications, kinds_known=known) for known in (True, False))

    assert told.summary.average < 0.9 * hidden.summary.average
    assert told == simulate(workload, applications, kinds_known=True)
    for _, tenants in told.timeline:
        places: dict[str, set[str]] = {}
        for node, names in tenants.items():
            for name in names:
                places.setdefault(name, set()).add(node.partition("-")[0])
        assert all(len(kinds) == 1 for kinds in places.values())


def test_the_command_accepts_several_node_types(
    workload: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--tables", "made-kinds", "--cluster", "slow:3x4,fast:1x8", "--plot"]
    policies = ["--policy", "goodput", "--policy", "tiresias"]
    code = main([str(workload), *options, *policies, "--output", str(tmp_path / "out")])

    assert code == 0
    assert "tiresias" in capsys.readouterr().out
    assert len(list((tmp_path / "out").glob("*.png"))) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tables", "nowhere"], "no folder nowhere, here or in"),
        (["--cluster", "a"], "'a': a group of nodes is given as"),
        (["--cluster", "slow:1x4"], "nothing is recorded of bert on nodes of kind slow"),
        (["--tables", "made-kinds"], "nothing is recorded of bert on nodes without a kind"),
        (["--tables", "pollux-osdi21"], "no placements-<kind>.csv in"),
        (
            ["--tables", "made-kinds", "--cluster", "slow:1x4,best:1x4"],
            "nothing is recorded of bert on nodes of kind best",
        ),
    ],
)
def test_an_impossible_simulation_is_refused_with_the_reason(
    workload: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(workload), *options]) == 1
    assert message in " ".join(capsys.readouterr().err.split())


def test_tables_are_found_by_name() -> None:
    assert find_tables(None) is None
    assert find_tables("made-kinds") == TABLES
