"""Every name the project and the outside world must agree on, and nothing else.

Each constant says who writes it and who reads it. A changed value breaks running jobs and
deployed clients, so nothing here changes within an API version.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Final

# --- The resource: the CRD defines it, every component addresses it. ---
GROUP: Final = "diengine.opendilab.org"
VERSION: Final = "v2alpha1"
KIND: Final = "DIJob"
PLURAL: Final = "dijobs"
API_VERSION: Final = f"{GROUP}/{VERSION}"

COORDINATED_VERSIONS: Final = ("v1alpha1", "v1alpha2")
"""Older versions with one schema, jobs with a coordinator; converted by the webhook."""
AGGREGATOR_CONFIG_KIND: Final = "AggregatorConfig"
AGGREGATOR_CONFIG_PLURAL: Final = "aggregatorconfigs"
AGGREGATOR_CONFIG: Final = "aggregator-config"
"""Name of the AggregatorConfig that jobs use, in the release's namespace."""
TASK_KIND: Final = "DIJobTask"
TASK_PLURAL: Final = "dijobtasks"
"""A task of a job on its own, with a scale subresource."""
ANNOTATION_CONVERSION: Final = f"{GROUP}/{VERSION}"
"""On a job read as one of COORDINATED_VERSIONS: what only VERSION has a field for."""

# --- Programs. ---
OPERATOR_NAME: Final = "di-operator"
"""Value of LABEL_OPERATOR, field manager and event source of the operator."""
SERVER_NAME: Final = "di-server"
"""Name of the REST server's Service; part of the default DI_SERVER_URL."""
WEBHOOK_NAME: Final = "di-webhook"
"""Name of the webhook's Service; part of its certificate."""
HISTORY_NAME: Final = "di-history"
"""Name of the history's Service, and the audience of tokens for it."""
DASHBOARD_NAME: Final = "di-dashboard"
"""Name of the Service of the page for many; part of its certificate."""
SERVER_PORT: Final = 8081
"""Of plain HTTP."""
SERVER_TLS_PORT: Final = 8443

SYSTEM_NAMESPACE: Final = "di-system"
"""Where the documents install a release. Read by the command, where nothing says another."""

JOB_PLACEHOLDER: Final = "$(JOB)"
"""What stands for the job's name in its companions. Written by users, read by the operator."""

# --- Labels: the operator writes them on every object of a job. ---
RESERVED_PREFIX: Final = "diengine/"
"""Label and annotation keys below this prefix belong to the project; admission guards them."""
LABEL_JOB: Final = "diengine/job"
"""Job name. Read by the Service's selector and by users (`kubectl logs -l`)."""
LABEL_OPERATOR: Final = "diengine/operator"
"""Always OPERATOR_NAME. Read by the operator's and the server's watches."""
LABEL_POD: Final = "diengine/pod"
"""Pod name. Read by users."""
LABEL_TASK_TYPE: Final = "diengine/task-type"
"""Task type. Read by users."""
LABEL_TASK_NAME: Final = "diengine/task-name"
"""Task name. Read by the operator, the server and users."""
LABEL_TIER: Final = "diengine/tier"
"""CORE or ELASTIC, on the pods of tasks with an elastic tier: what the pod was made as. Read by
users."""
CORE: Final = "core"
ELASTIC: Final = "elastic"
LABEL_STANDBY: Final = "diengine/standby"
"""MARKED on pods that stand by, until one takes the place of a replica. Read by the operator when
the job has ended, and by users."""

LABEL_IN_SERVICE: Final = "diengine/in-service"
"""MARKED on the pods that their task's Service is to list, once they are ready. Read by that
Service's selector."""
LABEL_REPLICA_LEADER: Final = "diengine/replica-leader"
"""MARKED on the first pod of each replica of a task whose Service selects leaders. Read by that
Service's selector."""
LABEL_REPLICA: Final = "diengine/replica-index"
"""Which replica a pod is of, on those that are to be near the others of it. Read by the affinity of
those pods."""
MARKED: Final = "true"
LABEL_POD_GROUP: Final = "scheduling.x-k8s.io/pod-group"
"""The PodGroup that a pod is scheduled with. The operator writes it; read by the scheduler of
scheduler-plugins."""
ANNOTATION_PODS_MADE: Final = "diengine/pods-made"
"""How many pods a PodGroup had when it last had all of them. The operator writes it, on PodGroups;
a scheduler is told by that of pods that it refused before the last of them was made."""
ANNOTATION_ASKED_AT: Final = "diengine/asked-at"
"""When a PodGroup was last changed for no other reason than that its scheduler looks again at pods
that it refused. The operator writes and reads it, on PodGroups."""
ANNOTATION_POD_GROUP: Final = "scheduling.k8s.io/group-name"
"""The same; read by Volcano."""

# --- Labels of coordinated jobs: the operator writes them, on pods and Services, beside
# LABEL_JOB and LABEL_OPERATOR. ---
LABEL_GROUP_NAME: Final = "group-name"
"""Always GROUP. Read by users."""
LABEL_DIJOB_NAME: Final = "dijob-name"
"""Job name. Read by users."""
LABEL_CONTROLLER_NAME: Final = "controller-name"
"""Always OPERATOR_NAME. Read by users."""
LABEL_REPLICA_TYPE: Final = "replica-type"
"""Role. Read by users."""
LABEL_POD_NAME: Final = "pod-name"
"""Pod name. Read by the pod's Service."""
LABEL_DDP_LEARNER_TYPE: Final = "ddp-learner-type"
"""DDP_MASTER or DDP_WORKER, on ddp learners. Read by users."""
DDP_MASTER: Final = "ddp-learner-master"
DDP_WORKER: Final = "ddp-learner-worker"

# --- Annotations that users write on jobs. ---
ANNOTATION_NOTIFY: Final = "diengine/notify"
"""Names of the targets that are told of the job, with commas. Read by the operator."""

# --- Queues of Kueue, https://kueue.sigs.k8s.io/docs/reference/labels-and-annotations/. ---
LABEL_QUEUE: Final = "kueue.x-k8s.io/queue-name"
"""The LocalQueue that admits a job. Written by users, read by the webhook and the operator; never
on pods, which Kueue would then admit one by one."""
LABEL_QUEUE_PRIORITY: Final = "kueue.x-k8s.io/priority-class"
"""The WorkloadPriorityClass of a job with a queue. Written by users, read by the operator."""
ANNOTATION_SUSPENDED_BY: Final = "diengine/suspended-by"
"""SUSPENDED_BY_QUEUE on a job whose `suspend` its queue has set, not a user. Written by the webhook
when the job is created, by the operator when it is admitted or evicted, by the command; read by the
operator and the command."""
SUSPENDED_BY_QUEUE: Final = "queue"
FINALIZER_QUOTA: Final = f"{GROUP}/holds-quota"
"""On Workloads: what they have of a quota is not free before the pods are gone. Written and read by
the operator."""
PREBUILT_WORKLOAD: Final = "kueue.x-k8s.io/prebuilt-workload-name"
"""A label, or an annotation where it is too long for one, of a job that MultiKueue has made here
for another cluster: the Workload that it made with it. Written by Kueue, read by the operator."""
DISPATCHER: Final = "kueue.x-k8s.io/multikueue"
"""`spec.managedBy` of a job that MultiKueue has run in another cluster. Written by users, read by
the webhook and the operator."""
MANAGER: Final = f"{GROUP}/{OPERATOR_NAME}"
"""`spec.managedBy` of a job that the operator runs, as is one that has none. Read by the
operator."""

# --- Annotations: the operator writes them on every pod. ---
ANNOTATION_CONSUMES: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
"""On a pod: the ProvisioningRequest whose room it takes."""
ANNOTATION_PROVISIONING_CLASS: Final = "autoscaling.x-k8s.io/provisioning-class-name"
"""On a pod: the class of that."""
ANNOTATION_CHANGED_BY: Final = "diengine/changed-by"
"""On a job: the generation that its spec has, and who gave it that; see `changed_by.py`."""
ANNOTATION_REPLICAS: Final = "diengine/replicas"
"""R, the job's replica count, when the pod was made. Read by the operator."""
ANNOTATION_RANK: Final = "diengine/rank"
"""Global rank. Read by the operator and the server."""
ANNOTATION_TASK_RANK: Final = "diengine/task-rank"
"""Local index within the task. Read by the operator."""
ANNOTATION_TASK_REPLICAS: Final = "diengine/task-replicas"
"""How many replicas the pod's task had when the pod was made. Read by the operator."""
ANNOTATION_RESTART_ATTEMPT: Final = "diengine/restart-attempt"
"""How often the pod's task had been restarted as a whole when the pod was made; absent: never. Read
by the operator."""
ANNOTATION_REPLICA_ATTEMPT: Final = "diengine/replica-attempt"
"""How often the pod's replica of several pods had been made anew when the pod was made; absent:
never. Read by the operator."""
ANNOTATION_LEFT_SERVICE: Final = "diengine/left-service"
"""When the pod was taken out of its task's Service (RFC 3339), since it is to go; absent: it was
not. Written and read by the operator."""
ANNOTATION_GRACE_SECONDS: Final = "diengine/grace-seconds"
"""Of a pod that is asked to drain: the grace period of its template, which its own is longer than.
Read by the operator."""
ANNOTATION_NODE: Final = "diengine/node"
"""Node chosen by the allocator, or empty. Read by the operator."""
ANNOTATION_SERVER_CA: Final = "diengine/server-ca"
"""Authorities to know di-server by, PEM. Written by the operator, also to pods that run; the
kubelet makes the file of ENV_SERVER_CA_FILE of it."""
ANNOTATION_JOB_SECRET: Final = "diengine/job-secret"
"""MARKED on pods that have ENV_JOB_SECRET. Read by the operator: pods with and without could not
ask each other."""
ANNOTATION_DIGEST: Final = "diengine/digest"
"""On the ConfigMap of node lists: SHA-256 of its data; on a Workload: of its podSets. Written and
read by the operator."""
ANNOTATION_SENT: Final = "diengine/sent"
"""On the Workload of a job that MultiKueue has run in another cluster: SHA-256 of the spec that is
sent there. Written and read by the operator."""
ANNOTATION_GROUPS: Final = "diengine/groups"
"""On that ConfigMap: SHA-256 of what process groups are told. Written and read by the operator."""
ANNOTATION_TRACE: Final = "diengine/trace"
"""On the job: the span of the request that scaled it last (traceparent), and when that was. Written
by the server where there are traces, read by the operator."""
ANNOTATION_IDEMPOTENCY: Final = "diengine/idempotency"
"""On the job: answers already given, by Idempotency-Key. Written and read by the server."""
ANNOTATION_SCALED: Final = "diengine/scaled"
"""On the job: by task, which number written to its DIJobTask was carried out last,
`{"collector": "<UID>:<generation>"}`. Written and read by the operator."""
ANNOTATION_SHOWN: Final = "diengine/shown"
"""On a DIJobTask: the replicas that the operator wrote last; another number in its spec was written
by somebody else. Written and read by the operator."""

# --- Environment of every container: the operator writes it, training programs read it. ---
ENV_JOB_ID: Final = "DI_JOB_ID"
"""`<namespace>/<job>`."""
ENV_SERVER_URL: Final = "DI_SERVER_URL"
"""Base URL of di-server, no trailing slash."""
ENV_SERVER_CA_FILE: Final = "DI_SERVER_CA_FILE"
"""Path of the authorities to know di-server by, PEM; set where ENV_SERVER_URL is HTTPS. The file
changes while the pod runs."""
ENV_JOB_SECRET: Final = "DI_JOB_SECRET"
"""What pods of the job prove to each other that they know; absent in jobs of earlier versions."""
ENV_RANK: Final = "DI_RANK"
"""Global rank of the pod."""
ENV_NODES: Final = "DI_NODES"
"""Comma list of FQDNs indexed by global rank; a hole is NODE_HOLE."""
ENV_NODES_FILE: Final = "DI_NODES_FILE"
"""Path of a file with the DI_NODES list, set instead of it in jobs of many replicas."""
ENV_TASK_NAME: Final = "DI_TASK_NAME"
ENV_TASK_TYPE: Final = "DI_TASK_TYPE"
ENV_TASK_RANK: Final = "DI_TASK_RANK"
"""Local index of the pod within its task."""
ENV_NODE_KIND: Final = "DI_NODE_KIND"
"""Kind of the pod's node; set where the allocator knows it."""
ENV_RESTARTS: Final = "DI_RESTARTS"
"""How many restarts the job had had when the pod was made; absent: none."""
ENV_REPLICA_INDEX: Final = "DI_REPLICA_INDEX"
"""Index of the pod's replica within its task, in tasks whose replicas are of several pods, as those
below."""
ENV_REPLICA_RANK: Final = "DI_REPLICA_RANK"
"""Index of the pod within its replica; 0 is the leader's."""
ENV_REPLICA_SIZE: Final = "DI_REPLICA_SIZE"
"""Pods of each replica."""
ENV_REPLICA_LEADER: Final = "DI_REPLICA_LEADER"
"""FQDN of the first pod of the replica."""
ENV_TIER: Final = "DI_TIER"
"""CORE or ELASTIC, in tasks with an elastic tier."""
ENV_STANDBY: Final = "DI_STANDBY"
"""MARKED in pods that were made to stand by, in place of ENV_RANK and ENV_TASK_RANK."""
ENV_CHECKPOINT_DIR: Final = "DI_CHECKPOINT_DIR"
"""Directory of the job's checkpoints, in learners of a job that has one."""
ENV_RESTORE_STEP: Final = "DI_RESTORE_STEP"
"""Step of the last checkpoint that the job has reported, as the report says it; not set without."""
ENV_NODE_NAME: Final = "DI_NODE_NAME"
"""Name of the pod's node, in NODE_CHECK."""
ENV_NODE_CHECK_WAIT: Final = "DI_NODE_CHECK_WAIT"
"""Seconds that NODE_CHECK may wait for the task's other pods; 0: they do not come any more."""
NODE_HOLE: Final = "localhost"
"""What stands for a rank nobody holds: resolvable, and nothing listens there."""

# --- Environment of every container of a coordinated job. ---
ENV_POD_NAMESPACE: Final = "KUBERNETES_POD_NAMESPACE"
ENV_POD_NAME: Final = "KUBERNETES_POD_NAME"
ENV_COORDINATED_SERVER_URL: Final = "KUBERNETES_SERVER_URL"
"""Base URL of di-server; clients split it at colons, so it has no user, path or slash."""
ENV_COORDINATOR_URL: Final = "KUBERNETES_COORDINATOR_URL"
"""`<pod>.<namespace>:<port>` of the coordinator, in itself."""
ENV_WORLD_SIZE: Final = "WORLD_SIZE"
"""GPUs of all ddp learners of one aggregator; as torch.distributed reads it, like those below."""
ENV_LOCAL_WORLD_SIZE: Final = "LOCAL_WORLD_SIZE"
"""GPUs of this ddp learner."""
ENV_START_RANK: Final = "START_RANK"
"""Rank of this ddp learner's first process."""
ENV_MASTER_ADDR: Final = "MASTER_ADDR"
ENV_MASTER_PORT: Final = "MASTER_PORT"

# --- Environment of tasks with a process group, beside ENV_MASTER_ADDR and ENV_MASTER_PORT. Their
# readers are the frameworks, PREFIX_TORCHRUN's is torchrun. ---
ENV_GROUP_RANK: Final = "RANK"
ENV_LOCAL_RANK: Final = "LOCAL_RANK"
PREFIX_TORCHRUN: Final = "PET_"
"""Before the name of an option of torchrun, in capitals."""
ENV_JAX_COORDINATOR: Final = "JAX_COORDINATOR_ADDRESS"
ENV_JAX_PROCESSES: Final = "JAX_NUM_PROCESSES"
ENV_JAX_PROCESS: Final = "JAX_PROCESS_ID"

ENV_GROUP_FILE: Final = "DI_GROUP_FILE"
"""Path of the file that says who belongs to the pod's process group. It changes while the
pod runs."""

# --- Node lists by file: the operator writes the ConfigMap, training programs read the file. ---
NODES_FILE_THRESHOLD: Final = 100
"""With more replicas than this the lists come by file; in the environment they would grow the
pod objects as the square of the replicas, past the API server's 1.5 MB an object."""
NODES_FILE_DIR: Final = "/etc/diengine/nodes"
NODES_FILE_KEY: Final = "nodes"
"""Key of the list of all ranks in the ConfigMap; a task's list is kept under `tasks.<task>`."""
NODES_VOLUME: Final = "di-nodes"

# --- Other volumes: the operator adds them to pods, training programs read the files. ---
SERVER_ACCESS_DIR: Final = "/var/run/secrets/di-server"
"""Where the token for di-server is, and the authorities to know it by."""
CHECKPOINT_VOLUME: Final = "di-checkpoint"
"""Of the claim that checkpoints are in."""
REPORTED_STEP: Final = "checkpointStep"
"""Key of a report: the step of the last checkpoint. Read by the operator for ENV_RESTORE_STEP."""

# --- Ports and containers. ---
DI_PORT: Final = 22270
"""Where DI-engine listens unless the template says otherwise."""
DI_PORT_NAME: Final = "di-port"
"""Port name on the Service; on DI_CONTAINER it overrides the port the server reports."""
DI_CONTAINER: Final = "di-container"
NODE_CHECK: Final = "di-node-check"
"""The init container of a task with a `nodeCheck`. Its termination message is read by the operator:
`{"seconds": 1.5, "exchanges": [{"with": 1, "seconds": 0.1}]}`."""
GPU_PORT_PREFIX: Final = "gpu-port-"
"""Ports of a ddp learner's further GPUs: `gpu-port-<i>` is di-port + i."""
MASTER_PORT_NAME: Final = "master-port"
MASTER_PORT: Final = 10314
"""Where the first pod of a process group coordinates the others: of the ddp learners of an
aggregator, and of a task unless its template names a port MASTER_PORT_NAME."""
JOB_PORTS: Final = range(23_000, 24_024)
"""Of ports of scope Job: as many as the tasks of a job may ask for."""
POD_PORTS: Final = range(24_100, 29_100)
"""Of ports of scope Pod. Both ranges keep off DI_PORT and the ports beside it, torch's 29500, node
ports (from 30000) and those that Linux gives to clients (from 32768)."""
COORDINATED_SERVER_PORT: Final = 8080
"""Port of di-server in ENV_COORDINATED_SERVER_URL; SERVER_PORT serves the same."""
GPU_RESOURCE: Final = "nvidia.com/gpu"

# --- Cluster DNS and limits. ---
DEFAULT_SERVICE_DOMAIN: Final = "svc.cluster.local"
MAX_LABEL: Final = 63
"""Longest DNS label (RFC 1123) and label value: pod, host, Service and task names."""
_MAX_DIGITS: Final = 5
"""Of a number in the name of a pod: more than any job has pods."""
DNS_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
"""A regular expression of DNS labels, their length aside; the CRD has it as a pattern."""
PORT_NAME: Final = "([a-z0-9]+-)*[0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*"
"""A regular expression of IANA service names (RFC 6335), which the names of a container's ports
are, their length aside; the CRD has it as a pattern."""
LONGEST_PORT_NAME: Final = 15
_SERVICE_PREFIX: Final = "di-"
_STANDBY: Final = "standby"


def service_name(job: str) -> str:
    """Name of the job's headless Service, the subdomain of its pods."""
    return f"{_SERVICE_PREFIX}{job}"


def nodes_config_map_name(job: str) -> str:
    """Name of the ConfigMap that carries the node lists of a job with many replicas."""
    return f"{_SERVICE_PREFIX}{job}"


def pod_name(job: str, task: str, index: int, size: int = 1) -> str:
    """Name and host name of the pod at local index `index` of the task.

    `size` are the pods of each replica; of several each is named for its replica and its place in
    there.
    """
    place = f"{index}" if size == 1 else f"{index // size}-{index % size}"
    return f"{job}-{task}-{place}"


def standby_name(job: str, task: str, number: int) -> str:
    """Name and host name of a pod of the task that was made to stand by."""
    return f"{job}-{task}-{_STANDBY}-{number}"


def task_of_pod(
    job: str, pod: str, groups: Container[str] = (), standbys: Container[str] = ()
) -> str:
    """The task a pod of that name belongs to, the inverse of `pod_name` and `standby_name`.

    `groups` are the tasks whose replicas are of several pods, `standbys` those that have pods which
    stand by.
    """
    task = pod.removeprefix(f"{job}-").rpartition("-")[0]
    outer, _, replica = task.rpartition("-")
    if outer in groups and replica.isdecimal():
        return outer
    return outer if outer in standbys and replica == _STANDBY else task


def standby_task(name: str) -> str:
    """The task whose pods would be named as those that stand by for the task of this name."""
    return f"{name}-{_STANDBY}"


def index_of_pod(pod: str, size: int = 1) -> int:
    """The local index of a pod of that name, as in `pod_name`; 0 of a name that has none."""
    numbers = pod.rsplit("-", 1 if size == 1 else 2)[1:]
    if not all(number.isdecimal() and len(number) <= _MAX_DIGITS for number in numbers):
        return 0
    replica, *place = map(int, numbers)
    return replica * size + sum(place)


def pod_fqdn(pod: str, job: str, namespace: str, domain: str = DEFAULT_SERVICE_DOMAIN) -> str:
    """Full DNS name of a pod; `domain` is the cluster's service domain."""
    return f"{pod}.{service_fqdn(service_name(job), namespace, domain)}"


def task_service_name(job: str, task: str) -> str:
    """Name of the Service of a task that has one."""
    return f"{job}-{task}"


def job_task_name(job: str, task: str) -> str:
    """Name of the DIJobTask of a task that has one."""
    return f"{job}-{task}"


def service_fqdn(service: str, namespace: str, domain: str = DEFAULT_SERVICE_DOMAIN) -> str:
    """Full DNS name of a Service; `domain` is the cluster's service domain."""
    return f"{service}.{namespace}.{domain}"


def job_id(namespace: str, job: str) -> str:
    """Value of DI_JOB_ID, an id that the server's REST paths take as it stands below `job/`."""
    return f"{namespace}/{job}"


def server_url(namespace: str, domain: str = DEFAULT_SERVICE_DOMAIN, *, tls: bool = False) -> str:
    """Default DI_SERVER_URL for a release in `namespace`."""
    scheme, port = ("https", SERVER_TLS_PORT) if tls else ("http", SERVER_PORT)
    return f"{scheme}://{service_fqdn(SERVER_NAME, namespace, domain)}:{port}"


def coordinated_server_url(namespace: str) -> str:
    """Default ENV_COORDINATED_SERVER_URL for a release in `namespace`."""
    return f"http://{SERVER_NAME}.{namespace}:{COORDINATED_SERVER_PORT}"


def task_nodes_env(task: str) -> str:
    """Variable that lists the FQDNs of one task, indexed by local index."""
    return f"DI_{_variable(task)}_NODES"


def task_service_env(task: str) -> str:
    """Variable with the address of the Service of a task, `<fqdn>:<port>`."""
    return f"DI_{_variable(task)}_SERVICE"


def port_env(name: str) -> str:
    """Variable with the number of a port that a task asks for."""
    return f"DI_PORT_{_variable(name)}"


def task_nodes_file_env(task: str) -> str:
    """Variable with the path of a file that holds the list of `task_nodes_env`."""
    return f"{task_nodes_env(task)}_FILE"


def task_nodes_file_key(task: str) -> str:
    """Key of one task's list in the ConfigMap of the node lists."""
    return f"tasks.{task}"


def group_file_key(task: str) -> str:
    """Key of what a process group is told in the ConfigMap of the node lists."""
    return f"groups.{task}"


def longest_job_name(suffixes: Iterable[str]) -> int:
    """Length of the longest job name whose Service and pod names fit MAX_LABEL.

    `suffixes` are the names of the last pods that the tasks may reach, less the job's. Zero or
    less means that no job name fits: a task's own name is too long.
    """
    longest = MAX_LABEL - len(service_name(""))
    return min([longest, *(MAX_LABEL - len(suffix) for suffix in suffixes)])


def is_dns_label(text: object) -> bool:
    """Whether `text` is a DNS label of RFC 1123, as pod and host names must be."""
    # The length is looked at first, so the expression never sees a long text.
    return isinstance(text, str) and len(text) <= MAX_LABEL and bool(re.fullmatch(DNS_LABEL, text))


def is_port_name(text: object) -> bool:
    """Whether `text` may be the name of a container's port."""
    if not isinstance(text, str) or len(text) > LONGEST_PORT_NAME:
        return False
    return bool(re.fullmatch(PORT_NAME, text))


def _variable(name: str) -> str:
    """A DNS label as a part of the name of a variable; different labels stay different."""
    return name.upper().replace("-", "_")
