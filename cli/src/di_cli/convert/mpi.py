"""MPIJob of Kubeflow's mpi-operator and training-operator: the launcher and its workers are one
process group, whose first pod runs the command of the launcher.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from di_api.field_error import child, items, mapping
from di_cli.convert.fields import Fields, Object, RefusedManifest
from di_cli.convert.groups import TASK, pods_of_roles
from di_cli.convert.replica_types import JobKind, ReplicaType, replica_types
from di_cli.convert.run_policy import add_run_policy, failure_policy

FRAMEWORK: Final = "mpi"
_LAUNCHER, _WORKER = _TYPES = ("Launcher", "Worker")
_KIND: Final = JobKind(
    kind="MPIJob",
    replicas="mpiReplicaSpecs",
    types=_TYPES,
    single=(_LAUNCHER,),
    framework=FRAMEWORK,
    container="",
    port="",
    restart_policy="OnFailure",
)
_MOUNTED: Final = "/etc/mpi/"
"""Directory in which the other operators mount their host file."""
_PROGRAM: Final = ("command", "args", "workingDir")
"""Fields of the launcher's container that say what runs."""


def mpi_spec(spec: Fields) -> Object:
    """Return the spec of a DIJob for an MPIJob of v2beta1."""
    spec.comment("sshAuthMountPath", "the operator of DIJobs gives the key to a script in each pod")
    spec.comment("launcherCreationPolicy", "mpirun starts when all pods can be reached")
    spec.comment("mpiImplementation", "the variables of OpenMPI, MPICH and Intel's MPI are all set")
    as_worker = spec.take("runLauncherAsWorker")
    if as_worker is False:
        spec.remark("runLauncherAsWorker", "false is the default")
    return _spec(spec, _KIND, as_worker=as_worker is True, is_batch_job=True)


def mpi_v1_spec(spec: Fields) -> Object:
    """Return the spec of a DIJob for an MPIJob of v1, which starts processes by `kubectl exec`."""
    kind = replace(_KIND, container=spec.text("mainContainer") or "", restart_policy="Never")
    clean = spec.choice("cleanPodPolicy", "", "All", "Running", "None")
    result = _spec(spec, kind, as_worker=False, is_batch_job=False)
    if clean and "cleanPodPolicy" not in result:
        result = {"cleanPodPolicy": clean, **result}
    elif clean is not None:
        spec.remark("cleanPodPolicy", "that of spec.runPolicy precedes it, or the default")
    spec.remark(_KIND.replicas, "the image needs the server and the client of OpenSSH")
    return result


def check_program(container: Object, place: str, *, at: str) -> None:
    """Refuse a main container that cannot run in a group of MPI.

    Args:
        container: of the manifest.
        place: path of the container.
        at: path of the field in which a command belongs.
    """
    if not container.get("command"):
        raise RefusedManifest(
            at,
            "a group of mpi needs the command, and only the image knows the one that runs here",
            "write the command of the image, such as mpirun, into the manifest",
        )
    for path, text in _texts({name: container.get(name) for name in (*_PROGRAM, "env")}, place):
        if _MOUNTED in text:
            raise RefusedManifest(
                path,
                f"the pods of a DIJob have no files in {_MOUNTED}",
                "remove the option: mpirun finds the hosts by variables",
            )


def _spec(spec: Fields, kind: JobKind, *, as_worker: bool, is_batch_job: bool) -> Object:
    roles = replica_types(spec, kind)
    launcher, worker = roles.get(_LAUNCHER), roles.get(_WORKER)
    if launcher is None:
        raise RefusedManifest(
            spec.at(kind.replicas), "has no Launcher, whose command the group runs", "give one"
        )
    check_program(_main(launcher), launcher.main, at=f"{launcher.main}.command")
    members = (
        [launcher] if worker is None else _members(spec, launcher, worker, as_worker=as_worker)
    )
    result: Object = {}
    pods = sum(each.replicas for each in members)
    add_run_policy(result, spec, [each.template for each in members], pods=pods)
    task = {"type": TASK, **pods_of_roles(members, framework=FRAMEWORK)}
    slots = spec.whole("slotsPerWorker", 1)
    if slots is not None:
        task["processGroup"]["processesPerReplica"] = slots
    policy = launcher.policy
    if is_batch_job and policy == "Never":
        policy = "OnFailure"
        spec.at_path(launcher.place).remark(
            "restartPolicy", "a Job restarts the launcher within its backoffLimit, also with Never"
        )
    if worker is not None and worker.policy != policy:
        spec.at_path(worker.place).remark("restartPolicy", f"the group has one, {policy}")
    result["failurePolicy"] = failure_policy({TASK: (policy, True)})
    result["tasks"] = [task]
    spec.rest()
    return result


def _members(
    spec: Fields, launcher: ReplicaType, worker: ReplicaType, *, as_worker: bool
) -> list[ReplicaType]:
    """Return the pods of the group: the workers, and the launcher if it is one of them."""
    own, theirs = _main(launcher), _main(worker)
    place = spec.at_path(worker.main)
    for each in ("command", "args"):
        if each in theirs and theirs[each] != own.get(each):
            place.remark(each, "the operator of DIJobs starts sshd in each pod")
    bare = {name: value for name, value in theirs.items() if name not in ("command", "args")}
    if as_worker:
        program: Object = {each: own[each] for each in ("command", "args") if each in own}
        name = theirs.get("name")
        if own.get("name") != name:
            spec.at_path(launcher.main).remark("name", f"it is that of the {_WORKER}")
        leader = _with_main(launcher, {**own, "name": name})
        return [leader, _with_main(worker, {**bare, **program})]
    spec.at_path(launcher.place).remark(
        "", "it has no pod of its own: the first Worker runs its command"
    )
    merged = _with_main(worker, _merged(own, bare, place))
    for path in _different(launcher, merged):
        spec.at_path(path).remark("", f"the pods have that of the {_WORKER}")
    return [merged]


def _merged(own: Object, theirs: Object, place: Fields) -> Object:
    """Return the workers' container with the launcher's program and variables."""
    program: Object = {name: own[name] for name in _PROGRAM if name in own}
    if theirs.get("workingDir") != program.get("workingDir", theirs.get("workingDir")):
        place.remark("workingDir", f"that of the {_LAUNCHER} precedes it")
    variables = items(own.get("env"))
    names = {mapping(each).get("name") for each in variables}
    others: list[Any] = []
    for index, each in enumerate(items(theirs.get("env"))):
        if mapping(each).get("name") not in names:
            others.append(each)
        elif each not in variables:
            variable = place.at_path(child(place.at("env"), index))
            variable.remark("", f"that of the {_LAUNCHER} precedes it")
    found: Object = {**theirs, **program}
    if variables or others:
        found["env"] = [*variables, *others]
    return found


def _different(launcher: ReplicaType, merged: ReplicaType) -> Iterator[str]:
    """Yield the paths of a launcher's template whose values the pods do not have."""
    main = {name: each for name, each in _main(launcher).items() if name != "env"}
    yield from _unequal(main, _main(merged), launcher.main)
    containers, _, first = launcher.main.rpartition("[")
    count = len(launcher.template["spec"]["containers"])
    yield from (f"{containers}[{index}]" for index in range(count) if f"{index}]" != first)
    place = f"{launcher.place}.template"
    yield from _unequal(_beside_containers(launcher), _beside_containers(merged), place)


def _unequal(before: Any, after: Any, place: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name, value in before.items():
            yield from _unequal(value, after.get(name), child(place, name))
    elif before != after and not (before == [] and after is None):
        yield place


def _beside_containers(role: ReplicaType) -> Object:
    spec = {name: each for name, each in role.template["spec"].items() if name != "containers"}
    return {**role.template, "spec": spec}


def _main(role: ReplicaType) -> Object:
    found: Object = role.template["spec"]["containers"][0]
    return found


def _with_main(role: ReplicaType, main: Object) -> ReplicaType:
    spec = role.template["spec"]
    containers = [main, *spec["containers"][1:]]
    return replace(role, template={**role.template, "spec": {**spec, "containers": containers}})


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of a value with their paths."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _texts(each, child(place, name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _texts(each, child(place, index))
