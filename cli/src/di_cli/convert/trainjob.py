"""TrainJob of Kubeflow Trainer: its nodes are one group. Its runtime is not in the manifest."""

from __future__ import annotations

from typing import Final

from di_cli.convert import mpi
from di_cli.convert.fields import Fields, Object, RefusedManifest
from di_cli.convert.groups import TASK
from di_cli.convert.pytorch import processes_of
from di_cli.convert.run_policy import failure_policy

_CONTROLLER: Final = "trainer.kubeflow.org/trainjob-controller"
_NODE: Final = "node"
"""Name of the container with the program, as in the runtimes."""
_FRAMEWORKS: Final = {
    **dict.fromkeys(("mpi", "deepspeed", "mlx"), mpi.FRAMEWORK),
    **{"torch": "torch", "jax": "jax"},
}
"""Frameworks of groups, by beginnings of words in the names of runtimes."""
_OF_PROCESSES: Final = ("torch", mpi.FRAMEWORK)
"""Frameworks whose pods can have several processes."""
_OF_A_CONTAINER: Final = ("image", "command", "args", "env")
_OVERRIDES: Final = "write it into the template of the task"


def trainjob_spec(spec: Fields) -> Object:
    """Return the spec of a DIJob for a TrainJob."""
    result: Object = {}
    framework = _framework(spec)
    if "suspend" in spec:
        result["suspend"] = spec.take("suspend")
    manager = spec.text("managedBy")
    if manager == _CONTROLLER:
        spec.remark("managedBy", "the operator of DIJobs runs the job")
    elif manager is not None:
        result["managedBy"] = manager
    if "initializer" in spec:
        raise RefusedManifest(
            spec.at("initializer"),
            "a DIJob has no step that downloads data before its pods",
            "download it in an init container or in the program, and remove the field",
        )
    trainer = spec.inner("trainer")
    nodes = trainer.whole("numNodes", 1) or 1
    task: Object = {"type": TASK, "replicas": nodes}
    template = _template(spec, trainer)
    processes = trainer.take("numProcPerNode")
    if framework:
        task["processGroup"] = {"framework": framework}
    if processes is not None and framework not in _OF_PROCESSES:
        trainer.remark(
            "numProcPerNode", "only a process group of torch or mpi has processes of a pod"
        )
    elif processes is not None:
        count = processes_of(trainer, "numProcPerNode", processes, template)
        task["processGroup"] |= {"processesPerReplica": count} if count else {}
    if framework == mpi.FRAMEWORK:
        (container,) = template["spec"]["containers"]
        mpi.check_program(container, trainer.path, at=trainer.at("command"))
    trainer.rest()
    task["template"] = template
    result["failurePolicy"] = failure_policy({TASK: ("OnFailure", True)})
    result["tasks"] = [task]
    for name in ("podTemplateOverrides", "podSpecOverrides"):
        spec.comment(name, _OVERRIDES)
    spec.rest()
    return result


def _framework(spec: Fields) -> str | None:
    """Return the framework of the group, which the name of the runtime tells."""
    runtime = spec.inner("runtimeRef")
    name = runtime.text("name") or ""
    runtime.rest("a DIJob has no runtimes")
    words = name.split("-")
    found = next(
        (
            framework
            for each, framework in _FRAMEWORKS.items()
            if any(w.startswith(each) for w in words)
        ),
        None,
    )
    group = f"its group is one of {found}" if found else "its name tells no framework of a group"
    runtime.remark("name", f"{group}; what else the runtime gives to pods is not in the manifest")
    return found


def _template(spec: Fields, trainer: Fields) -> Object:
    container: Object = {"name": _NODE}
    if "image" not in trainer:
        raise RefusedManifest(
            trainer.at("image"),
            "the image is in the runtime, which the manifest only names",
            "write it into the manifest; kubectl get clustertrainingruntimes -o yaml shows it",
        )
    for name in _OF_A_CONTAINER:
        if name in trainer:
            container[name] = trainer.take(name)
    if "resourcesPerNode" in trainer:
        container["resources"] = trainer.take("resourcesPerNode")
    metadata = {name: spec.take(name) for name in ("labels", "annotations") if name in spec}
    return {**({"metadata": metadata} if metadata else {}), "spec": {"containers": [container]}}
