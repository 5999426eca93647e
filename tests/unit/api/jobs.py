"""Jobs to start from; each call makes a new one, free to be broken."""

from __future__ import annotations

from typing import Any

Job = dict[str, Any]


def template(image: str = "busybox") -> Job:
    return {"spec": {"containers": [{"name": "di-container", "image": image}]}}


def task(kind: str = "learner", **fields: Any) -> Job:
    return {"type": kind, "template": template(), **fields}


def job(*tasks: Job, name: str = "cartpole", **spec: Any) -> Job:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"tasks": list(tasks) or [task()], **spec},
    }


def coordinated_job(name: str = "job", **spec: Any) -> Job:
    """A job with a coordinator and all its roles; `coordinated` in the spec is merged."""
    roles = {role: {"template": template()} for role in ("coordinator", "collector", "learner")}
    return {
        "metadata": {"name": name},
        "spec": {**spec, "coordinated": roles | spec.get("coordinated", {})},
    }


def with_template(spec: Job | None = None, **metadata: Any) -> Job:
    """A job of one task whose pod spec and template metadata are changed."""
    result = job()
    changed = result["spec"]["tasks"][0]["template"]
    changed["spec"] |= spec or {}
    changed["metadata"] = metadata
    return result


def of_spec(spec: object) -> Job:
    """A job with whatever spec is given."""
    return {"metadata": {"name": "cartpole", "namespace": "default"}, "spec": spec}


def leader(patch: object) -> Job:
    """A job of replicas of two pods, whose first is different."""
    return job(task(podsPerReplica=2, leaderTemplatePatch=patch))


_LIMITED = template()
_LIMITED["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/other"}]
_LIMITED["spec"]["containers"][0]["resources"] = {"limits": {"memory": "4Gi", "cpu": 1}}
ALMOST_ALL = job(
    task(
        template=_LIMITED,
        processGroup={"framework": "torch"},
        service={"ports": [{"name": "http", "port": 80}]},
        ports=[{"name": "rpc"}],
        nodeCheck={"command": ["check"]},
    ),
    task("collector"),
    successPolicy={"tasks": ["learner"]},
    failurePolicy={"rules": [{"tasks": ["learner"], "growMemory": {}}]},
    progressPolicy={"timeoutSeconds": 600, "action": "RestartTask", "tasks": ["learner"]},
    idlePolicy={"waitingShare": 80, "action": "Suspend"},
    checkpoint={"persistentVolumeClaim": "a"},
    artifacts=[{"name": "results", "path": "/results", "persistentVolumeClaim": "a"}],
    code={"configMap": "cartpole-code", "sha256": "0" * 64, "requirements": "requirements.txt"},
    scheduling={"topology": [{"tasks": ["learner"], "required": "example.com/rack"}]},
    volumes=[{"name": "data"}],
)
"""With a field of nearly every kind."""
