"""Every name that the project and the outside world must agree on, and nothing else.

Each constant has a note on its writer and its readers. A changed value breaks running jobs and
deployed clients, so nothing here changes within an API version."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

# --- The resource: the CRD defines it, every component addresses it. ---
GROUP: Final = "diengine.opendilab.org"
VERSION: Final = "v2alpha1"
KIND: Final = "DIJob"
PLURAL: Final = "dijobs"
SWEEP_KIND: Final = "DISweep"
SWEEP_PLURAL: Final = "disweeps"
API_VERSION: Final = f"{GROUP}/{VERSION}"

COORDINATED_VERSIONS: Final = ("v1alpha1", "v1alpha2")
"""Older versions with one schema, jobs with a coordinator; converted by the webhook."""
AGGREGATOR_CONFIG_KIND: Final = "AggregatorConfig"
AGGREGATOR_CONFIG_PLURAL: Final = "aggregatorconfigs"
AGGREGATOR_CONFIG: Final = "aggregator-config"
"""Name of the AggregatorConfig that jobs use, in the release's namespace."""
TASK_KIND: Final = "DIJobTask"
TASK_PLURAL: Final = "dijobtasks"
"""Plural name of the object for a single task of a job, with a scale subresource."""
ANNOTATION_CONVERSION: Final = f"{GROUP}/{VERSION}"
"""Annotation on a job read as one of COORDINATED_VERSIONS: the fields that only VERSION has."""

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
"""Name of the dashboard's Service; part of its certificate."""
SERVER_PORT: Final = 8081
"""Port for plain HTTP."""
SERVER_TLS_PORT: Final = 8443

SYSTEM_NAMESPACE: Final = "di-system"
"""Default namespace of a release in the documents. The `di` command reads it if no other is
configured."""

JOB_PLACEHOLDER: Final = "$(JOB)"
"""Placeholder for the job's name in its companions. Users write it, the operator reads it."""

# --- Labels: the operator writes them on every object of a job. ---
RESERVED_PREFIX: Final = "diengine/"
"""Label and annotation keys below this prefix belong to the project; admission guards them."""
LABEL_JOB: Final = "diengine/job"
"""Job name. Read by the Service's selector and by users (`kubectl logs -l`)."""
LABEL_OPERATOR: Final = "diengine/operator"
"""Always OPERATOR_NAME. Read by the operator's and the server's watches."""
LABEL_POD: Final = "diengine/pod"
"""Pod name. Read by users."""
LABEL_SWEEP: Final = "diengine/sweep"
"""Name of the sweep, on the jobs that are its trials. Read by whatever runs the sweep, and by
users."""
LABEL_TRIAL: Final = "diengine/trial"
"""Index of a trial in its sweep. Read with LABEL_SWEEP."""
ANNOTATION_PARAMETERS: Final = "diengine/parameters"
"""On a trial: its parameters, a JSON object by name. Read by users."""
ANNOTATION_RUNGS: Final = "diengine/rungs"
"""On a trial: its values at comparisons, why it was stopped, and its copy; see
`sweeps/trial.py`. Read and written by whatever runs the sweep."""
LABEL_TASK_TYPE: Final = "diengine/task-type"
"""Task type. Read by users."""
LABEL_TASK_NAME: Final = "diengine/task-name"
"""Task name. Read by the operator, the server and users."""
LABEL_TIER: Final = "diengine/tier"
"""CORE or ELASTIC, on the pods of tasks with an elastic tier: the tier for which the pod was
created. Users read it."""
CORE: Final = "core"
ELASTIC: Final = "elastic"
LABEL_STANDBY: Final = "diengine/standby"
"""MARKED on standby pods, until one is promoted to a replica. The operator reads it when the job
has ended; users read it too."""

LABEL_IN_SERVICE: Final = "diengine/in-service"
"""MARKED on the pods that their task's Service selects, once they are ready."""
LABEL_REPLICA_LEADER: Final = "diengine/replica-leader"
"""MARKED on the first pod of each replica of a task whose Service selects leaders; that Service's
selector reads it."""
LABEL_REPLICA: Final = "diengine/replica-index"
"""Index of a pod's replica, on pods that have to be near the others of it; the affinity of those
pods reads it."""
MARKED: Final = "true"
LABEL_POD_GROUP: Final = "scheduling.x-k8s.io/pod-group"
"""PodGroup that a pod is scheduled with. The operator writes it; the scheduler of scheduler-plugins
reads it."""
ANNOTATION_PODS_MADE: Final = "diengine/pods-made"
"""Annotation of a PodGroup: the number of its pods when it was last complete. The operator writes
it; the change makes a scheduler retry pods that it refused before the group was complete."""
ANNOTATION_ASKED_AT: Final = "diengine/asked-at"
"""Annotation of a PodGroup: when it was last changed only to make its scheduler retry refused pods.
The operator writes and reads it."""
ANNOTATION_POD_GROUP: Final = "scheduling.k8s.io/group-name"
"""PodGroup that a pod is scheduled with; Volcano reads it."""

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

# --- What users write on jobs. ---
ANNOTATION_NOTIFY: Final = "diengine/notify"
"""Comma-separated names of the targets that get notifications of the job. The operator reads it."""
LABEL_OWNER: Final = "owner"
"""Lists of jobs show it, and can be filtered by it."""

# --- Queues of Kueue, https://kueue.sigs.k8s.io/docs/reference/labels-and-annotations/. ---
LABEL_QUEUE: Final = "kueue.x-k8s.io/queue-name"
"""LocalQueue that admits a job. Users write it, webhook and operator read it. Never on pods, which
Kueue would then admit one by one."""
LABEL_QUEUE_PRIORITY: Final = "kueue.x-k8s.io/priority-class"
"""WorkloadPriorityClass of a job with a queue. Users write it, the operator reads it."""
ANNOTATION_SUSPENDED_BY: Final = "diengine/suspended-by"
"""SUSPENDED_BY_QUEUE on a job whose `suspend` was set for its queue and not by a user. The webhook
writes it when the job is created, the operator when it is admitted or evicted, and the command;
operator and command read it."""
SUSPENDED_BY_QUEUE: Final = "queue"
FINALIZER_QUOTA: Final = f"{GROUP}/holds-quota"
"""Finalizer of Workloads: their quota is released only when the pods are gone. The operator writes
and reads it."""
PREBUILT_WORKLOAD: Final = "kueue.x-k8s.io/prebuilt-workload-name"
"""Label, or annotation if the value is too long for a label, of a job that MultiKueue created here
for another cluster: the name of its Workload. Kueue writes it, the operator reads it."""
DISPATCHER: Final = "kueue.x-k8s.io/multikueue"
"""`spec.managedBy` of a job that MultiKueue runs in another cluster. Users write it, webhook and
operator read it."""
MANAGER: Final = f"{GROUP}/{OPERATOR_NAME}"
"""`spec.managedBy` of a job that the operator runs, which is also the default. The operator reads
it."""

# --- Annotations: the operator writes them on every pod. ---
ANNOTATION_CONSUMES: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
"""On a pod: the ProvisioningRequest whose capacity it uses."""
ANNOTATION_PROVISIONING_CLASS: Final = "autoscaling.x-k8s.io/provisioning-class-name"
"""On a pod: the class of that ProvisioningRequest."""
ANNOTATION_CHANGED_BY: Final = "diengine/changed-by"
"""On a job: the generation of its spec, and the author of that generation; see `changed_by.py`."""
ANNOTATION_REPLICAS: Final = "diengine/replicas"
"""Number of the job's replicas when the pod was created. The operator reads it."""
ANNOTATION_RANK: Final = "diengine/rank"
"""Global rank. Read by the operator and the server."""
ANNOTATION_TASK_RANK: Final = "diengine/task-rank"
"""Local index within the task. Read by the operator."""
ANNOTATION_TASK_REPLICAS: Final = "diengine/task-replicas"
"""Number of the task's replicas when the pod was created. The operator reads it."""
ANNOTATION_RESTART_ATTEMPT: Final = "diengine/restart-attempt"
"""Restarts of the pod's task as a whole when the pod was created; absent: none. The operator reads
it."""
ANNOTATION_REPLICA_ATTEMPT: Final = "diengine/replica-attempt"
"""Restarts of the pod's replica (of several pods) when the pod was created; absent: none. The
operator reads it."""
ANNOTATION_LEFT_SERVICE: Final = "diengine/left-service"
"""Time (RFC 3339) at which the pod was removed from its task's Service before its deletion; absent:
it was not. The operator writes and reads it."""
ANNOTATION_GRACE_SECONDS: Final = "diengine/grace-seconds"
"""On a pod that is asked to drain: the grace period of its template, which the pod's own exceeds.
The operator reads it."""
ANNOTATION_NODE: Final = "diengine/node"
"""Node chosen by the allocator, or empty. The operator reads it."""
ANNOTATION_SERVER_CA: Final = "diengine/server-ca"
"""CA certificates of di-server, PEM. The operator writes them, on running pods too; the kubelet
copies them to the file of ENV_SERVER_CA_FILE."""
ANNOTATION_JOB_SECRET: Final = "diengine/job-secret"
"""MARKED on pods that have ENV_JOB_SECRET. The operator reads it, because pods with and without the
secret cannot authenticate to each other."""
ANNOTATION_DIGEST: Final = "diengine/digest"
"""On the ConfigMap of node lists: SHA-256 of its data; on a Workload: of its podSets. The operator
writes and reads it."""
ANNOTATION_SENT: Final = "diengine/sent"
"""On the Workload of a job that MultiKueue runs in another cluster: SHA-256 of the spec that is
sent there. The operator writes and reads it."""
ANNOTATION_GROUPS: Final = "diengine/groups"
"""On the ConfigMap of node lists: SHA-256 of the process groups' data. The operator writes and
reads it."""
ANNOTATION_TRACKING_URL: Final = "diengine/tracking-url"
"""On the job: the page of its run in an experiment tracker, for programs that report none. Users
write it; the CLI and the dashboard read it."""
ANNOTATION_TRACE: Final = "diengine/trace"
"""On the job: the span (traceparent) and time of the last scale request. The server writes it if
tracing is enabled, the operator reads it."""
ANNOTATION_IDEMPOTENCY: Final = "diengine/idempotency"
"""On the job: previous responses by Idempotency-Key. The server writes and reads it."""
ANNOTATION_SCALED: Final = "diengine/scaled"
"""On the job: by task, the last executed request of its DIJobTask, `{"collector":
"<UID>:<generation>"}`. The operator writes and reads it."""
ANNOTATION_SHOWN: Final = "diengine/shown"
"""On a DIJobTask: the replicas that the operator wrote last; a different number in the spec comes
from another client. The operator writes and reads it."""

# --- Environment of every container: the operator writes it, training programs read it. ---
ENV_JOB_ID: Final = "DI_JOB_ID"
"""`<namespace>/<job>`."""
ENV_JOB_UID: Final = "DI_JOB_UID"
"""UID of the job, which no other job of its name has."""
ENV_SERVER_URL: Final = "DI_SERVER_URL"
"""Base URL of di-server, no trailing slash."""
ENV_SERVER_CA_FILE: Final = "DI_SERVER_CA_FILE"
"""Path of di-server's CA certificates, PEM; set if ENV_SERVER_URL is HTTPS. The file changes while
the pod runs."""
ENV_JOB_SECRET: Final = "DI_JOB_SECRET"
"""Secret by which pods of a job authenticate to each other; jobs of earlier versions lack it."""
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
"""Type of the pod's node; set if the allocator knows it."""
ENV_RESTARTS: Final = "DI_RESTARTS"
"""Number of the job's restarts when the pod was created; absent: none."""
ENV_REPLICA_INDEX: Final = "DI_REPLICA_INDEX"
"""Index of the pod's replica within its task. Set, as those below, in tasks whose replicas have
several pods."""
ENV_REPLICA_RANK: Final = "DI_REPLICA_RANK"
"""Index of the pod within its replica; the leader has 0."""
ENV_REPLICA_SIZE: Final = "DI_REPLICA_SIZE"
"""Pods of each replica."""
ENV_REPLICA_LEADER: Final = "DI_REPLICA_LEADER"
"""FQDN of the first pod of the replica."""
ENV_TIER: Final = "DI_TIER"
"""CORE or ELASTIC, in tasks with an elastic tier."""
ENV_STANDBY: Final = "DI_STANDBY"
"""MARKED in pods that were created as standby pods, in place of ENV_RANK and ENV_TASK_RANK."""
ENV_CHECKPOINT_DIR: Final = "DI_CHECKPOINT_DIR"
"""Directory of the job's checkpoints, in learners of a job that has one."""
ENV_ARTIFACTS_DIR: Final = "DI_ARTIFACTS_DIR"
"""Path of the first artifact of the pod, in pods that have one."""
ENV_RESTORE_STEP: Final = "DI_RESTORE_STEP"
"""Step of the last checkpoint that the job reported, unchanged; absent if there is none."""
ENV_RESTORE_FROM: Final = "DI_RESTORE_FROM"
"""Directory of the checkpoints of another trial, in learners of its copy in a sweep; they restore
the newest one of it, unless they have saved their own."""
ENV_REPORT_SECONDS: Final = "DI_REPORT_SECONDS"
"""Minimum seconds between two reports of a pod in a local run, where they cost less than in a
cluster, in which it is absent."""
ENV_NODE_NAME: Final = "DI_NODE_NAME"
"""Name of the pod's node, in NODE_CHECK."""
ENV_NODE_CHECK_WAIT: Final = "DI_NODE_CHECK_WAIT"
"""Seconds that NODE_CHECK can wait for the task's other pods; 0: they will not come."""
NODE_HOLE: Final = "localhost"
"""Placeholder for a rank without a pod: it resolves, and nothing listens there."""

# --- Environment of every container of a coordinated job. ---
ENV_POD_NAMESPACE: Final = "KUBERNETES_POD_NAMESPACE"
ENV_POD_NAME: Final = "KUBERNETES_POD_NAME"
ENV_COORDINATED_SERVER_URL: Final = "KUBERNETES_SERVER_URL"
"""Base URL of di-server; clients split it at colons, so it has no user, path or slash."""
ENV_COORDINATOR_URL: Final = "KUBERNETES_COORDINATOR_URL"
"""`<pod>.<namespace>:<port>` of the coordinator, in the coordinator's own pod."""
ENV_WORLD_SIZE: Final = "WORLD_SIZE"
"""GPUs of all ddp learners of one aggregator; torch.distributed reads it, and those below."""
ENV_LOCAL_WORLD_SIZE: Final = "LOCAL_WORLD_SIZE"
"""Number of GPUs of this ddp learner."""
ENV_START_RANK: Final = "START_RANK"
"""Rank of this ddp learner's first process."""
ENV_MASTER_ADDR: Final = "MASTER_ADDR"
ENV_MASTER_PORT: Final = "MASTER_PORT"

# --- Environment of tasks with a process group, beside ENV_MASTER_ADDR and ENV_MASTER_PORT. Their
# readers are the frameworks, PREFIX_TORCHRUN's is torchrun. ---
ENV_GROUP_RANK: Final = "RANK"
ENV_LOCAL_RANK: Final = "LOCAL_RANK"
PREFIX_TORCHRUN: Final = "PET_"
"""Prefix for an option of torchrun in capitals."""
ENV_JAX_COORDINATOR: Final = "JAX_COORDINATOR_ADDRESS"
ENV_JAX_PROCESSES: Final = "JAX_NUM_PROCESSES"
ENV_JAX_PROCESS: Final = "JAX_PROCESS_ID"
PREFIX_MPI: Final = "DI_MPI_"
"""Prefix of the input of the script that starts a program of MPI."""

ENV_GROUP_FILE: Final = "DI_GROUP_FILE"
"""Path of the file with the members of the pod's process group. It changes while the pod runs."""

# --- Node lists by file: the operator writes the ConfigMap, training programs read the file. ---
NODES_FILE_THRESHOLD: Final = 100
"""Jobs with more replicas than this get the node lists by file: in the environment the lists would
grow the pod objects with the square of the replicas, beyond the API server's 1.5 MB per object."""
NODES_FILE_DIR: Final = "/etc/diengine/nodes"
NODES_FILE_KEY: Final = "nodes"
"""Key of the list of all ranks in the ConfigMap; a task's list has the key `tasks.<task>`."""
NODES_VOLUME: Final = "di-nodes"

# --- Other volumes: the operator adds them to pods, training programs read the files. ---
SERVER_ACCESS_DIR: Final = "/var/run/secrets/di-server"
"""Directory of the token for di-server, and of its CA certificates."""
CHECKPOINT_VOLUME: Final = "di-checkpoint"
"""Name of the volume of the claim that contains checkpoints."""
JOB_TEMPLATE_KIND: Final = "DIJobTemplate"
JOB_TEMPLATE_PLURAL: Final = "dijobtemplates"
CLUSTER_JOB_TEMPLATE_KIND: Final = "ClusterDIJobTemplate"
CLUSTER_JOB_TEMPLATE_PLURAL: Final = "clusterdijobtemplates"
ANNOTATION_JOB_TEMPLATE: Final = "diengine/template"
"""Annotation of a job: kind and name of the template that it was made with."""
ANNOTATION_JOB_TEMPLATE_HASH: Final = "diengine/template-hash"
"""Annotation of a job: SHA-256 of that template's spec as it was then."""
REPORTED_STEP: Final = "checkpointStep"
"""Key of a report: the step of the last checkpoint. The operator reads it for ENV_RESTORE_STEP."""

# --- Ports and containers. ---
DI_PORT: Final = 22270
"""Port that DI-engine listens on unless the template sets another."""
DI_PORT_NAME: Final = "di-port"
"""Port name on the Service; on DI_CONTAINER it overrides the port the server reports."""
DI_CONTAINER: Final = "di-container"
NODE_CHECK: Final = "di-node-check"
"""Name of the init container of a task with a `nodeCheck`. The operator reads its termination
message: `{"seconds": 1.5, "exchanges": [{"with": 1, "seconds": 0.1}]}`."""
CODE_CONTAINER: Final = "di-code"
"""Name of the init container that unpacks `spec.code`."""
GPU_PORT_PREFIX: Final = "gpu-port-"
"""Port name prefix for a ddp learner's further GPUs: `gpu-port-<i>` is di-port + i."""
MASTER_PORT_NAME: Final = "master-port"
MASTER_PORT: Final = 10314
"""Port of a process group's first pod, unless its template names a port MASTER_PORT_NAME."""
JOB_PORTS: Final = range(23_000, 24_024)
"""Numbers for ports of scope Job: as many as the tasks of a job can request."""
POD_PORTS: Final = range(24_100, 29_100)
"""Numbers for ports of scope Pod. Both avoid DI_PORT, 29500 (torch), node and ephemeral ports."""
COORDINATED_SERVER_PORT: Final = 8080
"""Port of di-server in ENV_COORDINATED_SERVER_URL; SERVER_PORT serves the same."""
GPU_RESOURCE: Final = "nvidia.com/gpu"

# --- Cluster DNS and limits. ---
DEFAULT_SERVICE_DOMAIN: Final = "svc.cluster.local"
_MAX_DIGITS: Final = 5
"""Maximum number of digits of an index in a pod's name: more than any job needs."""
_SERVICE_PREFIX: Final = "di-"
_STANDBY: Final = "standby"


def service_name(job: str) -> str:
    """Return the name of the job's headless Service, the subdomain of its pods."""
    return f"{_SERVICE_PREFIX}{job}"


def code_config_maps(first: str, parts: int | None) -> list[str]:
    """Return the ConfigMaps of a bundle in order of its parts."""
    return [first, *(f"{first}.{number}" for number in range(2, (parts or 1) + 1))]


def nodes_config_map_name(job: str) -> str:
    """Return the name of the ConfigMap with the node lists of a large job."""
    return f"{_SERVICE_PREFIX}{job}"


def pod_name(job: str, task: str, index: int, size: int = 1) -> str:
    """Return the name and host name of the pod at local index `index` of the task.

    `size` is the number of pods per replica; with several, the name has the index of the replica
    and the index in it."""
    place = f"{index}" if size == 1 else f"{index // size}-{index % size}"
    return f"{job}-{task}-{place}"


def standby_name(job: str, task: str, number: int) -> str:
    """Return the name and host name of a standby pod of the task."""
    return f"{job}-{task}-{_STANDBY}-{number}"


def task_of_pod(
    job: str, pod: str, groups: Container[str] = (), standbys: Container[str] = ()
) -> str:
    """Return the task of a pod with this name, the inverse of `pod_name` and `standby_name`.

    `groups` are the tasks whose replicas have several pods, `standbys` those that have standby
    pods."""
    task = pod.removeprefix(f"{job}-").rpartition("-")[0]
    outer, _, replica = task.rpartition("-")
    if outer in groups and replica.isdecimal():
        return outer
    return outer if outer in standbys and replica == _STANDBY else task


def standby_task(name: str) -> str:
    """Return the task name whose pods would have the names of this task's standby pods."""
    return f"{name}-{_STANDBY}"


def index_of_pod(pod: str, size: int = 1) -> int:
    """Return the local index in a pod's name, as in `pod_name`; 0 if the name has none."""
    numbers = pod.rsplit("-", 1 if size == 1 else 2)[1:]
    if not all(number.isdecimal() and len(number) <= _MAX_DIGITS for number in numbers):
        return 0
    replica, *place = map(int, numbers)
    return replica * size + sum(place)


def pod_fqdn(pod: str, job: str, namespace: str, domain: str = DEFAULT_SERVICE_DOMAIN) -> str:
    """Return the full DNS name of a pod; `domain` is the cluster's service domain."""
    return f"{pod}.{service_fqdn(service_name(job), namespace, domain)}"


def task_service_name(job: str, task: str) -> str:
    """Return the name of the Service of a task."""
    return f"{job}-{task}"


def job_task_name(job: str, task: str) -> str:
    """Return the name of the DIJobTask of a task."""
    return f"{job}-{task}"


def service_fqdn(service: str, namespace: str, domain: str = DEFAULT_SERVICE_DOMAIN) -> str:
    """Return the full DNS name of a Service; `domain` is the cluster's service domain."""
    return f"{service}.{namespace}.{domain}"


def job_id(namespace: str, job: str) -> str:
    """Return the value of DI_JOB_ID, which the server's REST paths accept unchanged below
    `job/`."""
    return f"{namespace}/{job}"


def server_url(namespace: str, domain: str = DEFAULT_SERVICE_DOMAIN, *, tls: bool = False) -> str:
    """Return the default DI_SERVER_URL for a release in `namespace`."""
    scheme, port = ("https", SERVER_TLS_PORT) if tls else ("http", SERVER_PORT)
    return f"{scheme}://{service_fqdn(SERVER_NAME, namespace, domain)}:{port}"


def coordinated_server_url(namespace: str) -> str:
    """Return the default ENV_COORDINATED_SERVER_URL for a release in `namespace`."""
    return f"http://{SERVER_NAME}.{namespace}:{COORDINATED_SERVER_PORT}"


def task_nodes_env(task: str) -> str:
    """Return the variable with the FQDNs of one task, indexed by local index."""
    return f"DI_{_variable(task)}_NODES"


def task_service_env(task: str) -> str:
    """Return the variable with the address of a task's Service, `<fqdn>:<port>`."""
    return f"DI_{_variable(task)}_SERVICE"


def port_env(name: str) -> str:
    """Return the variable with the number of a port that a task requests."""
    return f"DI_PORT_{_variable(name)}"


def task_nodes_file_env(task: str) -> str:
    """Return the variable with the path of the file that has the list of `task_nodes_env`."""
    return f"{task_nodes_env(task)}_FILE"


def task_nodes_file_key(task: str) -> str:
    """Return the key of one task's list in the ConfigMap of node lists."""
    return f"tasks.{task}"


def group_file_key(task: str) -> str:
    """Return the key of a process group's data in the ConfigMap of node lists."""
    return f"groups.{task}"


def _variable(name: str) -> str:
    """Return a DNS label as part of a variable's name; different labels give different results."""
    return name.upper().replace("-", "_")
