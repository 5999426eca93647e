"""Sweeps before a real API server: their trials, their end, and operators that are killed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from di_api.names import API_VERSION, KIND, LABEL_SWEEP
from di_kube.client import KubeClient
from di_kube.errors import Invalid
from di_kube.resources import DIJOBS, DISWEEPS, PODS, Resource
from tests.integration.operator_testbed import Object, Testbed, condition, task, with_testbed

pytestmark = pytest.mark.usefixtures("crd", "sweeps")

_KILLS = 100


def sweep(*tasks: Object, **spec: Any) -> Object:
    usual: Object = {
        "objective": {"metric": "score"},
        "sampler": "Grid",
        "parameters": [{"name": "p", "environment": "P", "int": {"min": 0, "max": 5}}],
        "template": {"spec": {"backoffLimit": 0, "tasks": list(tasks or [task()])}},
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "DISweep",
        "metadata": {"name": "tune"},
        "spec": {**usual, **spec},
    }


async def submit(testbed: Testbed, body: Object) -> Object:
    return await testbed.client.create(DISWEEPS, body, testbed.namespace)


async def status_of(testbed: Testbed) -> Object:
    found = await testbed.client.get(DISWEEPS, "tune", testbed.namespace)
    return found.get("status") or {}


async def trials(testbed: Testbed) -> dict[str, Object]:
    found, _ = await testbed.client.list(
        DIJOBS, testbed.namespace, label_selector=f"{LABEL_SWEEP}=tune"
    )
    return {each["metadata"]["name"]: each for each in found}


async def noted(testbed: Testbed, uids: dict[str, set[str]]) -> dict[str, Object]:
    """The trials, whose UIDs are added to those of their names."""
    found = await trials(testbed)
    for name, job in found.items():
        uids.setdefault(name, set()).add(job["metadata"]["uid"])
    return found


async def report(testbed: Testbed, name: str, **numbers: float) -> None:
    """Write what di-server would, for a program's report."""
    await testbed.client.patch(
        DIJOBS, name, {"status": {"profilings": numbers}}, testbed.namespace, subresource="status"
    )


async def runs(testbed: Testbed, name: str) -> None:
    """Wait until a trial exists and runs."""

    async def is_running() -> bool:
        job = (await trials(testbed)).get(name) or {}
        return (job.get("status") or {}).get("phase") == "Running"

    await testbed.until(is_running, f"{name} to run")


async def is_complete(testbed: Testbed) -> bool:
    conditions = (await status_of(testbed)).get("conditions") or ()
    return any((each["type"], each["status"]) == ("Complete", "True") for each in conditions)


@pytest.mark.proves("sweeps.md#in-a-cluster")
@with_testbed
async def test_a_sweep_runs_its_trials_and_shows_the_best(testbed: Testbed) -> None:
    async with testbed.operator(sweeps=True):
        await submit(testbed, sweep(task(run_for="0.2"), parallelism=3))
        await testbed.until(lambda: is_complete(testbed), "the sweep to complete")
        found = await status_of(testbed)
        assert (found["created"], found["succeeded"]) == (6, 6)
        assert condition(found, "Complete")["reason"] == "TrialsEnded"
        jobs = await trials(testbed)
        assert sorted(jobs) == [f"tune-{index}" for index in range(6)]
        (owner,) = jobs["tune-0"]["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("DISweep", "tune", True)
        assert json.loads(jobs["tune-3"]["metadata"]["annotations"]["diengine/parameters"]) == {
            "p": 3
        }


@pytest.mark.proves("sweeps.md#in-a-cluster")
@with_testbed
async def test_a_trial_that_is_behind_is_suspended_and_another_runs(testbed: Testbed) -> None:
    async with testbed.operator(sweeps=True):
        body = sweep(parallelism=2, earlyStopping={"firstStep": 10, "reduction": 2})
        await submit(testbed, body)
        for name in ("tune-0", "tune-1"):
            await runs(testbed, name)
        await report(testbed, "tune-0", step=10, score=5)

        async def is_judged() -> bool:
            annotations = (await testbed.job("tune-0"))["metadata"]["annotations"]
            return "diengine/rungs" in annotations

        await testbed.until(is_judged, "the first comparison")
        await report(testbed, "tune-1", step=12, score=4)
        await runs(testbed, "tune-2")
        stopped = await testbed.job("tune-1")
        assert stopped["spec"]["suspend"] is True
        assert json.loads(stopped["metadata"]["annotations"]["diengine/rungs"])["stopped"] == (
            "not among the best at step 10"
        )

        async def is_shown() -> bool:
            found = await status_of(testbed)
            return (found.get("stopped"), found.get("best", {}).get("trial")) == (1, "tune-0")

        await testbed.until(is_shown, "the best trial in the status")
        assert (await status_of(testbed))["best"] == {
            "trial": "tune-0",
            "value": 5,
            "parameters": {"p": "0"},
        }


@pytest.mark.proves("sweeps.md#population-based-training")
@with_testbed
async def test_the_worst_of_a_population_is_replaced_by_a_copy_of_the_best(
    testbed: Testbed,
) -> None:
    parameter = {"name": "p", "environment": "P", "uniform": {"min": 1, "max": 2}}
    learner = {**task("learner"), "type": "learner"}
    body = sweep(
        learner,
        sampler="Random",
        parameters=[parameter],
        population={"size": 2, "interval": 10},
    )
    body["spec"]["template"]["spec"]["checkpoint"] = {"persistentVolumeClaim": "saved"}
    async with testbed.operator(sweeps=True):
        uid = (await submit(testbed, body))["metadata"]["uid"]
        for name in ("tune-0", "tune-1"):
            await runs(testbed, name)
        await report(testbed, "tune-0", step=10, score=5, checkpointStep=10)
        await report(testbed, "tune-1", step=10, score=4, checkpointStep=10)
        await runs(testbed, "tune-3")
        assert (await testbed.job("tune-1"))["spec"]["suspend"] is True
        pod = await testbed.client.get(PODS, "tune-3-learner-0", testbed.namespace)
        (container,) = pod["spec"]["containers"]
        variables = {each["name"]: each.get("value") for each in container["env"]}
        assert variables["DI_RESTORE_FROM"] == f"/checkpoint/tune-0.{uid}"
        assert variables["DI_CHECKPOINT_DIR"] == f"/checkpoint/tune-3.{uid}"
        before = (await testbed.job("tune-0"))["metadata"]["annotations"]["diengine/parameters"]
        after = (await testbed.job("tune-3"))["metadata"]["annotations"]["diengine/parameters"]
        assert json.loads(after)["p"] != json.loads(before)["p"]


@pytest.mark.proves("sweeps.md#in-a-cluster")
@with_testbed
async def test_a_sweep_that_breaks_rules_shows_the_path_and_has_no_trials(
    testbed: Testbed,
) -> None:
    async with testbed.operator(sweeps=True):
        with pytest.raises(Invalid, match=r"spec\.parallelism"):
            await submit(testbed, sweep(parallelism=0))
        await submit(testbed, sweep(sampler="Random"))

        async def is_refused() -> bool:
            return "conditions" in await status_of(testbed)

        await testbed.until(is_refused, "the sweep to be refused")
        valid = condition(await status_of(testbed), "Valid")
        assert (valid["status"], valid["reason"]) == ("False", "InvalidSpec")
        assert valid["message"].startswith("spec.maxTrials: is required with sampler Random")
        assert not await trials(testbed)
        patch = {"spec": {"maxTrials": 2}}
        await testbed.client.patch(DISWEEPS, "tune", patch, testbed.namespace)
        await runs(testbed, "tune-1")


@with_testbed
async def test_a_job_of_another_owner_is_no_trial(testbed: Testbed) -> None:
    other = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "tune-1", "labels": {LABEL_SWEEP: "tune", "diengine/trial": "1"}},
        "spec": {"tasks": [task()]},
    }
    await testbed.submit(other)
    async with testbed.operator(sweeps=True):
        await submit(testbed, sweep())

        async def is_refused() -> bool:
            conditions = (await status_of(testbed)).get("conditions") or ()
            return any(each["type"] == "Refused" for each in conditions)

        await testbed.until(is_refused, "the name to be reported")
        message = condition(await status_of(testbed), "Refused")["message"]
        assert "trial tune-1: a DIJob of that name exists" in message
        assert (await status_of(testbed))["created"] == 1


@asynccontextmanager
async def killed_at(
    monkeypatch: pytest.MonkeyPatch, kill: Callable[[], object], rng: Random, spared: KubeClient
) -> AsyncIterator[None]:
    """Let each write of a trial or a sweep end the operator now and then, before or after it; those
    of the `spared` client do not.
    """
    create, patch = KubeClient.create, KubeClient.patch

    async def at_once(
        call: Any, self: KubeClient, resource: Resource, *given: Any, **more: Any
    ) -> Any:
        is_ours = resource in (DIJOBS, DISWEEPS) and self is not spared
        line = rng.randrange(5) if is_ours else -1
        if line == 0:
            kill()
            await asyncio.get_running_loop().create_future()
        answer = await call(self, resource, *given, **more)
        if line == 1:
            kill()
            await asyncio.get_running_loop().create_future()
        return answer

    async def creating(self: KubeClient, *given: Any, **more: Any) -> Any:
        return await at_once(create, self, *given, **more)

    async def patching(self: KubeClient, *given: Any, **more: Any) -> Any:
        return await at_once(patch, self, *given, **more)

    with monkeypatch.context() as context:
        context.setattr(KubeClient, "create", creating)
        context.setattr(KubeClient, "patch", patching)
        yield


@pytest.mark.extended
@pytest.mark.proves("sweeps.md#in-a-cluster")
@with_testbed
async def test_an_operator_killed_at_any_write_creates_no_trial_twice(
    testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, kills, uids = Random(1), 0, dict[str, set[str]]()
    parameter = {"name": "p", "environment": "P", "int": {"min": 0, "max": 999}}
    await submit(testbed, sweep(task(run_for="0.05"), parallelism=4, parameters=[parameter]))

    while kills < _KILLS:
        async with testbed.operator(sweeps=True, leader_elect=False) as operator:
            async with killed_at(monkeypatch, operator.task.cancel, rng, testbed.client):
                await asyncio.wait([operator.task])
            assert operator.task.cancelled()
            kills += 1
        await noted(testbed, uids)
    # Only those that were created by then have to end.
    patch = {"spec": {"maxTrials": len(uids)}}
    await testbed.client.patch(DISWEEPS, "tune", patch, testbed.namespace)
    async with testbed.operator(sweeps=True, leader_elect=False):
        await testbed.until(lambda: is_complete(testbed), "the sweep to complete")
    await noted(testbed, uids)
    found = await status_of(testbed)
    assert sorted(uids) == sorted(f"tune-{index}" for index in range(found["created"]))
    assert {name for name, each in uids.items() if len(each) > 1} == set()
    assert found["succeeded"] == found["created"]


@pytest.mark.extended
@pytest.mark.proves("sweeps.md#population-based-training")
@with_testbed
async def test_an_operator_killed_at_any_write_makes_no_copy_twice(
    testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_rng, score_rng, uids = Random(1), Random(2), dict[str, set[str]]()
    body = sweep(
        {**task("learner"), "type": "learner"},
        sampler="Random",
        parameters=[{"name": "p", "environment": "P", "uniform": {"min": 1, "max": 2}}],
        population={"size": 2, "interval": 10},
    )
    body["spec"]["template"]["spec"]["checkpoint"] = {"persistentVolumeClaim": "saved"}
    await submit(testbed, body)

    async def train() -> None:
        step = 0
        while True:
            step += 10
            for name, job in (await noted(testbed, uids)).items():
                is_running = (job.get("status") or {}).get("phase") == "Running"
                if is_running and not job["spec"].get("suspend"):
                    numbers = {"step": step, "checkpointStep": step, "score": score_rng.random()}
                    await report(testbed, name, **numbers)
            await asyncio.sleep(0.02)

    training = asyncio.create_task(train())
    for _ in range(_KILLS):
        async with testbed.operator(sweeps=True, leader_elect=False) as operator:
            async with killed_at(monkeypatch, operator.task.cancel, kill_rng, testbed.client):
                await asyncio.wait([operator.task, training], return_when=asyncio.FIRST_COMPLETED)
            assert operator.task.cancelled()
    training.cancel()
    jobs = await noted(testbed, uids)
    assert sorted(uids) == sorted(jobs)
    assert {name for name, each in uids.items() if len(each) > 1} == set()
    copies = [index for index in range(2, 2 + 2 * _KILLS) if f"tune-{index}" in jobs]
    assert len(copies) > 2
    for index in copies:
        assert jobs[f"tune-{index - 2}"]["spec"]["suspend"] is True
    assert len(copies) == len(jobs) - 2
