"""Pod bodies: the user's template, extended to a replica of the job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from di_api import names
from di_api.spec import Artifact, Code, Task, TaskType, Topology
from di_operator.builders.access import Access
from di_operator.builders.code import with_code
from di_operator.builders.companion import naming_companions
from di_operator.builders.containers import with_environment, with_volumes
from di_operator.builders.drain import grace_note, is_asked, with_drain
from di_operator.builders.fitting import fitted
from di_operator.builders.kept_files import Checkpoints, with_artifacts
from di_operator.builders.metadata import object_metadata
from di_operator.builders.mpi import mpi_environment, with_mpi
from di_operator.builders.node_check import check_container
from di_operator.builders.nodes import NodeLists, Source
from di_operator.builders.pinning import Binding, avoiding, placed
from di_operator.builders.pod_group import Gang, scheduled_by
from di_operator.builders.ports import JobPorts, with_ports
from di_operator.builders.process_group import group_environment
from di_operator.builders.provisioning import Provisioned, using
from di_operator.builders.task_service import service_labels
from di_operator.builders.topology import Domains, near, replica_label, topology_of

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFrame:
    """The facts that all pods of a job share which are created at one time."""

    job: Object
    replicas: Mapping[str, int]
    """Replica count by task."""
    tasks: tuple[Task, ...] = ()
    """All tasks of the job."""
    restarts: int = 0
    """Restarts of the job so far."""
    attempts: Mapping[str, int] = field(default_factory=dict)
    """How often each task was restarted as a whole."""
    replica_attempts: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """How often each replica of several pods was recreated, by task and replica index."""
    volumes: tuple[Object, ...]
    nodes: NodeLists
    by_file: bool
    """Whether the node lists come from the job's ConfigMap."""
    server_url: str
    access: Access
    binding: Binding = Binding.SCHEDULER
    """The component that binds the pods that have a node."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Node type by node, if there are several types."""
    priority_class: str | None = None
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    """Checkpoints of the learners."""
    artifacts: tuple[Artifact, ...] = ()
    """Directories of the pods that outlive them."""
    code: Code | None = None
    """Code that the pods unpack; None: their images have it."""
    avoided: Mapping[str, Iterable[str]] = field(default_factory=dict)
    """Nodes that the pods of a task are excluded from, by task."""
    checked: frozenset[str] = frozenset()
    """Tasks with at least one pod that has passed its node check."""
    keeps_last_words: bool = False
    """Whether the kubelet keeps the log tail of a container that fails."""
    grouped: frozenset[str] = frozenset()
    """Tasks whose pods get the members of their process group."""
    in_place: frozenset[str] = frozenset()
    """Tasks whose containers can be restarted inside their pods."""
    services: Mapping[str, str] = field(default_factory=dict)
    """Variables with the addresses of the tasks' Services."""
    ports: JobPorts = field(default_factory=JobPorts)
    gang: Gang | None = None
    """The PodGroup for gang scheduling; None: no gang."""
    provisioned: Provisioned | None = None
    """The ProvisioningRequest that reserved nodes for the pods that the job needs."""
    topology: tuple[Topology, ...] = ()
    """Which pods have to be near each other."""
    domains: Domains = field(default_factory=Domains)
    """The podSets for which Kueue chooses the topology domain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecipe:
    """The pod of one replica, or a standby pod, that is not built yet."""

    frame: PodFrame
    task: Task
    index: int
    """Local index of the replica; for a standby pod its number among the standby pods."""
    rank: int | None
    """Global rank; None for a standby pod."""
    node: str = ""
    memory: Mapping[str, str] = field(default_factory=dict)
    """Memory by container, in place of the template's."""
    avoided: tuple[str, ...] = ()
    """Nodes that the pod is excluded from."""

    def build(self) -> dict[str, Any]:
        """Return the pod's body."""
        body = pod_body(
            self.frame, task=self.task, index=self.index, rank=self.rank, node=self.node
        )
        # The job can run without its elastic replicas and its standby pods.
        is_core = self.rank is not None and self.task.is_core(self.index)
        if (gang := self.frame.gang) is not None:
            body = scheduled_by(body, gang, is_member=is_core)
        if is_core:
            body = self.frame.domains.gated(body, self.task, self.index)
            if (room := self.frame.provisioned) is not None:
                body = using(body, room)
        fit = fitted(
            body,
            memory=self.memory,
            # The allocator avoids these nodes too, and a pod that it placed has no other node.
            avoided=() if self.node else self.avoided,
            keeps_last_words=self.frame.keeps_last_words,
        )
        named = naming_companions(fit, self.frame.job)
        return with_code(with_artifacts(named, self.frame.artifacts), self.frame.code)


def pod_body(
    frame: PodFrame, *, task: Task, index: int, rank: int | None, node: str = ""
) -> dict[str, Any]:
    """Return the pod of one replica, or a standby pod of the task if `rank` is None.

    The user's template is kept, with these changes:

    - restartPolicy, hostname and subdomain are replaced;
    - labels and annotations of the operator are added;
    - variables, volumes, mounts and a priority class are added if the template defines none;
    - a pod on the host network gets a DNS policy if the template sets none;
    - affinity is added to the pods that it has to be near, and against the nodes to avoid;
    - ``di-port`` is added if no container declares it;
    - the command of the main container of a group of MPI is started by a script;
    - the container of a nodeCheck runs before all others.

    With ``node`` the pod is placed on the node that the allocator chose.
    """
    metadata: Object = frame.job["metadata"]
    template: Object = task.template_of(index)
    own: Object = template.get("metadata") or {}
    spec: Object = template.get("spec") or {}
    name = _name(metadata["name"], task, index, rank)
    checkpoints = frame.checkpoints if task.type is TaskType.LEARNER else Checkpoints()
    env: dict[str, str | Source] = {
        **_env(frame, task, index, rank),
        **_kind(frame, node),
        **checkpoints.environment(),
    }
    mounts = [*_mounts(frame, task), *checkpoints.mounts()]
    body: dict[str, Any] = {
        **spec,
        **checkpoints.grace(spec),
        "hostname": name,
        "subdomain": names.service_name(metadata["name"]),
        "restartPolicy": "OnFailure" if task.name in frame.in_place else "Never",
        "containers": with_ports(
            with_mpi(
                [with_environment(c, env, mounts) for c in spec.get("containers") or ()], task
            ),
            # Without a rank the pod has only ports of scope Job.
            frame.ports.listened(task, rank or 0),
            on_host=spec.get("hostNetwork") is True,
        ),
    }
    check = check_container(task, is_late=task.name in frame.checked)
    if init := [*([check] if check else ()), *(spec.get("initContainers") or ())]:
        body["initContainers"] = [with_environment(c, env, mounts) for c in init]
    ours = [*_volumes(frame, task), *checkpoints.volumes()]
    if volumes := with_volumes(spec.get("volumes") or (), ours):
        body["volumes"] = volumes
    body = with_priority_class(with_cluster_dns(body), frame.priority_class)
    body = avoiding(body, frame.avoided.get(task.name, ()))
    ours_of_job = object_metadata(frame.job, name)
    topology = topology_of(task, frame.topology)
    body = near(body, ours_of_job["labels"], task, index, topology)
    if node:
        body = placed(body, node, frame.binding)
    notes: dict[str, str] = {}
    if task.drain is not None and is_asked(task, index):
        notes = grace_note(body)
        body = with_drain(body, task.drain, secret=frame.access.job_secret)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **ours_of_job,
            "labels": {
                **(own.get("labels") or {}),
                **ours_of_job["labels"],
                names.LABEL_POD: name,
                names.LABEL_TASK_TYPE: task.type.value,
                names.LABEL_TASK_NAME: task.name,
                **_standing(task, index, rank),
                **replica_label(task, index, topology),
                **({names.LABEL_TIER: _tier(task, index)} if task.elastic is not None else {}),
            },
            "annotations": {
                **(own.get("annotations") or {}),
                names.ANNOTATION_REPLICAS: str(sum(frame.replicas.values())),
                names.ANNOTATION_TASK_REPLICAS: str(frame.replicas[task.name]),
                **place_notes(index, rank),
                names.ANNOTATION_NODE: node,
                **attempt_note(frame.attempts.get(task.name, 0)),
                **_replica_note(frame, task, index),
                **notes,
                **frame.access.annotations(),
            },
        },
        "spec": body,
    }


def place_notes(index: int, rank: int | None) -> dict[str, str]:
    """Return the annotations with a pod's place in its job; none without a rank."""
    if rank is None:
        return {}
    return {names.ANNOTATION_RANK: str(rank), names.ANNOTATION_TASK_RANK: str(index)}


def attempt_note(attempt: int) -> dict[str, str]:
    """Return the annotation with the number of restarts of the pod's task."""
    return {names.ANNOTATION_RESTART_ATTEMPT: str(attempt)} if attempt else {}


def _replica_note(frame: PodFrame, task: Task, index: int) -> dict[str, str]:
    attempts = frame.replica_attempts.get(task.name, {})
    attempt = attempts.get(index // task.pods_per_replica)
    return {names.ANNOTATION_REPLICA_ATTEMPT: str(attempt)} if attempt else {}


def _name(job: str, task: Task, index: int, rank: int | None) -> str:
    if rank is None:
        return names.standby_name(job, task.name, index)
    return names.pod_name(job, task.name, index, task.pods_per_replica)


def _standing(task: Task, index: int, rank: int | None) -> dict[str, str]:
    """Return the labels of a standby pod, or those that put a replica behind its Service."""
    if rank is None:
        return {names.LABEL_STANDBY: names.MARKED}
    return service_labels(task, index)


def _env(frame: PodFrame, task: Task, index: int, rank: int | None) -> dict[str, str | Source]:
    metadata: Object = frame.job["metadata"]
    # A process group is the pods of one replica if replicas have several, else all pods of the
    # task.
    pods, place = frame.nodes.by_task[task.name], index
    if task.has_pod_groups:
        place = index % task.pods_per_replica
        pods = pods[index - place : index - place + task.pods_per_replica]
    nodes: Mapping[str, str | Source]
    if frame.by_file:
        nodes = frame.nodes.large_environment(names.nodes_config_map_name(metadata["name"]))
    else:
        nodes = frame.nodes.environment
    return {
        names.ENV_JOB_ID: names.job_id(metadata["namespace"], metadata["name"]),
        names.ENV_JOB_UID: metadata["uid"],
        names.ENV_SERVER_URL: frame.server_url,
        **({names.ENV_STANDBY: names.MARKED} if rank is None else {names.ENV_RANK: str(rank)}),
        names.ENV_TASK_NAME: task.name,
        names.ENV_TASK_TYPE: task.type.value,
        **({} if rank is None else {names.ENV_TASK_RANK: str(index)}),
        **({names.ENV_RESTARTS: str(frame.restarts)} if frame.restarts else {}),
        **(_replica(task, index, pods[0]) if task.has_pod_groups else {}),
        **({names.ENV_TIER: _tier(task, index)} if task.elastic is not None else {}),
        **nodes,
        **frame.access.environment(),
        **_group_file(frame, task),
        **frame.services,
        **frame.ports.environment(task, rank or 0),
        **mpi_environment(task, frame.access.job_secret),
        **group_environment(
            task,
            place,
            pods,
            [(each, frame.nodes.by_task.get(each.name, ())) for each in frame.tasks],
        ),
    }


def _replica(task: Task, index: int, leader: str) -> dict[str, str]:
    replica, place = divmod(index, task.pods_per_replica)
    return {
        names.ENV_REPLICA_INDEX: str(replica),
        names.ENV_REPLICA_RANK: str(place),
        names.ENV_REPLICA_SIZE: str(task.pods_per_replica),
        names.ENV_REPLICA_LEADER: leader,
    }


def _tier(task: Task, index: int) -> str:
    return names.CORE if task.is_core(index) else names.ELASTIC


def _group_file(frame: PodFrame, task: Task) -> dict[str, str]:
    if task.name not in frame.grouped:
        return {}
    file = f"{names.NODES_FILE_DIR}/{names.group_file_key(task.name)}"
    return {names.ENV_GROUP_FILE: file}


def _kind(frame: PodFrame, node: str) -> dict[str, str]:
    kind = frame.kinds.get(node)
    return {names.ENV_NODE_KIND: kind} if kind else {}


def _volumes(frame: PodFrame, task: Task) -> list[Object]:
    volumes = list(frame.volumes)
    if _has_files(frame, task):
        configmap = {"name": names.nodes_config_map_name(frame.job["metadata"]["name"])}
        volumes.append({"name": names.NODES_VOLUME, "configMap": configmap})
    return [*volumes, *frame.access.volumes()]


def _has_files(frame: PodFrame, task: Task) -> bool:
    return frame.by_file or task.name in frame.grouped


def _mounts(frame: PodFrame, task: Task) -> Iterable[Object]:
    if _has_files(frame, task):
        # The whole directory is mounted: a file mounted by subPath is never updated.
        yield {"name": names.NODES_VOLUME, "mountPath": names.NODES_FILE_DIR, "readOnly": True}
    yield from frame.access.mounts()


def with_cluster_dns(spec: Object) -> dict[str, Any]:
    """Return a pod's spec with the cluster's DNS, also on the host network."""
    if spec.get("hostNetwork") is not True or spec.get("dnsPolicy"):
        return {**spec}
    return {**spec, "dnsPolicy": "ClusterFirstWithHostNet"}


def with_priority_class(spec: Object, name: str | None) -> dict[str, Any]:
    """Return a pod's spec with the priority class, unless it sets a priority."""
    if not name or spec.get("priorityClassName") or spec.get("priority") is not None:
        return {**spec}
    return {**spec, "priorityClassName": name}
