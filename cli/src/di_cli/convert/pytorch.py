"""PyTorchJob of Kubeflow's training-operator."""

from __future__ import annotations

from typing import Any, Final

from di_api.field_error import items, mapping
from di_cli.convert.fields import Fields, Object, RefusedManifest
from di_cli.convert.groups import MASTER, ROLES, group_spec
from di_cli.convert.pods import MASTER_PORT
from di_cli.convert.replica_types import JobKind

_KIND: Final = JobKind(
    kind="PyTorchJob",
    replicas="pytorchReplicaSpecs",
    types=ROLES,
    single=(MASTER,),
    framework="torch",
    container="pytorch",
    port="pytorchjob-port",
    restart_policy="OnFailure",
)
_GPUS: Final = ("nvidia.com/gpu", "amd.com/gpu")


def pytorch_spec(spec: Fields) -> Object:
    """Return the spec of a DIJob for a PyTorchJob."""
    elastic = spec.inner("elasticPolicy")
    alone = elastic.take("standalone")
    if alone:
        elastic.remark("standalone", "the members meet at the pod with index 0")
    elif alone is not None:
        elastic.remark("standalone", "false is what a process group does")
    bounds = {name: elastic.whole(name, 1) for name in ("minReplicas", "maxReplicas")}
    is_elastic = all(bounds.values())
    result = group_spec(spec, _KIND, elastic=is_elastic)
    (task,) = result["tasks"]
    if is_elastic:
        task.update(bounds)
        task["processGroup"]["elastic"] = True
        _check_bounds(spec, task)
    else:
        for name in (name for name, value in bounds.items() if value):
            elastic.remark(name, "an elastic group needs both minReplicas and maxReplicas")
    _add_processes(spec, elastic, task)
    _add_rendezvous(elastic, task)
    spec.rest()
    return result


def _check_bounds(spec: Fields, task: Object) -> None:
    least, count, most = task["minReplicas"], task["replicas"], task["maxReplicas"]
    if not least <= count <= most:
        raise RefusedManifest(
            spec.at("elasticPolicy"),
            f"{count} replicas are not between minReplicas, {least}, and maxReplicas, {most}",
            "change the replicas or the bounds",
        )


def _add_processes(spec: Fields, elastic: Fields, task: Object) -> None:
    """Add the processes of each pod, which are a number or one for each GPU."""
    older = elastic.whole("nProcPerNode", 1)
    given = spec.take("nprocPerNode")
    if given is not None and older is not None:
        elastic.remark("nProcPerNode", "spec.nprocPerNode precedes it")
    wanted: object = older if given is None else given
    if wanted is None:
        return
    if count := processes_of(spec, "nprocPerNode", wanted, task["template"]):
        task["processGroup"]["processesPerReplica"] = count


def processes_of(fields: Fields, name: str, wanted: object, template: Object) -> int:
    """Return the processes of each pod for a field's value; 0: it gives no number."""
    text = str(wanted)
    if text.isdecimal() and int(text) > 0:
        return int(text)
    if text not in ("auto", "gpu", "cpu"):
        raise RefusedManifest(
            fields.at(name), "must be auto, cpu, gpu or a number", "correct the field"
        )
    count = 0 if text == "cpu" else _gpus(template)
    fields.remark(
        name,
        f"it is {count}, the GPUs of a pod"
        if count
        else "processesPerReplica is a number, and the template requests no GPUs that give it",
    )
    return count


def _gpus(template: Object) -> int:
    main = mapping(items(template["spec"]["containers"])[0])
    resources = mapping(main.get("resources"))
    for each in ("limits", "requests"):
        for name in _GPUS:
            count: Any = str(mapping(resources.get(each)).get(name) or "")
            if count.isdecimal():
                return int(count)
    return 0


def _add_rendezvous(elastic: Fields, task: Object) -> None:
    backend = elastic.text("rdzvBackend")
    if backend == "c10d":
        elastic.remark("rdzvBackend", "c10d is what a process group uses")
    elif backend is not None:
        elastic.remark("rdzvBackend", "a process group uses c10d, whose store is in its first pod")
    port = elastic.whole("rdzvPort", 1)
    if port is not None:
        main = task["template"]["spec"]["containers"][0]
        ports = items(main.get("ports"))
        if any(mapping(each).get("name") == MASTER_PORT for each in ports):
            elastic.remark("rdzvPort", f"the port {MASTER_PORT} of the template precedes it")
        else:
            main["ports"] = [*ports, {"name": MASTER_PORT, "containerPort": port}]
    elastic.comment("rdzvHost", "it is the pod with index 0")
    elastic.comment("rdzvId", "a job has one rendezvous of its own")
    elastic.comment(
        "rdzvConf", "it is made of processGroup.deadlineSeconds and processGroup.lastCallSeconds"
    )
    elastic.comment("maxRestarts", "it is 10; only restarts after a lost member count")
    if "metrics" in elastic:
        task["scalable"] = "maxReplicas" in task
        elastic.comment(
            "metrics",
            f"write a HorizontalPodAutoscaler for the DIJobTask <job>-{task['type']}",
        )
    elastic.rest()
