"""Simulations: jobs that run as recorded, the same every time, under any policy."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo
from di_simulator.application import Application, load_applications
from di_simulator.cluster import TASK, Cluster
from di_simulator.conditions import Condition, told
from di_simulator.hardware import Group, make_nodes
from di_simulator.job import RESTART_SECONDS, SimulatedJob
from di_simulator.main import RECORDED, find_workloads, main
from di_simulator.plots import draw_comparison, draw_heat_map, draw_tenants
from di_simulator.results import Result
from di_simulator.simulation import Setting, run
from di_simulator.workload import make_jobs, read_workload
from tests.unit.allocator.worlds import elastic, model, task

HEADER = "name,time,application,num_replicas,batch_size\n"
SMALL = HEADER + "".join(
    f"{line}\n"
    for line in (
        "cifar10-0,107,cifar10,4,512",
        "ncf-1,135,ncf,1,32768",
        "deepspeech2-2,200,deepspeech2,2,160",
        "cifar10-3,4000,cifar10,8,2048",
    )
)


@pytest.fixture(scope="module")
def applications() -> dict[str, Application]:
    return load_applications(RECORDED / "traces")


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "workload-small.csv"
    path.write_text(SMALL)
    return path


@pytest.fixture
def simulate(workload: Path, applications: dict[str, Application]) -> Callable[..., Result]:
    def simulated(policy: str = "goodput", nodes: int = 4, **options: Any) -> Result:
        setting = Setting(
            workload=workload, policy=policy, groups=(Group(nodes=nodes, gpus=4),), **options
        )
        return run(setting, applications, stopwatch=lambda: 0.0)

    return simulated


def cifar(applications: Mapping[str, Application], **options: Any) -> SimulatedJob:
    defaults: dict[str, Any] = {"submitted": 0.0, "replicas": 1, "batch": 128}
    return SimulatedJob(name="a", application=applications["cifar10"], **defaults | options)


def test_a_job_runs_at_its_recorded_speed(applications: dict[str, Application]) -> None:
    job = cifar(applications)
    job.place((1,))
    job.run(RESTART_SECONDS)
    assert job.progress == 0
    job.run(4.0)

    step, _ = applications["cifar10"].step((1,), 128)
    assert job.progress == pytest.approx(4.0 / step)


def test_a_change_of_nodes_costs_thirty_seconds_and_counts(
    applications: dict[str, Application],
) -> None:
    job = cifar(applications, batch=None)
    job.place((2,))
    job.run(60.0)
    job.place((4,))
    before = job.progress
    job.run(RESTART_SECONDS)
    assert (job.progress, job.restarts) == (before, 1)
    job.run(30.0)
    assert job.progress > before
    assert job.attained == 60 * 2 + 60 * 4
    job.place(())
    before = job.progress
    job.run(600.0)
    assert (job.progress, job.restarts) == (before, 1)


def test_a_job_measures_its_own_speed(applications: dict[str, Application]) -> None:
    job = cifar(applications, batch=None)
    job.place((4,))
    models = []
    for seconds in (RESTART_SECONDS, 60.0):
        job.run(seconds)
        models.append(job.models)

    assert models[0] == {}
    assert set(models[1]) == {""}
    assert job.explored == 4


def test_a_job_that_is_alone_completes_when_its_epochs_are_done(
    applications: dict[str, Application],
) -> None:
    job = cifar(applications, batch=None)
    job.place((4,))
    for _ in range(200):
        job.run(60.0)

    assert job.epoch == 100
    assert job.remaining == 0
    assert 600 < (job.completed or 0) < 12_000


@pytest.mark.parametrize("policy", ["goodput", "fit", "binpack", "tiresias", "optimus"])
def test_every_policy_completes_every_job(simulate: Callable[..., Result], policy: str) -> None:
    result = simulate(policy)

    assert [job.name for job in result.jobs] == ["cifar10-0", "ncf-1", "deepspeech2-2", "cifar10-3"]
    assert all(job.completed > job.submitted for job in result.jobs)
    assert 0 < result.summary.utilisation <= 1
    for _, tenants in result.timeline:
        assert all(len(jobs) <= 4 for jobs in tenants.values())


def test_a_job_may_request_more_replicas_than_its_batch_allows(
    workload: Path, simulate: Callable[..., Result]
) -> None:
    # Four samples a replica at least: 512 of them are too few for 200 replicas.
    workload.write_text(HEADER + "cifar10-0,107,cifar10,200,512\n")

    (job,) = simulate("tiresias", nodes=64).jobs

    assert job.completed > job.submitted


def test_equal_arguments_give_equal_results(simulate: Callable[..., Result]) -> None:
    assert simulate() == simulate()


def test_arguments_of_a_policy_change_the_result(simulate: Callable[..., Result]) -> None:
    assert simulate(arguments={"growth": 1.5}).jobs != simulate().jobs


def test_sharing_by_progress_beats_fixed_sizes(simulate: Callable[..., Result]) -> None:
    assert simulate("goodput").summary.average < simulate("tiresias").summary.average


def test_tiresias_runs_jobs_at_their_requested_size(simulate: Callable[..., Result]) -> None:
    sizes: dict[str, set[int]] = {}
    for _, tenants in simulate("tiresias").timeline:
        held = [key for jobs in tenants.values() for key in jobs]
        for key in held:
            sizes.setdefault(key, set()).add(held.count(key))

    assert sizes == {"cifar10-0": {4}, "ncf-1": {1}, "deepspeech2-2": {2}, "cifar10-3": {8}}


def _told(condition: Condition) -> list[JobInfo]:
    """What the policy knows of six equal jobs that report everything."""
    job = replace(
        elastic("a", minimum=1, maximum=16, remaining=100.0, model=model()),
        tasks=(task(4, minimum=1, maximum=16, gpu=1),),
    )
    return [told(condition, number, job) for number in range(6)]


@pytest.mark.parametrize(
    ("condition", "silent", "rigid", "open_ended", "lying"),
    [
        (Condition.IDEAL, "", "", "", ""),
        (Condition.SILENT, "03", "", "03", ""),
        (Condition.RIGID, "", "03", "", ""),
        (Condition.OPEN_ENDED, "", "", "03", ""),
        (Condition.MIXED, "03", "14", "035", ""),
        (Condition.LYING, "", "", "", "03"),
    ],
)
def test_conditions_change_what_some_jobs_report(
    condition: Condition,
    silent: str,
    rigid: str,
    open_ended: str,
    lying: str,
) -> None:
    jobs = _told(condition)

    def numbers(holds: Callable[[JobInfo], bool]) -> str:
        return "".join(str(number) for number, job in enumerate(jobs) if holds(job))

    assert numbers(lambda job: job.model is None) == silent
    assert numbers(lambda job: job.tasks[0].minimum == job.tasks[0].replicas) == rigid
    assert numbers(lambda job: job.remaining is None) == open_ended
    assert numbers(lambda job: job.remaining == 10.0) == lying


def test_clinging_jobs_report_an_hour_of_restore_time() -> None:
    assert [job.restoring for job in _told(Condition.CLINGING)] == [3600.0, 0.0, 0.0] * 2


def test_silent_jobs_are_not_resized_every_minute(
    simulate: Callable[..., Result],
) -> None:
    result = simulate(condition=Condition.SILENT, remaining_known=True)

    assert [job.restarts <= 5 for job in result.jobs] == [True] * 4


def test_jobs_are_dealt_to_tenants_that_have_shares(
    workload: Path, simulate: Callable[..., Result], tmp_path: Path
) -> None:
    lines = [f"cifar10-{n},107,cifar10,16,512" for n in range(6)]
    workload.write_text(HEADER + "\n".join(lines) + "\n")
    tenants = ("a", "b", "b")
    alike = simulate(tenants=tenants)
    shared = simulate(tenants=tenants, arguments={"shares": {"a": 3}})

    names = ("a/cifar10-0", "b/cifar10-1", "b/cifar10-2", "a/cifar10-3", "b/cifar10-4")
    assert tuple(job.name for job in shared.jobs) == (*names, "b/cifar10-5")
    assert shared.by_tenant["a"] < alike.by_tenant["a"]
    assert shared.by_tenant["b"] > alike.by_tenant["b"]
    assert simulate().by_tenant == {}
    assert shared.capacity == 16
    assert shared.wanted[1].keys() == {"a", "b"}
    draw_tenants({"alike": alike, "shared": shared}, None, tmp_path / "tenants.png")
    assert (tmp_path / "tenants.png").read_bytes().startswith(b"\x89PNG")


class Refused:
    """Answers with a node that is not there."""

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> NodeList:
        return WAIT

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, NodeList],
    ) -> dict[str, NodeList]:
        return {key: NodeList(((TASK, ("nowhere",)),)) for key in jobs}


def test_an_impossible_answer_ends_the_simulation(
    workload: Path, applications: dict[str, Application]
) -> None:
    jobs = make_jobs(read_workload(workload), applications, adaptive=True)
    cluster = Cluster(
        policy=Refused(),
        jobs=jobs,
        nodes=make_nodes([Group(nodes=2, gpus=4)]),
        stopwatch=lambda: 0.0,
    )

    # The first job arrives in the second minute.
    cluster.step()
    with pytest.raises(ValueError, match="there is no node nowhere"):
        cluster.step()


def test_results_are_written_as_json_csv_and_png(
    simulate: Callable[..., Result], tmp_path: Path
) -> None:
    result = simulate()
    result.write(tmp_path)
    draw_heat_map(result, tmp_path / "map.png")
    draw_comparison([result.summary, simulate("fit").summary], tmp_path / "both.png")

    (written,) = tmp_path.glob("*.json")
    content = json.loads(written.read_text())
    assert content["summary"]["average"] == pytest.approx(result.summary.average)
    with written.with_suffix(".csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [float(row["completion_time"]) for row in rows] == [
        job.completion_time for job in result.jobs
    ]
    for name in ("map.png", "both.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.proves("allocation.md#the-simulator")
def test_the_command_prints_a_table_and_writes_files(
    workload: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(workload), "--nodes", "2", "--policy", 'goodput:{"growth": 2}', "--plot"]
    code = main([*arguments, "--policy", "fit", "--output", str(tmp_path / "out")])

    assert code == 0
    assert "goodput" in capsys.readouterr().out
    assert len(list((tmp_path / "out").glob("*.png"))) == 3


def test_the_command_prints_the_averages_of_tenants(
    workload: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = 'goodput:{"shares": {"team-a": 3}}'
    arguments = [str(workload), "--nodes", "2", "--policy", policy, "--tenants", "team-a,team-b"]
    assert main([*arguments, "--plot", "--output", str(tmp_path / "out")]) == 0

    said = capsys.readouterr().out
    (written,) = (tmp_path / "out").glob("*.json")
    tenants = json.loads(written.read_text())["tenants"]
    assert list(tenants) == ["team-a", "team-b"]
    for tenant, average in tenants.items():
        assert f"average of {tenant} {average:.0f} s" in said
    assert len(list((tmp_path / "out").glob("*-tenants.png"))) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "no workload nowhere"),
        (["--policy", "godput"], "did you mean goodput?"),
        (["--policy", "goodput:[]"], "are a JSON object"),
        (["--policy", "goodput:{"], "Expecting property name"),
        (["--nodes", "0"], "must be above 0"),
    ],
)
def test_an_impossible_simulation_is_refused_with_the_reason(
    workload: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = arguments if arguments == ["nowhere"] else [str(workload), *arguments]

    assert main(given) == 1
    assert message in " ".join(capsys.readouterr().err.split())


def test_recorded_workloads_are_found_by_name() -> None:
    assert [path.stem for path in find_workloads("workloads")] == [
        f"workload-{number}" for number in (1, 2, 3, 4)
    ]
    assert find_workloads("workloads-2.0/workload-1")[0].is_file()
