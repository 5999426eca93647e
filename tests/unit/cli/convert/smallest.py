"""A small manifest of each kind that `di convert` takes, which ends by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

Object = dict[str, Any]
RAY: Final = """#!/bin/sh
# Stands for Ray: a head that listens, and workers that wait.
test "$2" = --head || exec sleep 3600
python3 -m http.server 6379 > /dev/null 2>&1 &
"""
RAY_CONFIG_MAP: Final = "ray"
"""ConfigMap with the program RAY, for the RayJob."""


def _pod(name: str, image: str, command: list[str]) -> Object:
    return {"spec": {"containers": [{"name": name, "image": image, "command": command}]}}


def pytorch_job(image: str, command: list[str]) -> Object:
    """A master and a worker."""
    role = {"template": _pod("pytorch", image, command), "restartPolicy": "Never"}
    specs = {"Master": role, "Worker": {**role, "replicas": 1}}
    return _object("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": specs})


def train_job(image: str, command: list[str]) -> Object:
    """Two nodes of a runtime of torch."""
    trainer = {"image": image, "command": command, "numNodes": 2}
    runtime = {"name": "torch-distributed"}
    spec = {"runtimeRef": runtime, "trainer": trainer}
    return _object("trainer.kubeflow.org/v1alpha1", "TrainJob", spec)


def ray_job(image: str, command: list[str]) -> Object:
    """A head and a worker; the entrypoint is the command, each word without spaces."""

    def group(name: str) -> Object:
        template = _pod(name, image, [])
        del template["spec"]["containers"][0]["command"]
        mount = {"name": "ray", "mountPath": "/usr/local/bin/ray", "subPath": "ray"}
        template["spec"]["containers"][0]["volumeMounts"] = [mount]
        source = {"name": RAY_CONFIG_MAP, "defaultMode": 0o755}
        template["spec"]["volumes"] = [{"name": "ray", "configMap": source}]
        return {"rayStartParams": {}, "template": template}

    workers = {"groupName": "workers", "replicas": 1, **group("ray-worker")}
    cluster = {"headGroupSpec": group("ray-head"), "workerGroupSpecs": [workers]}
    spec = {"entrypoint": " ".join(command), "rayClusterSpec": cluster}
    return _object("ray.io/v1", "RayJob", spec)


def volcano_job(image: str, command: list[str]) -> Object:
    """Two tasks, of which one ends the job."""
    tasks = [
        {"name": "learner", "replicas": 1, "template": _pod("learner", image, command)},
        {"name": "actor", "replicas": 1, "template": _pod("actor", image, command)},
    ]
    tasks[0]["policies"] = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    spec = {"minAvailable": 2, "schedulerName": "default-scheduler", "tasks": tasks}
    return _object("batch.volcano.sh/v1alpha1", "Job", spec)


def job_set(image: str, command: list[str]) -> Object:
    """Two replicated jobs, of which the second waits for the first."""
    names = ("learner", "actor")
    jobs: list[Object] = [
        {"name": name, "template": {"spec": {"template": _pod(name, image, command)}}}
        for name in names
    ]
    for each in jobs:
        each["template"]["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    jobs[1]["dependsOn"] = [{"name": "learner", "status": "Ready"}]
    return _object("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})


def earlier_dijob(image: str, command: list[str]) -> Object:
    """Two replicas of one template, as version 1.1 had them."""
    spec = {
        "minReplicas": 2,
        "maxReplicas": 2,
        "preemptible": False,
        "template": _pod("di-container", image, command),
    }
    return _object("diengine.opendilab.org/v2alpha1", "DIJob", spec)


def _object(version: str, kind: str, spec: Object) -> Object:
    metadata = {"name": kind.lower()}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


SMALLEST: Final[Mapping[str, Callable[[str, list[str]], Object]]] = {
    "PyTorchJob": pytorch_job,
    "TrainJob": train_job,
    "RayJob": ray_job,
    "Job": volcano_job,
    "JobSet": job_set,
    "DIJob": earlier_dijob,
}
"""By the kind; the other kinds have the same parts as one of these."""
