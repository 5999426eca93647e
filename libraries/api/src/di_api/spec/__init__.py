"""The DIJob spec: each field is declared once, on the dataclass attribute that holds its parsed
value.

A new field is an attribute of one of these dataclasses (see `di_api.spec.declared` for its parts);
`make generate` updates the CRD and docs/reference/dijob.md.
"""

from di_api.spec.artifact import Artifact
from di_api.spec.bounds import MAX_INT64, MAX_PODS, MAX_REPLICAS, MAX_VACANT
from di_api.spec.checkpoint import Checkpoint
from di_api.spec.code import Code
from di_api.spec.coordinated import Coordinated, Replica, Role
from di_api.spec.drain import Drain
from di_api.spec.elastic_tier import ElasticTier
from di_api.spec.failure import (
    ExitCodeOperator,
    ExitCodes,
    FailureAction,
    FailurePolicy,
    FailureRule,
    MemoryGrowth,
)
from di_api.spec.job import (
    CleanPodPolicy,
    GangScheduler,
    JobSpec,
    Priority,
    Scheduling,
    SuccessOperator,
    SuccessPolicy,
)
from di_api.spec.node_check import NodeCheck, NodeCheckAction
from di_api.spec.process_group import Framework, ProcessGroup
from di_api.spec.progress import IdleAction, IdlePolicy, ProgressAction, ProgressPolicy
from di_api.spec.task import CompletionAction, Task, TaskType, tasks_by_pod
from di_api.spec.task_service import (
    PortScope,
    Protocol,
    Selected,
    ServicePort,
    TaskPort,
    TaskService,
)
from di_api.spec.template import Template
from di_api.spec.topology import Colocate, Topology

__all__ = [
    "MAX_INT64",
    "MAX_PODS",
    "MAX_REPLICAS",
    "MAX_VACANT",
    "Artifact",
    "Checkpoint",
    "CleanPodPolicy",
    "Code",
    "Colocate",
    "CompletionAction",
    "Coordinated",
    "Drain",
    "ElasticTier",
    "ExitCodeOperator",
    "ExitCodes",
    "FailureAction",
    "FailurePolicy",
    "FailureRule",
    "Framework",
    "GangScheduler",
    "IdleAction",
    "IdlePolicy",
    "JobSpec",
    "MemoryGrowth",
    "NodeCheck",
    "NodeCheckAction",
    "PortScope",
    "Priority",
    "ProcessGroup",
    "ProgressAction",
    "ProgressPolicy",
    "Protocol",
    "Replica",
    "Role",
    "Scheduling",
    "Selected",
    "ServicePort",
    "SuccessOperator",
    "SuccessPolicy",
    "Task",
    "TaskPort",
    "TaskService",
    "TaskType",
    "Template",
    "Topology",
    "tasks_by_pod",
]
