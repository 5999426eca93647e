"""Parts of a job that this machine does not support: refused or ignored. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from di_api.dns_names import is_dns_label
from di_api.field_error import items, mapping
from di_api.names import (
    CHECKPOINT_VOLUME,
    GPU_RESOURCE,
)
from di_api.spec.coordinated import Role
from di_api.spec.job import JobSpec
from di_api.spec.process_group import Framework
from di_api.spec.task import Task
from di_api.spec.task_service import Protocol
from di_local.addresses import MAX_NAMES
from di_local.api.paths import bad_path, bad_volume

Object = Mapping[str, Any]
_OF_CLUSTERS: Final = "runs in a cluster only"
_NOT_DONE: Final = ("livenessProbe", "startupProbe")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The input of refusals.

    Attributes:
        entrypoint: returns the command of an image; empty if unknown, None if the image has its
            own.
        is_command: returns whether a word can be started.
        is_directory: returns whether a path is a directory.
        given: names of volumes for which the user gives a directory.
        there: ConfigMaps and Secrets that the user gives, as (kind, name).
        in_containers: whether an engine runs the pods.
    """

    entrypoint: Callable[[str], Sequence[str] | None]
    is_command: Callable[[str], bool]
    is_directory: Callable[[str], bool]
    given: Collection[str]
    there: Collection[tuple[str, str]]
    in_containers: bool


def refusals(spec: JobSpec, machine: Machine) -> list[str]:
    """Return why a job cannot run here: path, reason and what to do; empty if it can."""
    found = list(_of_job(spec, machine))
    for number, task in enumerate(spec.tasks):
        path = f"spec.tasks[{number}]"
        ports = task.service.ports if task.service is not None else ()
        found += [
            f"{path}.service.ports[{place}].protocol: a Service of {port.protocol} {_OF_CLUSTERS}"
            for place, port in enumerate(ports)
            if port.protocol is not Protocol.TCP
        ]
        if machine.in_containers and _is_mpi(task):
            found.append(
                f"{path}.processGroup.framework: a group of mpi runs as processes here, not in "
                "containers; leave out --image and --containers, and install OpenMPI"
            )
        for template in _templates(task):
            found += _of_pod(mapping(template.get("spec")), f"{path}.template.spec", machine)
    for role, pods in _roles(spec):
        path = f"spec.coordinated.{role}.template.spec"
        found += _of_pod(mapping(pods.get("spec")), path, machine)
    names = sum(_names(task) for task in spec.tasks)
    if names > MAX_NAMES:
        found.append(
            f"spec.tasks: one machine has addresses for {MAX_NAMES} pods and Services, "
            f"not for {names}"
        )
    return list(dict.fromkeys(found))


def images(spec: JobSpec) -> list[str]:
    """Return the images that a job names, each once."""
    found = dict.fromkeys(
        str(mapping(container).get("image", ""))
        for pod in _pods(spec)
        for kind in ("initContainers", "containers")
        for container in items(pod.get(kind))
    )
    return [image for image in found if image]


def notices(spec: JobSpec) -> list[str]:
    """Return the parts of a job that are ignored here."""
    found = []
    if spec.preemptible:
        found.append("preemptible: no allocator here, the job runs like others")
    containers = [container for pod in _pods(spec) for container in items(pod.get("containers"))]
    if any(_asks_for_gpus(container) for container in containers):
        found.append(f"{GPU_RESOURCE}: not shared out here, every process sees all GPUs")
    found += [
        f"{probe}: not carried out here"
        for probe in _NOT_DONE
        if any(probe in container for container in containers)
    ]
    return found


def _of_job(spec: JobSpec, machine: Machine) -> Iterator[str]:
    if spec.companions:
        yield f"spec.companions: what a job brings along {_OF_CLUSTERS}"
    for number, volume in enumerate(map(mapping, spec.volumes)):
        yield from _of_volume(volume, f"spec.volumes[{number}]", machine)
    claim = spec.checkpoint.persistent_volume_claim if spec.checkpoint else None
    if claim is not None and CHECKPOINT_VOLUME not in machine.given:
        yield (
            "spec.checkpoint.persistentVolumeClaim: there are no claims here; "
            "give it a directory: --checkpoint DIRECTORY"
        )
    if spec.code is not None and spec.code.persistent_volume_claim is not None:
        yield (
            "spec.code.persistentVolumeClaim: there are no claims here; run the program or folder "
            "itself: di run PROGRAM"
        )
    for number, each in enumerate(spec.artifacts):
        if each.persistent_volume_claim is not None:
            yield (
                f"spec.artifacts[{number}].persistentVolumeClaim: there are no claims here; "
                "give it a directory: --artifacts DIRECTORY"
            )


def _is_mpi(task: Task) -> bool:
    return task.process_group is not None and task.process_group.framework is Framework.MPI


def _names(task: Task) -> int:
    """Return the number of addresses that a task can need."""
    pods = (task.max_replicas or task.replicas) * task.pods_per_replica
    return pods + (task.service is not None)


def _templates(task: Task) -> list[Object]:
    return [task.template, task.leader_template, *task.elastic_templates]


def _pods(spec: JobSpec) -> Iterator[Object]:
    """Yield the pod templates of a job."""
    for template in (
        *(template for task in spec.tasks for template in _templates(task)),
        *(template for _, template in _roles(spec)),
    ):
        yield mapping(template.get("spec"))


def _roles(spec: JobSpec) -> Iterator[tuple[str, Object]]:
    """Yield the templates of a job with a coordinator, by role."""
    if spec.coordinated is not None:
        yield Role.COORDINATOR, spec.coordinated.coordinator.template
        for role, pods in (
            (Role.COLLECTOR, spec.coordinated.collector),
            (Role.LEARNER, spec.coordinated.learner),
        ):
            if pods is not None:
                yield role, pods.template


def _of_pod(pod: Object, path: str, machine: Machine) -> Iterator[str]:
    for number, volume in enumerate(map(mapping, items(pod.get("volumes")))):
        yield from _of_volume(volume, f"{path}.volumes[{number}]", machine)
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(map(mapping, items(pod.get(kind)))):
            yield from _of_container(container, f"{path}.{kind}[{number}]", machine)


def _of_container(container: Object, path: str, machine: Machine) -> Iterator[str]:
    if not is_dns_label(container.get("name")):
        yield f"{path}.name: {container.get('name')!r} is no DNS label"
    command, image = items(container.get("command")), str(container.get("image", ""))
    words = command or machine.entrypoint(image)
    if words is None:
        if not image:
            yield f"{path}.image: missing; with --image IMAGE all containers run that one"
    elif not words:
        yield (
            f"{path}.command: missing, and nothing says what the image {image!r} runs: write a "
            "command there, pass --command, or name the image in pyproject.toml "
            "(docs/how-to/local.md)"
        )
    elif "$(" not in words[0] and not machine.is_command(words[0]):
        yield f"{path}: {words[0]!r} is no command on this machine; install it, or adapt PATH"
    if container.get("restartPolicy") is not None:
        yield f"{path}.restartPolicy: a sidecar {_OF_CLUSTERS}"
    if container.get("envFrom"):
        yield f"{path}.envFrom: only env is read here; name the variables there"
    for number, variable in enumerate(map(mapping, items(container.get("env")))):
        if mapping(variable.get("valueFrom")).get("resourceFieldRef"):
            yield f"{path}.env[{number}].valueFrom.resourceFieldRef: nothing is measured out here"
    for number, mount in enumerate(map(mapping, items(container.get("volumeMounts")))):
        if mount.get("subPathExpr"):
            yield f"{path}.volumeMounts[{number}].subPathExpr: only subPath is known here"
        if why := bad_path(mount.get("subPath")):
            yield f"{path}.volumeMounts[{number}].subPath: {mount['subPath']!r} {why}"


def _of_volume(volume: Object, path: str, machine: Machine) -> Iterator[str]:
    yield from bad_volume(volume, path)
    name = str(volume.get("name", ""))
    if name in machine.given:
        return
    sources = items(mapping(volume.get("projected")).get("sources")) or [volume]
    for source in map(mapping, sources):
        for kind in source:
            match kind:
                case "name" | "emptyDir" | "downwardAPI" | "serviceAccountToken" | "projected":
                    pass
                case "configMap" | "secret":
                    reference = mapping(source[kind])
                    wanted = str(reference.get("secretName") or reference.get("name", ""))
                    if (kind, wanted) not in machine.there and not reference.get("optional"):
                        yield (
                            f"{path}.{kind}: there is no {kind} {wanted!r} here; add it to the "
                            f"manifest, or give a directory: --volume {name}=DIRECTORY"
                        )
                case "hostPath":
                    place = str(mapping(source[kind]).get("path", ""))
                    if not machine.is_directory(place):
                        yield f"{path}.hostPath: {place!r} is no directory of this machine"
                case _:
                    yield (
                        f"{path}.{kind}: no such volumes here; give a directory of this machine: "
                        f"--volume {name}=DIRECTORY"
                    )


def _asks_for_gpus(container: Object) -> bool:
    resources = mapping(container.get("resources"))
    return any(GPU_RESOURCE in mapping(resources.get(kind)) for kind in ("limits", "requests"))
