"""The causes that an explanation can name."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """The cause of a job's state."""

    # The request itself is wrong.
    WRONG_NAME = "WrongName"
    WEBHOOK_DOWN = "WebhookDown"
    NOT_ALLOWED = "NotAllowed"
    INVALID_SPEC = "InvalidSpec"
    NAME_TAKEN = "NameTaken"
    API_SERVER_AWAY = "ApiServerAway"

    # Pods cannot be created.
    QUOTA = "Quota"
    SERVICE_ACCOUNT = "ServiceAccount"
    REFUSED = "Refused"
    DEPENDS_ON = "DependsOn"
    QUEUE = "Queue"
    SUSPENDED = "Suspended"
    MISSING_KIND = "MissingKind"

    # Pods get no node.
    TAINT = "Taint"
    CORDONED = "Cordoned"
    NO_ROOM = "NoRoom"
    NO_SUCH_NODE = "NoSuchNode"
    VOLUME = "Volume"
    SCHEDULING_GATE = "SchedulingGate"
    NO_SCHEDULER = "NoScheduler"
    RESOURCE_CLAIM = "ResourceClaim"

    # Pods cannot start.
    IMAGE = "Image"
    CONFIG_MISSING = "ConfigMissing"
    NOT_MADE = "NotMade"
    CANNOT_EXECUTE = "CannotExecute"
    CODE = "Code"
    INIT_CONTAINER = "InitContainer"
    NOT_PREPARED = "NotPrepared"
    PROBE = "Probe"

    # Pods ended.
    OUT_OF_MEMORY = "OutOfMemory"
    EVICTED = "Evicted"
    OVER_LIMIT = "OverLimit"
    REJECTED = "Rejected"
    SIDECAR = "Sidecar"
    PREEMPTED = "Preempted"
    NODE_LOST = "NodeLost"
    POD_NOT_ENDING = "PodNotEnding"
    CRASH_LOOP = "CrashLoop"
    PROGRAM_FAILED = "ProgramFailed"
    BACKOFF_LIMIT = "BackoffLimit"
    FAILURE_RULE = "FailureRule"

    # The job as a whole.
    DEADLINE = "Deadline"
    HUNG = "Hung"
    IDLE = "Idle"
    MEMBER_SILENT = "MemberSilent"
    PENDING_TIMEOUT = "PendingTimeout"
    BEING_DELETED = "BeingDeleted"
    OPERATOR_SILENT = "OperatorSilent"
    OPERATOR_FAILED = "OperatorFailed"
    STARTING = "Starting"
    SCALED = "Scaled"
    RESTARTED = "Restarted"
    ELSEWHERE = "Elsewhere"
    RUNNING = "Running"
    NOT_REPORTING = "NotReporting"
    SUCCEEDED = "Succeeded"
    UNKNOWN = "Unknown"
