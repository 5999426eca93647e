"""Pods and Services of a coordinated job: the coordinator, and each replica that it requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from di_api import names
from di_api.coordinated import PORT_VARIABLES, address, port_of
from di_api.pods.main_container import main_container
from di_api.spec import Artifact, Code, Replica, Role, Template
from di_operator.builders.access import Access
from di_operator.builders.code import with_code
from di_operator.builders.companion import naming_companions
from di_operator.builders.containers import with_amounts, with_environment, with_volumes
from di_operator.builders.fitting import fitted
from di_operator.builders.kept_files import Checkpoints, with_artifacts
from di_operator.builders.metadata import job_labels, object_metadata, owner_reference
from di_operator.builders.pod import (
    attempt_note,
    with_cluster_dns,
    with_priority_class,
)

Object = Mapping[str, Any]
_LEARNERS = (Role.LEARNER, Role.DDP_LEARNER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFrame:
    """The facts that all pods of a coordinated job share."""

    job: Object
    volumes: tuple[Object, ...]
    priority_class_name: str | None
    """Priority class of the coordinator's pod; overrides its template."""
    priority_class: str | None = None
    """Priority class of all pods, unless a template or `priority_class_name` sets another."""
    server_url: str
    access: Access
    attempts: Mapping[str, int] = field(default_factory=dict)
    """How often each role was restarted as a whole."""
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    """Checkpoints of the learners."""
    artifacts: tuple[Artifact, ...] = ()
    """Directories of the pods that outlive them."""
    code: Code | None = None
    """Code that the pods unpack; None: their images have it."""
    keeps_last_words: bool = False
    """Whether the kubelet keeps the log tail of a container that fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One pod, with its process group if it is a ddp learner.

    ``group`` has the ddp learners of its aggregator by rank, itself included; empty for other pods.
    """

    replica: Replica
    template: Template
    group: Sequence[Replica] = ()

    @property
    def port(self) -> int:
        """Return the port that the pod listens on."""
        return port_of(self.template, self.replica.role)

    @property
    def is_master(self) -> bool:
        """Return whether the others of its group wait for this pod."""
        return bool(self.group) and self.group[0].name == self.replica.name

    @property
    def ports(self) -> dict[str, int]:
        """Return the pod's ports by name; a ddp learner has one for each GPU."""
        ports = {names.DI_PORT_NAME: self.port}
        if self.group:
            for gpu in range(1, self.replica.gpus):
                ports[f"{names.GPU_PORT_PREFIX}{gpu}"] = self.port + gpu
        if self.is_master:
            ports[names.MASTER_PORT_NAME] = names.MASTER_PORT
        return ports


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPodRecipe:
    """The pod of a coordinator or replica that is not built yet."""

    frame: ReplicaFrame
    member: Member
    memory: Mapping[str, str] = field(default_factory=dict)
    """Memory by container, in place of what the template and the coordinator request."""
    avoided: tuple[str, ...] = ()
    """Nodes that the pod is excluded from."""

    def build(self) -> dict[str, Any]:
        """Return the pod's body."""
        fit = fitted(
            replica_pod(self.frame, self.member),
            memory=self.memory,
            avoided=self.avoided,
            keeps_last_words=self.frame.keeps_last_words,
        )
        named = naming_companions(fit, self.frame.job)
        return with_code(with_artifacts(named, self.frame.artifacts), self.frame.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaServiceRecipe:
    """The Service of such a pod that is not built yet."""

    job: Object
    member: Member

    def build(self) -> dict[str, Any]:
        """Return the Service's body."""
        return replica_service(self.job, self.member)


def replica_pod(frame: ReplicaFrame, member: Member) -> dict[str, Any]:
    """Return the pod of a coordinator or of a replica.

    The user's template is kept except for our labels, the variables, volumes, mounts and ports that
    it does not define, and the resources that the coordinator requested. A coordinator is never
    restarted unless its template requests it: when it ends, the job ends.
    """
    replica, template = member.replica, member.template
    own: Object = template.get("metadata") or {}
    spec: Object = template.get("spec") or {}
    checkpoints = frame.checkpoints if replica.role in _LEARNERS else Checkpoints()
    env = {**dict(_environment(frame, member)), **checkpoints.environment()}
    mounts = [*frame.access.mounts(), *checkpoints.mounts()]
    containers = [with_environment(c, env, mounts) for c in spec.get("containers") or ()]
    main = main_container(containers)
    if main is not None:
        main["ports"] = _with_ports(main.get("ports") or (), member.ports)
        if resources := with_amounts(main.get("resources") or {}, replica.resources):
            main["resources"] = resources
    body: dict[str, Any] = {**spec, **checkpoints.grace(spec), "containers": containers}
    if init := spec.get("initContainers"):
        body["initContainers"] = [with_environment(c, env, mounts) for c in init]
    ours = [*frame.volumes, *frame.access.volumes(), *checkpoints.volumes()]
    if volumes := with_volumes(spec.get("volumes") or (), ours):
        body["volumes"] = volumes
    if replica.role is Role.COORDINATOR:
        body["restartPolicy"] = spec.get("restartPolicy") or "Never"
        if frame.priority_class_name:
            body["priorityClassName"] = frame.priority_class_name
    body = with_priority_class(with_cluster_dns(body), frame.priority_class)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": replica.name,
            "namespace": frame.job["metadata"]["namespace"],
            "labels": {**(own.get("labels") or {}), **_labels(frame.job, member)},
            "annotations": {
                **(own.get("annotations") or {}),
                **attempt_note(frame.attempts.get(replica.role.value, 0)),
            },
            "ownerReferences": [owner_reference(frame.job)],
        },
        "spec": body,
    }


def replica_service(job: Object, member: Member) -> dict[str, Any]:
    """Return the headless Service that makes ``<pod>.<namespace>`` resolve.

    Its address is published before the pod is ready, because the coordinator connects during the
    start.
    """
    labels = _labels(job, member)
    metadata = object_metadata(job, member.replica.name)
    selected = (names.LABEL_JOB, names.LABEL_OPERATOR, names.LABEL_POD_NAME)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**metadata, "labels": labels},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {key: labels[key] for key in selected},
            "ports": [
                {"name": name, "port": port, "protocol": "TCP", "targetPort": name}
                for name, port in member.ports.items()
            ],
        },
    }


def _labels(job: Object, member: Member) -> dict[str, str]:
    replica = member.replica
    labels = {
        **job_labels(job),
        names.LABEL_TASK_NAME: replica.role.value,
        names.LABEL_GROUP_NAME: names.GROUP,
        names.LABEL_DIJOB_NAME: job["metadata"]["name"],
        names.LABEL_CONTROLLER_NAME: names.OPERATOR_NAME,
        names.LABEL_REPLICA_TYPE: replica.role.value,
        names.LABEL_POD_NAME: replica.name,
    }
    if member.group:
        kind = names.DDP_MASTER if member.is_master else names.DDP_WORKER
        labels[names.LABEL_DDP_LEARNER_TYPE] = kind
    return labels


def _environment(frame: ReplicaFrame, member: Member) -> Iterator[tuple[str, str]]:
    namespace, replica = frame.job["metadata"]["namespace"], member.replica
    yield names.ENV_POD_NAMESPACE, namespace
    yield names.ENV_POD_NAME, replica.name
    yield names.ENV_COORDINATED_SERVER_URL, frame.server_url
    yield PORT_VARIABLES[replica.role], str(member.port)
    if replica.role is Role.COORDINATOR:
        yield names.ENV_COORDINATOR_URL, address(replica.name, namespace, member.port)
    if member.group:
        before = [each.name for each in member.group].index(replica.name)
        master = member.group[0].name
        yield names.ENV_WORLD_SIZE, str(sum(each.gpus for each in member.group))
        yield names.ENV_LOCAL_WORLD_SIZE, str(replica.gpus)
        yield names.ENV_START_RANK, str(sum(each.gpus for each in member.group[:before]))
        yield names.ENV_MASTER_ADDR, "localhost" if member.is_master else master
        yield names.ENV_MASTER_PORT, str(names.MASTER_PORT)
    yield from frame.access.environment().items()


def _with_ports(present: Sequence[Object], wanted: Mapping[str, int]) -> list[Object]:
    known = {port.get("name") for port in present}
    added = [
        {"name": name, "containerPort": port, "protocol": "TCP"}
        for name, port in wanted.items()
        if name not in known
    ]
    return [*present, *added]
