"""RayCluster and RayJob of KubeRay: the head and each group of workers is a task."""

from __future__ import annotations

from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.spec.failure import FailureAction
from di_api.spec.task import TaskType
from di_cli.convert.fields import Fields, Object, RefusedManifest
from di_cli.convert.pods import template_of
from di_cli.convert.run_policy import IGNORE_DISRUPTIONS

HEAD: Final = "head"
"""Name of the task, from which workers have the variable of its Service."""
_OPERATOR: Final = "ray.io/kuberay-operator"
_OVERWRITES: Final = "ray.io/overwrite-container-cmd"
_PORT: Final = 6379
_SHARED: Final = "/dev/shm"  # Ray's object store, larger than what a container has
_ALWAYS: Final = ("head", "block", "address")
"""Parameters of `ray start` that the role of a pod decides."""
_FLAGS: Final = ("no-monitor", "disable-usage-stats", "log-color", "no-redirect-output")
_START_HEAD: Final = 'exec ray start --head --block "$@"'
_START_WORKER: Final = 'exec ray start --address="$DI_HEAD_SERVICE" --block "$@"'
_RUN: Final = 'run=$1; shift; ray start --head "$@" && exec sh -c "$run"'
_SUBMITTER: Final = "there is no submitter: the head runs the entrypoint"
_OF_A_JOB: Final = {
    "jobId": "the program runs without Ray's job submission, which has such ids",
    "metadata": "the program runs without Ray's job submission, which has such data",
    "runtimeEnvYAML": "install it in the image, or give it to ray.init in the program",
    "submitterPodTemplate": _SUBMITTER,
    "submitterConfig": _SUBMITTER,
    "entrypointNumCpus": "the entrypoint has the resources of the head",
    "entrypointNumGpus": "the entrypoint has the resources of the head",
    "entrypointResources": "the entrypoint has the resources of the head",
    "shutdownAfterJobFinishes": "workers end with the job; see cleanPodPolicy",
    "deletionStrategy": "workers end with the job; see cleanPodPolicy",
    "preRunningDeadlineSeconds": "spec.pendingTimeoutSeconds ends a job that waits too long",
}


def raycluster_spec(spec: Fields) -> Object:
    """Return the spec of a DIJob for a RayCluster, which runs until it is deleted."""
    result: Object = {}
    _add_common(spec, result)
    return _add_cluster(spec, result, entrypoint=None)


def rayjob_spec(spec: Fields) -> Object:
    """Return the spec of a DIJob for a RayJob, whose head runs the entrypoint."""
    if "clusterSelector" in spec:
        raise RefusedManifest(
            spec.at("clusterSelector"),
            "a DIJob has pods of its own, and cannot use those of a cluster that exists",
            "give a rayClusterSpec",
        )
    mode = spec.text("submissionMode")
    entrypoint = spec.text("entrypoint")
    if mode == "InteractiveMode" or not entrypoint:
        raise RefusedManifest(
            spec.at("entrypoint"), "a DIJob runs one", "give the command, or convert a RayCluster"
        )
    if mode is not None:
        spec.remark("submissionMode", _SUBMITTER)
    # Of KubeRay's defaults this one differs.
    result: Object = {"backoffLimit": spec.whole("backoffLimit") or 0}
    for name, least in (("ttlSecondsAfterFinished", 0), ("activeDeadlineSeconds", 1)):
        if name in spec:
            result[name] = spec.whole(name, least)
    _add_common(spec, result)
    for name, why in _OF_A_JOB.items():
        spec.comment(name, why)
    cluster = spec.inner("rayClusterSpec")
    _add_common(cluster, {})
    result["successPolicy"] = {"tasks": [HEAD], "operator": "All", "gracePeriodSeconds": 1}
    result = _add_cluster(cluster, result, entrypoint=entrypoint)
    spec.rest()
    return result


def _add_common(spec: Fields, result: Object) -> None:
    """Add what a RayJob and a RayCluster have; in that of a RayJob it has no effect."""
    if "suspend" in spec:
        if spec.at("").endswith("rayClusterSpec"):
            spec.comment("suspend", "suspend of the RayJob suspends the DIJob")
        else:
            result["suspend"] = spec.take("suspend")
    manager = spec.text("managedBy")
    if manager == _OPERATOR or (manager and spec.at("").endswith("rayClusterSpec")):
        spec.remark("managedBy", "the operator of DIJobs runs the job")
    elif manager is not None:
        result["managedBy"] = manager


def _add_cluster(spec: Fields, result: Object, *, entrypoint: str | None) -> Object:
    scales = spec.take("enableInTreeAutoscaling")
    if scales is not None:
        why = "Ray's autoscaler is not started; di scale, REST and the allocator change replicas"
        spec.remark("enableInTreeAutoscaling", why)
    head = _head(spec, entrypoint)
    workers = [_workers(each, scales=bool(scales)) for each in spec.inners("workerGroupSpecs")]
    workers = [each for each in workers if each]
    rules: list[Object] = [
        {**IGNORE_DISRUPTIONS},
        {"tasks": [HEAD], "action": FailureAction.RESTART_JOB.value},
    ]
    if workers:
        names = [each["name"] for each in workers]
        rules.append({"tasks": names, "action": FailureAction.IGNORE.value})
    result["failurePolicy"] = {"rules": rules}
    result["tasks"] = [head, *workers]
    spec.comment("rayVersion", "the image has its version of Ray")
    spec.comment("headServiceAnnotations", "the Service of a task has no annotations")
    spec.comment("autoscalerOptions", "Ray's autoscaler is not started")
    spec.comment("gcsFaultToleranceOptions", "a head that fails starts the job again")
    spec.comment("upgradeStrategy", "a changed template restarts the pods of its task")
    spec.comment("authOptions", "set RAY_AUTH_MODE and its token as variables of the containers")
    spec.rest()
    return result


def _head(spec: Fields, entrypoint: str | None) -> Object:
    if "headGroupSpec" not in spec:
        raise RefusedManifest(spec.at("headGroupSpec"), "is missing", "give the head")
    fields = spec.inner("headGroupSpec")
    parameters = fields.inner("rayStartParams")
    port = str(parameters.take("port") or _PORT)
    if not port.isdecimal():
        raise RefusedManifest(parameters.at("port"), "must be a number", "correct the field")
    arguments = ["--port", port, *_arguments(parameters)]
    given = [] if entrypoint is None else [entrypoint]
    script = _START_HEAD if entrypoint is None else _RUN
    template = _template(fields, [script, "ray", *given, *arguments], entrypoint)
    container = template["spec"]["containers"][0]
    container.setdefault("readinessProbe", {"tcpSocket": {"port": int(port)}, "periodSeconds": 1})
    ports: list[Object] = [{"name": "gcs", "port": int(port), "targetPort": int(port)}]
    for each in map(mapping, items(container.get("ports"))):
        number, name = each.get("containerPort"), each.get("name")
        if name and number != int(port):
            ports.append({"name": name, "port": number, "targetPort": number})
    _rest_of_group(fields)
    fields.comment("serviceType", "the Service of a task is headless; see di port-forward")
    fields.comment("headService", "the Service of a task has the ports of its containers")
    fields.comment("enableIngress", "write an Ingress for the Service of the task")
    fields.rest()
    return {
        **{"type": TaskType.LEARNER.value, "name": HEAD},
        **{"service": {"ports": ports}, "template": template},
    }


def _workers(fields: Fields, *, scales: bool) -> Object:
    """Return the task of a group of workers; empty if it has no pods."""
    name = fields.text("groupName")
    count = fields.whole("replicas")
    least, most = fields.whole("minReplicas"), fields.whole("maxReplicas")
    replicas = (least or 0) if count is None else count
    task: Object = {"type": TaskType.COLLECTOR.value, "name": name, "replicas": replicas}
    for bound, value in (("minReplicas", least), ("maxReplicas", most)):
        if value is not None and scales:
            task[bound] = value
        elif value is not None:
            fields.remark(bound, "without autoscaling the group keeps its replicas")
    hosts = fields.whole("numOfHosts", 1)
    if hosts is not None:
        task["podsPerReplica"] = hosts
    arguments = _arguments(fields.inner("rayStartParams"))
    task["dependsOn"] = [HEAD]
    task["template"] = _template(fields, [_START_WORKER, "ray", *arguments])
    _rest_of_group(fields)
    fields.comment("idleTimeoutSeconds", "Ray's autoscaler is not started")
    fields.comment("scaleStrategy", "the operator chooses the pods that end")
    fields.comment("suspend", "a task is not suspended by itself, only the whole job is")
    fields.rest()
    if replicas:
        return task
    fields.remark("", "it has no pods")
    return {}


def _rest_of_group(fields: Fields) -> None:
    for name in ("resources", "labels"):
        fields.comment(name, "give it in rayStartParams")


def _arguments(parameters: Fields) -> list[str]:
    """Return the arguments of `ray start` for its parameters."""
    found: list[str] = []
    for name in parameters:
        if name in _ALWAYS:
            parameters.comment(name, "the task decides it")
            continue
        value = str(parameters.take(name))
        is_flag = name in _FLAGS or value == ""
        if is_flag and value.lower() == "false":
            parameters.remark(name, "it is off")
        else:
            found += [f"--{name}"] if is_flag else [f"--{name}", value]
            if is_flag and value:
                parameters.remark(name, "it is on")
    return found


def _template(fields: Fields, start: list[str], entrypoint: str | None = None) -> Object:
    """Return the template of pods whose first container starts Ray, and then the entrypoint."""
    place = fields.at("template")
    template = template_of(fields)
    pod = template["spec"]
    container = pod["containers"][0]
    annotations = mapping(mapping(template.get("metadata")).get("annotations"))
    if str(annotations.get(_OVERWRITES)).lower() == "true":
        if entrypoint is not None:
            raise RefusedManifest(
                f"{place}.metadata.annotations",
                f"with {_OVERWRITES} the head has a command of its own, in place of the entrypoint",
                "remove the annotation, or write the entrypoint into the command of a RayCluster",
            )
        fields.at_path(fields.at("rayStartParams")).remark(
            "", "the command of the container starts Ray with parameters of its own"
        )
    else:
        given = [name for name in ("command", "args") if container.get(name)]
        if given:
            raise RefusedManifest(
                f"{place}.spec.containers[0].{given[0]}",
                "KubeRay runs it before ray start, and a DIJob only has one command",
                f"do it in the image, in an init container or a postStart hook; with {_OVERWRITES} "
                "the command stays as it is",
            )
        container["command"], container["args"] = ["sh", "-c"], start
    mounts: list[Any] = items(container.get("volumeMounts"))
    if all(mapping(each).get("mountPath") != _SHARED for each in mounts):
        container["volumeMounts"] = [*mounts, {"name": "shared-mem", "mountPath": _SHARED}]
        memory = {"name": "shared-mem", "emptyDir": {"medium": "Memory"}}
        pod["volumes"] = [*items(pod.get("volumes")), memory]
    return template
