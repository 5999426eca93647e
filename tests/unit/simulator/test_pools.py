"""Simulations of nodes in pools that jobs select."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from di_simulator.application import Application, load_applications
from di_simulator.hardware import Group, make_nodes, parse_pools
from di_simulator.main import RECORDED, main
from di_simulator.results import Result
from di_simulator.simulation import Setting, run

HEADER = "name,time,application,num_replicas,batch_size\n"
JOBS = [f"cifar10-{number},{100 + 60 * number},cifar10,4,512\n" for number in range(4)]


@pytest.fixture(scope="module")
def applications() -> dict[str, Application]:
    return load_applications(RECORDED / "traces")


def simulate(
    folder: Path,
    applications: Mapping[str, Application],
    jobs: Sequence[str],
    groups: tuple[Group, ...],
    pools: Sequence[str] = (),
) -> Result:
    path = folder / "workload-pools.csv"
    path.write_text(HEADER + "".join(jobs))
    setting = Setting(workload=path, policy="goodput", groups=groups, pools=pools)
    return run(setting, applications, stopwatch=lambda: 0.0)


def times(result: Result) -> dict[str, float]:
    return {job.name: job.completion_time for job in result.jobs}


def test_nodes_of_a_pool_have_its_name_and_label() -> None:
    nodes = make_nodes(parse_pools("a:1x4,b:2x8"))

    assert {name: dict(node.labels) for name, node in nodes.items()} == {
        "a-0000": {"pool": "a"},
        "b-0000": {"pool": "b"},
        "b-0001": {"pool": "b"},
    }
    assert {node.kind for node in nodes.values()} == {""}


def test_jobs_of_two_pools_end_as_if_each_pool_were_alone(
    tmp_path: Path, applications: dict[str, Application]
) -> None:
    together = simulate(tmp_path, applications, JOBS, parse_pools("a:1x4,b:2x4"), ["a", "b"])
    alone = [
        simulate(tmp_path, applications, JOBS[at::2], (Group(nodes=nodes, gpus=4),))
        for at, nodes in ((0, 1), (1, 2))
    ]

    assert times(together) == times(alone[0]) | times(alone[1])


def test_an_idle_pool_makes_no_difference_to_jobs_of_another(
    tmp_path: Path, applications: dict[str, Application]
) -> None:
    beside = simulate(tmp_path, applications, JOBS, parse_pools("a:1x4,b:8x4"), ["a"])
    alone = simulate(tmp_path, applications, JOBS, (Group(nodes=1, gpus=4),))

    assert times(beside) == times(alone)


def test_pools_are_arguments_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "workload-pools.csv"
    path.write_text(HEADER + JOBS[0])

    assert main([str(path), "--pools", "a:1x4,b:1x4", "--job-pools", "b,any"]) == 0
    assert main([str(path), "--pools", "a:1x4", "--job-pools", "c"]) == 1
    assert "no node is in pool c" in capsys.readouterr().err
