"""A population on a node: copies of the best go on from its checkpoints, on one claim."""

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


@pytest.mark.extended
@pytest.mark.usefixtures("release", "shell")
@pytest.mark.proves("sweeps.md#population-based-training", "sweeps.md#in-a-cluster")
def test_copies_go_on_from_the_checkpoints_of_the_best_while_the_operator_is_killed(
    cluster: Cluster | CurrentCluster, kubectl: Kubectl, namespace: str, said: Callable[..., str]
) -> None:
    learner = task("learner", image=load_image(cluster, "cartpole"), program=PROGRAM)
    learner["template"]["spec"]["terminationGracePeriodSeconds"] = 10
    # A folder of the node belongs to root.
    learner["template"]["spec"]["containers"][0]["securityContext"] = {"runAsUser": 0}

    def jobs() -> dict[str, Any]:
        selected = ("--selector", f"{LABEL_SWEEP}=tune", "--output", "json")
        found = json.loads(kubectl("get", "dijobs", "--namespace", namespace, *selected))
        return {each["metadata"]["name"]: each for each in found["items"]}

    def status() -> dict[str, Any]:
        found: dict[str, Any] = kubectl.get("disweep", "tune", namespace=namespace).get(
            "status", {}
        )
        return found

    def is_complete() -> bool:
        conditions = status().get("conditions", ())
        return any((each["type"], each["status"]) == ("Complete", "True") for each in conditions)

    with claim_of(kubectl, namespace, "saved") as claim:
        kubectl.apply(
            {
                "apiVersion": API_VERSION,
                "kind": SWEEP_KIND,
                "metadata": {"name": "tune", "namespace": namespace},
                "spec": {
                    "objective": {"metric": "score"},
                    "parameters": [
                        {"name": "p", "environment": "P", "uniform": {"min": 0, "max": 1}}
                    ],
                    "population": {"size": 2, "interval": 15},
                    "maxTrials": 4,
                    "template": {
                        "spec": {
                            "backoffLimit": 0,
                            "checkpoint": {"persistentVolumeClaim": claim},
                            "tasks": [learner],
                        }
                    },
                },
            }
        )
        wait_until(lambda: "tune-1" in jobs(), what="the population")
        operators = ("--selector", "app.kubernetes.io/component=operator")
        now = ("--grace-period=0", "--force", "--wait=false")
        kubectl("--namespace", NAMESPACE, "delete", "pods", *operators, *now)
        wait_until(is_complete, TRAINING_SECONDS, what="the end of the sweep")
        trials = jobs()
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
        assert status()["best"]["trial"] in said("sweep", "tune")


def _parameter(job: dict[str, Any]) -> float:
    return float(json.loads(job["metadata"]["annotations"]["diengine/parameters"])["p"])
