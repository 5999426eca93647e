"""Stable-Baselines3 and RLlib learn in pods of a real node, as the examples under `di run` do.

Their packages take gigabytes as an image. So the pods mount them, and the Python that they were
installed for, from this machine.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from di_cluster.errors import CommandFailed
from examples.demo.manifests import ROOT
from tests.e2e.examples import job_of, wait_for_end
from tests.e2e.jobs import job, task
from tests.e2e.kubectl import Kubectl
from tests.waiting import TRAINING_SECONDS, wait_until
from tools.prepare.environments import RL_LIBRARIES

Object = dict[str, Any]
SB3 = re.compile(r"ep_rew_mean +\| ([\d.]+)")
BEGAN = re.compile(r"total_timesteps +\| (\d+)")
RLLIB = re.compile(r"step (\d+): mean return (\d+)")
LEARNED = 40
"""A mean return that is twice that of random actions."""


def with_libraries(template: Object, image: str, command: str, *, memory: str) -> Object:
    """Let the pods of a template run a command of the shell with the libraries."""
    spec = template["spec"]
    (container,) = spec["containers"]
    python = RL_LIBRARIES.python()
    # The base of its Python may be /usr, too.
    folders = dict.fromkeys(("/usr", sys.base_prefix, str(python.parent.parent), str(ROOT)))
    names = {path: f"of-this-machine-{number}" for number, path in enumerate(folders)}
    volumes = [{"name": name, "hostPath": {"path": path}} for path, name in names.items()]
    mounts = [{"name": name, "mountPath": path, "readOnly": True} for path, name in names.items()]
    spec["volumes"] = [*spec.get("volumes", []), *volumes]
    container |= {
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", command],
        "env": [
            {"name": "PATH", "value": f"{python.parent}:/usr/bin:/bin"},
            {"name": "PYTHONPATH", "value": f"{ROOT}/sdk/src"},
            {"name": "PYTHONUNBUFFERED", "value": "1"},
            {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
            {"name": "OMP_NUM_THREADS", "value": "1"},
            {"name": "HOME", "value": "/tmp"},
            {"name": "RAY_AUTH_MODE", "value": "disabled"},
            {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"},
        ],
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"memory": memory},
        },
        # The packages are below the folder of this machine's administrator.
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [*container.get("volumeMounts", []), *mounts],
    }
    return template


@pytest.fixture
def saved(namespace: str) -> Iterator[Path]:
    """A folder of the node for checkpoints."""
    folder = Path("/var/tmp") / namespace
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.usefixtures("release")
@pytest.mark.proves("sdk.md#loops-of-other-libraries/hooks-stable-baselines3-run")
@pytest.mark.timeout(2 * TRAINING_SECONDS)
def test_a_killed_program_of_stable_baselines_continues_on_a_node(
    kubectl: Kubectl, namespace: str, python_image: str, saved: Path
) -> None:
    learner = task("learner", image=python_image, program="")
    words = "--steps 20000 --save-every 2"
    command = f"python3 {ROOT}/examples/sb3/train.py {words} & echo $! > /tmp/pid; wait $!"
    with_libraries(learner["template"], python_image, command, memory="2Gi")
    kept = {"name": "saved", "hostPath": {"path": str(saved), "type": "DirectoryOrCreate"}}
    kubectl.apply(
        job(
            "sb3",
            namespace=namespace,
            tasks=[learner],
            volumes=[kept],
            checkpoint={"volume": "saved"},
        )
    )

    def reported() -> int:
        status = kubectl.get("dijob", "sb3", namespace=namespace)["status"]
        assert not status.get("restarts"), status
        return int((status.get("profilings") or {})["checkpointStep"])

    step = wait_until(reported, TRAINING_SECONDS, what="a checkpoint")
    # The end of the pod may take this command along.
    with suppress(CommandFailed):
        kubectl(
            *("--namespace", namespace, "exec", "sb3-learner-0", "--"),
            *("sh", "-c", "kill -9 $(cat /tmp/pid)"),
        )
    wait_for_end(kubectl, "sb3", namespace=namespace)
    status = kubectl.get("dijob", "sb3", namespace=namespace)["status"]
    said = kubectl.logs("sb3-learner-0", namespace=namespace)
    assert (status["phase"], status["restarts"]) == ("Succeeded", 1), said
    assert int(BEGAN.findall(said)[0]) > step > 0, said
    assert float(SB3.findall(said)[-1]) > LEARNED, said
    assert status["profilings"]["envSteps"] >= 20_000, status


@pytest.mark.usefixtures("release")
@pytest.mark.timeout(2 * TRAINING_SECONDS)
def test_a_program_of_rllib_learns_on_a_ray_cluster(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    manifest = job_of("ray", image=python_image, namespace=namespace)
    # A node of Ray that is not up after 30 seconds ends itself, on a busy machine often.
    manifest["spec"]["backoffLimit"] = 99
    head, worker = manifest["spec"]["tasks"]
    (start, _) = head["template"]["spec"]["containers"][0]["command"][2].split(" && ")
    train = f"python3 {ROOT}/examples/rllib/train.py --steps 4000"
    command = f"{start} && export RAY_ADDRESS=auto && exec {train}"
    with_libraries(head["template"], python_image, command, memory="3Gi")
    worker["replicas"] = 1
    join = worker["template"]["spec"]["containers"][0]["command"][2]
    with_libraries(worker["template"], python_image, join, memory="2Gi")
    kubectl.apply(manifest)
    wait_for_end(kubectl, "ray", namespace=namespace)
    said = kubectl.logs("ray-head-0", namespace=namespace)
    assert kubectl.phase("ray", namespace=namespace) == "Succeeded", said
    steps = [(int(step), int(found)) for step, found in RLLIB.findall(said)]
    assert steps, said
    assert steps[-1][0] >= 4000, said
    assert max(found for _, found in steps) > LEARNED, said
