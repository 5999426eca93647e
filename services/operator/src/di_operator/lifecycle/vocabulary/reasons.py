"""The reasons of conditions and events of a job, each declared once.

An event takes its reason and type from here, so an undeclared one cannot be emitted.
docs/reference/events.md is generated from this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from di_api.phase import Phase

EventType: TypeAlias = Literal["Normal", "Warning"]
"""Type of an event. A Warning may need action by a user; it is sent even without event budget."""


class _Declared(StrEnum):
    """A reason with the type of its event and the situation in which it is given."""

    event_type: EventType
    when: str

    def __new__(cls, text: str, event_type: EventType, when: str) -> _Declared:
        """Create the member with ``text`` as its value and the others as attributes."""
        member = str.__new__(cls, text)
        member._value_ = text
        member.event_type = event_type
        member.when = when
        return member


class Reason(_Declared):
    """Reason of a phase, or of an action on the job."""

    # Reasons of a phase that has no more specific one.
    JOB_PENDING = (
        "JobPending",
        "Normal",
        "pods wait: for another task, or for pods or a Service of an earlier job of that name to "
        "be gone",
    )
    JOB_STARTING = "JobStarting", "Normal", "all objects are created"
    JOB_RUNNING = (
        "JobRunning",
        "Normal",
        "every pod is ready, or has succeeded already; or the coordinator is",
    )
    JOB_RESTARTING = (
        "JobRestarting",
        "Warning",
        "pods failed and are being replaced; `restarts` has grown by one for all of them",
    )
    JOB_RESCHEDULING = (
        "JobRescheduling",
        "Normal",
        "the number of replicas changed, or pods were lost without failing; `reschedules` has "
        "grown by one",
    )
    POD_REJECTED = (
        "PodRejected",
        "Warning",
        "Rescheduling: a pod failed before any of its containers ran, mostly because the kubelet "
        "of its node refused it; the message has the kubelet's reason, and when the pod is created "
        "again. The delays grow from 10 seconds to five minutes",
    )
    RESTART_REQUESTED = (
        "RestartRequested",
        "Normal",
        "Restarting: `code` of the job, or `restartedAt` of the job or of a task was changed, and "
        "all of its pods are being replaced; no restart is counted",
    )
    JOB_SUCCEEDED = (
        "JobSucceeded",
        "Normal",
        "all replicas of the present spec have succeeded, those of the success policy, or the "
        "coordinator",
    )
    JOB_FAILED = (
        "JobFailed",
        "Warning",
        "a pod failed and `backoffLimit` restarts are used, or the coordinator failed",
    )

    # Reasons of a phase that replace those above.
    JOB_SUSPENDED = "JobSuspended", "Normal", "Pending: `suspend: true`"
    JOB_QUEUED = (
        "JobQueued",
        "Normal",
        "Pending: its [queue](lifecycle.md#queues) has not admitted it, or has evicted it; the "
        "condition `Queued` has Kueue's message",
    )
    WORKLOAD_REFUSED = (
        "WorkloadRefused",
        "Warning",
        "Kueue or the API server refused a Workload of the job; tried again every ten seconds",
    )
    WAITING_FOR_NODES = (
        "WaitingForNodes",
        "Normal",
        "Pending: other jobs have the nodes. Or pods have no node, and the cluster's nodes could "
        "run the job if they had no other pods; the message has the scheduler's own",
    )
    QUEUE_QUOTA_EXCEEDED = (
        "QueueQuotaExceeded",
        "Normal",
        "Pending: the allocator's quota of the namespace, or a ResourceQuota, leaves less than the "
        "job needs at least; the message has the resource, what the namespace has, its quota, and "
        "what is needed",
    )
    REFUSED_BY_SCHEDULER = (
        "RefusedByScheduler",
        "Normal",
        "Pending: the cluster's scheduler refused the job's pods where the allocator placed them; "
        "the message has its words. These nodes are tried again after pauses that grow from 15 "
        "seconds to ten minutes",
    )
    GRANT_WITHDRAWN = (
        "GrantWithdrawn",
        "Warning",
        "Pending: the API server refused an object that the job needs to use its assigned nodes, "
        "and the allocator took them back; or it refused the job's pods in a dry run before any "
        "assignment. The message has the refusal and the time of the next attempt. The delays grow "
        "from 15 seconds to ten minutes",
    )
    UNSCHEDULABLE = (
        "Unschedulable",
        "Warning",
        "Pending: no node could ever run it; the message names the resource, the nodes that come "
        "closest, and what they lack. Or pods are there and have no node; the message is the "
        "scheduler's own, or names the scheduler that has not considered a pod for a minute",
    )
    NOT_ALLOCATABLE = (
        "NotAllocatable",
        "Normal",
        "Pending: without nodes, and the allocator cannot read it",
    )
    QUOTA_EXCEEDED = (
        "QuotaExceeded",
        "Warning",
        "Pending: a quota refused a pod or a companion; tried again after 2 s, then after as long "
        "as the job has waited so far, 60 s at most. Of pods of an [elastic "
        "tier](../how-to/roles.md#core-and-elastic-tier) the phase does not change",
    )
    CREATE_FORBIDDEN = (
        "CreateForbidden",
        "Warning",
        "Pending: admission or RBAC refused a pod or a companion; tried again in the same way, and "
        "of pods of an elastic tier the phase stays",
    )
    NODE_LISTS_TOO_LONG = (
        "NodeListsTooLong",
        "Warning",
        "Pending, Restarting or Rescheduling: the [lists of nodes]"
        "(lifecycle.md#ranks-and-node-lists) would not fit their ConfigMap: no pod is made until "
        "there are fewer replicas, and those that are there run on",
    )
    INVALID_SPEC = (
        "InvalidSpec",
        "Warning",
        "Failed: the spec of a job that was never started breaks the rules (the webhook was off); "
        "no pods",
    )
    INVALID_TEMPLATE = (
        "InvalidTemplate",
        "Warning",
        "Failed: the API server refused a pod as invalid; the message is its own",
    )
    POD_NAME_CONFLICT = (
        "PodNameConflict",
        "Warning",
        "a pod, Service or ConfigMap of a needed name belongs to another owner; it is not touched, "
        "and the job [waits](lifecycle.md#edited-by-hand) until the name is free",
    )
    INVALID_COMPANION = (
        "InvalidCompanion",
        "Warning",
        "the API server refused a [companion](../how-to/roles.md#companions) as invalid; the "
        "message has its words. Failed, or, of a job that has been started, waiting",
    )
    COMPANION_CONFLICT = (
        "CompanionConflict",
        "Warning",
        "an object of the name of a companion belongs to another owner; it is not touched, and the "
        "job waits until the name is free",
    )
    COMPANION_KIND_MISSING = (
        "CompanionKindMissing",
        "Warning",
        "Pending: this cluster does not have the kind of a companion, or the operator may not "
        "make it; tried again as after `QuotaExceeded`",
    )
    SCHEDULING_KIND_MISSING = (
        "SchedulingKindMissing",
        "Warning",
        "Pending: nothing in this cluster serves the kind that `gangScheduler` or "
        "`provisioningClassName` asks for; tried again as after `QuotaExceeded`",
    )
    SCHEDULING_OBJECT_REFUSED = (
        "SchedulingObjectRefused",
        "Warning",
        "Pending: an object for a scheduler was refused, by the rights of the operator (the "
        "chart's `scheduling`), by admission, or because another owner's has its name; tried "
        "again as after `QuotaExceeded`",
    )
    POD_GROUP_PENDING = (
        "PodGroupPending",
        "Warning",
        "the scheduler of the job's PodGroup binds none of its pods yet; the message has its words",
    )
    DEADLINE_EXCEEDED = (
        "DeadlineExceeded",
        "Warning",
        "Failed: the job, or one of its tasks, was active for longer than `activeDeadlineSeconds`",
    )
    PENDING_TIMEOUT = (
        "PendingTimeout",
        "Warning",
        "Failed: a task had fewer pods ready than its minimum for `pendingTimeoutSeconds`; the "
        "message has what keeps them from running",
    )
    NO_PROGRESS = (
        "NoProgress",
        "Warning",
        "Failed: the job hangs, and its `progressPolicy` says so or `backoffLimit` restarts are "
        "used",
    )

    TASK_COMPLETED = (
        "TaskCompleted",
        "Warning",
        "Failed: a task with `onCompletion` has succeeded, which ends the job, or would restart it "
        "once more than `backoffLimit` allows",
    )
    POD_FAILURE_POLICY = (
        "PodFailurePolicy",
        "Warning",
        "Failed: a pod failed as a rule with `FailJob` says; the message names both",
    )
    OOM_LIMIT = (
        "OOMLimit",
        "Warning",
        "Failed: a container was OOM-killed with the most memory that `growMemory`, or the largest "
        "node, allows it",
    )
    REPLICA_BACKOFF_LIMIT = (
        "ReplicaBackoffLimit",
        "Warning",
        "Failed: one replica has failed more often than `failurePolicy.replicaBackoffLimit`",
    )
    TASK_BACKOFF_LIMIT = (
        "TaskBackoffLimit",
        "Warning",
        "Failed: pods of a task have failed more often than its own `backoffLimit`",
    )

    # Reasons of any phase while a pod cannot run.
    IMAGE_PULL_BACK_OFF = (
        "ImagePullBackOff",
        "Warning",
        "the image of a container cannot be pulled (ErrImagePull as well); the message is the "
        "kubelet's own",
    )
    ERR_IMAGE_NEVER_PULL = (
        "ErrImageNeverPull",
        "Warning",
        "the image of a container is not on the node, and its pull policy is Never",
    )
    INVALID_IMAGE_NAME = "InvalidImageName", "Warning", "the name of an image is invalid"
    CREATE_CONTAINER_CONFIG_ERROR = (
        "CreateContainerConfigError",
        "Warning",
        "a ConfigMap, a Secret or a key in them that a container refers to does not exist",
    )
    CRASH_LOOP_BACK_OFF = (
        "CrashLoopBackOff",
        "Warning",
        "a container ends again and again; the message has its exit code and its restarts",
    )
    CONTAINER_WAITING = (
        "ContainerWaiting",
        "Warning",
        "a container waits for something else; the message has the kubelet's reason and words",
    )
    VOLUME_NOT_BOUND = (
        "VolumeNotBound",
        "Warning",
        "a pod has no node because of its PersistentVolumeClaim, which is missing or not bound",
    )
    CONTAINER_CREATING = (
        "ContainerCreating",
        "Warning",
        "the volumes or the network of a pod have not been ready on its node for a minute: a "
        "ConfigMap, Secret or disk that is missing; the pod's own events say which",
    )
    INIT_CONTAINER_RUNNING = (
        "InitContainerRunning",
        "Normal",
        "an init container of a pod has been running for a minute, and the other containers wait "
        "for it",
    )
    SIDECAR_ENDED = (
        "SidecarEnded",
        "Warning",
        "a container beside the main one has ended for good, and the main one runs on; the message "
        "has its exit code",
    )
    NODE_NOT_FOUND = (
        "NodeNotFound",
        "Warning",
        "a pod is bound to a node that does not exist, and was lost for it before: mostly a "
        "`nodeName` in the template of its task",
    )
    SCHEDULING_GATED = "SchedulingGated", "Normal", "a pod has scheduling gates that are not open"

    # Reasons that only events have.
    MEMORY_GROWN = (
        "MemoryGrown",
        "Normal",
        "a container was OOM-killed, and the next pod of its replica gets more memory",
    )
    SUCCESS_CRITERIA_MET = (
        "SuccessCriteriaMet",
        "Normal",
        "the tasks of the [success policy](lifecycle.md#success) have succeeded, and the other "
        "pods get SIGTERM",
    )
    GROUP_FORMED = (
        "GroupFormed",
        "Normal",
        "a [process group](../how-to/process-groups.md#generations) has new members; the message "
        "has its generation",
    )
    PODS_CREATED = "PodsCreated", "Normal", "pods were created while others still wait"
    PODS_DELETED = (
        "PodsDeleted",
        "Normal",
        "pods of the job were deleted: to be replaced, scaled away, suspended, preempted, or after "
        "its end by `cleanPodPolicy`",
    )
    REPLICAS_REPLACED = (
        "ReplicasReplaced",
        "Warning",
        "replicas that a coordinator asked for failed or were lost; the message names the first",
    )
    ELASTIC_REPLICAS_LOST = (
        "ElasticReplicasLost",
        "Normal",
        "replicas of an [elastic tier](../how-to/roles.md#core-and-elastic-tier) were evicted, "
        "preempted, deleted or on a node that was lost; the message names the first",
    )
    STAND_IN = (
        "StandIn",
        "Normal",
        "a pod that [stood by](../how-to/roles.md#warm-stand-by) has taken the place of a replica; "
        "the message names the first",
    )
    STANDBY_FAILED = (
        "StandbyFailed",
        "Warning",
        "a pod that [stands by](../how-to/roles.md#warm-stand-by) failed and is replaced; no "
        "restart is counted",
    )
    NAME_CONFLICT = (
        "NameConflict",
        "Warning",
        "goes with `PodNameConflict`, and names the object in the way",
    )
    SCALE_REFUSED = (
        "ScaleRefused",
        "Warning",
        "a number of replicas that was written to a [DIJobTask](../how-to/teams-autoscalers.md) "
        "is not possible; the message has the reason, and what the task has in place of it",
    )
    NOT_SCALABLE = (
        "NotScalable",
        "Warning",
        "the name of the [DIJobTask](../how-to/teams-autoscalers.md) of a task belongs to another "
        "object, which is not touched",
    )
    AGGREGATOR_CONFIG_MISSING = (
        "AggregatorConfigMissing",
        "Warning",
        "an aggregator waits for the AggregatorConfig, which does not exist",
    )
    NODE_LISTS_RESTORED = (
        "NodeListsRestored",
        "Warning",
        "the ConfigMap of the node lists was deleted or edited by hand, and is written again",
    )
    METADATA_RESTORED = (
        "MetadataRestored",
        "Warning",
        "labels or annotations of an object were edited by hand, and are put back",
    )
    SERVICE_RESTORED = (
        "ServiceRestored",
        "Warning",
        "the selector or the ports of a Service of the job were edited by hand, and are put right",
    )
    PHASE_NOT_CONFIRMED = (
        "PhaseNotConfirmed",
        "Warning",
        "a finished `status.phase` was written by hand: no condition confirms it",
    )


class Problem(_Declared):
    """Type of a condition for a problem of the job; its event has the same reason."""

    SPEC_INVALID = (
        "SpecInvalid",
        "Warning",
        "the spec of a job that has been started breaks rules of this version, or cannot be read",
    )
    PODS_REFUSED = (
        "PodsRefused",
        "Warning",
        "the API server would refuse a pod of a job that is suspended or waits in a queue, by a "
        "[dry run](lifecycle.md#dry-runs-of-pods); the message is its own, the condition's reason "
        "`InvalidTemplate` or `CreateForbidden`",
    )
    NOT_ALLOCATABLE = (
        "NotAllocatable",
        "Warning",
        "the allocator cannot read the job, or the policy fails on it: it keeps the nodes it has "
        "and gets no others",
    )
    INSUFFICIENT_REPLICAS = (
        "InsufficientReplicas",
        "Warning",
        "a [process group](../how-to/process-groups.md#generations) had fewer members than "
        "`minReplicas` when its deadline passed: it forms again when more have joined",
    )
    NODE_CHECK_FAILED = (
        "NodeCheckFailed",
        "Warning",
        "some nodes of a task took more than twice the median in its `nodeCheck`, a check did not "
        "say how long it took, or no pod could exchange data with another",
    )
    NODE_SUSPECT = (
        "NodeSuspect",
        "Warning",
        "a node that the job runs on or avoids is [avoided by other jobs](lifecycle.md"
        "#suspect-nodes) too; the message names it. Its hardware is likely the cause",
    )
    HUNG = (
        "Hung",
        "Warning",
        "the step that the job reports does not grow for the time of its `progressPolicy`",
    )
    NO_SIGNAL = (
        "NoSignal",
        "Warning",
        "the job has a `progressPolicy`, and never reported a step; nothing is done about it",
    )
    IDLE = (
        "Idle",
        "Warning",
        "the learners of the [job](lifecycle.md#idle-jobs) have waited for the time of its "
        "`idlePolicy`, or its GPUs were [idle](lifecycle.md#idle-gpus). The condition's reason is "
        "`LearnersWait`, `GPUsIdle` in a policy without `waitingShare`, `SuspendedByPolicy` if the "
        "policy suspends the job, or `ScaledDownByPolicy` if it removes a learner",
    )
    MEMBER_SILENT = (
        "MemberSilent",
        "Warning",
        "a pod that runs and has sent [heartbeats](lifecycle.md#heartbeats) sends none any more; "
        "the message names it",
    )
    REPORT_REJECTED = (
        "ReportRejected",
        "Warning",
        "the last report to di-server was invalid, and was dropped; the message says "
        "which key and why",
    )
    NOTIFY_TARGET_UNKNOWN = (
        "NotifyTargetUnknown",
        "Warning",
        "the annotation `diengine/notify` names a [target](../how-to/operations.md#notifications) "
        "that the operator does not have; no notification is sent to that name",
    )
    POD_NOT_ENDING = (
        "PodNotEnding",
        "Warning",
        "a pod that was deleted has not ended 30 seconds after its grace period; the message has "
        "since when, and what holds it: a finalizer, its kubelet or its node",
    )
    RECONCILE_FAILED = (
        "ReconcileFailed",
        "Warning",
        "the operator failed on the job by a defect of its own and retries, after pauses that "
        "grow to 15 seconds; the message has the error",
    )


OF_PHASES: Final[Mapping[Phase, Reason]] = {phase: Reason[f"JOB_{phase.name}"] for phase in Phase}
"""The default reason of each phase."""
