"""Sweeps on a node, with the checkpoints of all trials on one claim.

A population, in which copies of the best go on from its checkpoints, and early stopping.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from di_api.names import API_VERSION, LABEL_SWEEP, SWEEP_KIND
from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from tests.e2e.claims import claim_of
from tests.e2e.conftest import NAMESPACE
from tests.e2e.examples import load_image
from tests.e2e.jobs import task
from tests.e2e.kubectl import Kubectl
from tests.waiting import TRAINING_SECONDS, wait_until

STEPS = 60
PROGRAM = f"""
import json, os
import di_orchestrator as di
own = float(os.environ["P"])
with di.training(total_steps={STEPS}) as run:
    found = run.checkpoint.restore()
    state = json.loads(found.read_text()) if found else {{"step": 0, "score": 0.0, "began": own}}
    while state["step"] < {STEPS} and not run.stopping:
        with run.iteration(samples=1):
            run.leaving.wait(0.3)
        state = {{**state, "step": state["step"] + 1, "score": state["score"] + own}}
        run.save(lambda path: path.write_text(json.dumps(state)), step=state["step"])
        run.report(state["step"], score=state["score"])
    print(json.dumps(state), flush=True)
"""


RUNG, LAST = 20, 80
STOPPABLE = f"""
import os
import di_orchestrator as di
own, step = float(os.environ["P"]), 0
with di.training(total_steps={LAST}) as run:
    while step < {LAST} and not run.stopping:
        run.leaving.wait(0.3)
        step += 1
        run.report(step, score=own * step)
    run.save(lambda path: path.write_text(str(step)), step=step)
"""


class Sweep:
    """The sweep `tune` of a namespace."""

    def __init__(self, kubectl: Kubectl, namespace: str) -> None:
        self._kubectl, self._namespace = kubectl, namespace

    def create(self, learner: dict[str, Any], claim: str, **spec: Any) -> None:
        """Create it; `spec` has what differs."""
        learner["template"]["spec"]["terminationGracePeriodSeconds"] = 10
        # A folder of the node belongs to root.
        learner["template"]["spec"]["containers"][0]["securityContext"] = {"runAsUser": 0}
        self._kubectl.apply(
            {
                "apiVersion": API_VERSION,
                "kind": SWEEP_KIND,
                "metadata": {"name": "tune", "namespace": self._namespace},
                "spec": {
                    "objective": {"metric": "score"},
                    "maxTrials": 4,
                    "template": {
                        "spec": {
                            "backoffLimit": 0,
                            "checkpoint": {"persistentVolumeClaim": claim},
                            "tasks": [learner],
                        }
                    },
                    **spec,
                },
            }
        )

    def jobs(self) -> dict[str, Any]:
        """Return its trials by name."""
        selected = ("--selector", f"{LABEL_SWEEP}=tune", "--output", "json")
        found = json.loads(
            self._kubectl("get", "dijobs", "--namespace", self._namespace, *selected)
        )
        return {each["metadata"]["name"]: each for each in found["items"]}

    def status(self) -> dict[str, Any]:
        """Return its status."""
        found = self._kubectl.get("disweep", "tune", namespace=self._namespace)
        status: dict[str, Any] = found.get("status", {})
        return status

    def is_complete(self) -> bool:
        """Return whether it has ended."""
        conditions = self.status().get("conditions", ())
        return any((each["type"], each["status"]) == ("Complete", "True") for each in conditions)


@pytest.mark.extended
@pytest.mark.usefixtures("release", "shell")
@pytest.mark.proves("sweeps.md#population-based-training", "sweeps.md#in-a-cluster")
def test_copies_go_on_from_the_checkpoints_of_the_best_while_the_operator_is_killed(
    cluster: Cluster | CurrentCluster, kubectl: Kubectl, namespace: str, said: Callable[..., str]
) -> None:
    learner = task("learner", image=load_image(cluster, "cartpole"), program=PROGRAM)
    sweep = Sweep(kubectl, namespace)
    with claim_of(kubectl, namespace, "saved") as claim:
        sweep.create(
            learner,
            claim,
            parameters=[{"name": "p", "environment": "P", "uniform": {"min": 0, "max": 1}}],
            population={"size": 2, "interval": 15},
        )
        wait_until(lambda: "tune-1" in sweep.jobs(), what="the population")
        operators = ("--selector", "app.kubernetes.io/component=operator")
        now = ("--grace-period=0", "--force", "--wait=false")
        kubectl("--namespace", NAMESPACE, "delete", "pods", *operators, *now)
        wait_until(sweep.is_complete, TRAINING_SECONDS, what="the end of the sweep")
        trials = sweep.jobs()
        copies = [name for name in trials if name not in ("tune-0", "tune-1")]
        assert copies
        drawn = {name: _parameter(each) for name, each in trials.items()}
        for name in copies:
            assert trials[name]["status"]["phase"] == "Succeeded" or trials[name]["spec"]["suspend"]
        ended = [name for name in copies if trials[name]["status"]["phase"] == "Succeeded"]
        assert ended
        for name in ended:
            last = said("logs", name).splitlines()[-1]
            # The name of the pod is before it.
            state = json.loads(last[last.index("{") :])
            assert state["step"] == STEPS
            assert state["began"] in (drawn["tune-0"], drawn["tune-1"])
            assert state["began"] != drawn[name]
        assert sweep.status()["best"]["trial"] in said("sweep", "tune")


@pytest.mark.extended
@pytest.mark.usefixtures("release", "shell")
@pytest.mark.proves("sweeps.md#early-stopping")
def test_trials_that_are_behind_are_stopped_with_a_checkpoint(
    cluster: Cluster | CurrentCluster, kubectl: Kubectl, namespace: str, said: Callable[..., str]
) -> None:
    learner = task("learner", image=load_image(cluster, "cartpole"), program=STOPPABLE)
    sweep = Sweep(kubectl, namespace)
    with claim_of(kubectl, namespace, "saved") as claim:
        sweep.create(
            learner,
            claim,
            # The first one is the best, and the last one is behind all that are compared before it.
            parameters=[{"name": "p", "environment": "P", "values": [0.9, 0.1, 0.8, 0.2]}],
            sampler="Grid",
            parallelism=2,
            earlyStopping={"firstStep": RUNG, "reduction": 2},
        )
        wait_until(sweep.is_complete, TRAINING_SECONDS, what="the end of the sweep")
        trials = sweep.jobs()
        assert trials["tune-0"]["status"]["phase"] == "Succeeded"
        assert trials["tune-0"]["status"]["profilings"]["step"] == LAST
        behind = trials["tune-3"]
        rungs = json.loads(behind["metadata"]["annotations"]["diengine/rungs"])
        assert rungs["stopped"] == f"not among the best at step {RUNG}"
        assert behind["spec"]["suspend"] is True
        # It was asked to leave, and saved then.
        assert RUNG <= behind["status"]["profilings"]["checkpointStep"] < LAST
        pods = kubectl("get", "pods", "--namespace", namespace, "--output", "name")
        assert "tune-3" not in pods
        assert sweep.status()["best"]["trial"] == "tune-0"
        shown = next(line for line in said("sweep", "tune").splitlines() if "tune-3" in line)
        assert "Stopped" in shown


def _parameter(job: dict[str, Any]) -> float:
    return float(json.loads(job["metadata"]["annotations"]["diengine/parameters"])["p"])
