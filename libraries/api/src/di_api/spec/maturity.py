"""The maturity of each feature, in one table.

docs/reference/maturity.md is generated from it, `kubectl explain` shows the stage of a field, and
tests compare the comments of the chart's values.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Stage(StrEnum):
    """Maturity stage of a feature."""

    ALPHA = "alpha"
    """Off by default. Can change or disappear in any version; little experience under load."""
    BETA = "beta"
    """Tested with a real API server and under faults. Can change, with a note in the changelog."""
    STABLE = "stable"
    """Changes only with a conversion, so that existing manifests and programs keep working."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A feature that a user or an administrator can name.

    Attributes:
        page: page and heading of its description, below docs/.
        switch: setting that enables it, in Markdown.
        fields: fields of the spec that belong only to it, `CLASS.FIELD` in `di_api.spec`.
        options: values of a field that belong only to it, `CLASS.FIELD=VALUE`.
        values: keys of the chart that belong only to it.
    """

    name: str
    stage: Stage
    page: str
    switch: str
    fields: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


FEATURES: Final = (
    Feature(
        name="Jobs with tasks: phases, ranks, restarts, success, deadlines",
        stage=Stage.STABLE,
        page="reference/lifecycle.md#phases",
        switch="always on",
    ),
    Feature(
        name="Checkpoints",
        stage=Stage.STABLE,
        page="reference/dijob.md#checkpoints",
        switch="`spec.checkpoint`",
        fields=("JobSpec.checkpoint",),
    ),
    Feature(
        name="Artifacts",
        stage=Stage.BETA,
        page="how-to/artifacts.md",
        switch="`spec.artifacts`; `di artifacts`, `di cp`",
        fields=("JobSpec.artifacts",),
    ),
    Feature(
        name="Scaling, addresses and reports over REST",
        stage=Stage.STABLE,
        page="reference/rest.md",
        switch="always on; `server.enabled=false` leaves it out",
    ),
    Feature(
        name="Jobs with a coordinator, `v1alpha1` and `v1alpha2`",
        stage=Stage.STABLE,
        page="reference/dijob.md#jobs-with-a-coordinator",
        switch="`spec.coordinated`",
        fields=("JobSpec.coordinated",),
    ),
    Feature(
        name="The package `di_orchestrator`",
        stage=Stage.BETA,
        page="reference/sdk.md",
        switch="`import di_orchestrator`",
    ),
    Feature(
        name="Templates of jobs",
        stage=Stage.ALPHA,
        page="how-to/job-templates.md",
        switch="`di submit --template`; `rbac.clusterTemplates` for those of the cluster",
        values=("rbac.clusterTemplates",),
    ),
    Feature(
        name="Data shards",
        stage=Stage.BETA,
        page="reference/sdk.md#data-shards",
        switch="`di.shards`; `/<id>/shards/<dataset>`",
    ),
    Feature(
        name="The command `di`, and jobs on one machine",
        stage=Stage.BETA,
        page="reference/cli.md",
        switch="`di`, `di run`",
    ),
    Feature(
        name="Own code without an image",
        stage=Stage.BETA,
        page="how-to/own-code.md",
        switch="`spec.code`; `di submit PROGRAM`, `di push`",
        fields=("JobSpec.code",),
    ),
    Feature(
        name="Process groups, of fixed size and elastic, of torch, JAX and none",
        stage=Stage.BETA,
        page="how-to/process-groups.md",
        switch="`tasks[].processGroup`",
        fields=("Task.processGroup",),
    ),
    Feature(
        name="Replicas of several pods",
        stage=Stage.BETA,
        page="how-to/roles.md#a-replica-of-several-pods",
        switch="`tasks[].podsPerReplica`",
        fields=("Task.podsPerReplica", "Task.leaderTemplatePatch"),
    ),
    Feature(
        name="Core and elastic tier",
        stage=Stage.BETA,
        page="how-to/roles.md#core-and-elastic-tier",
        switch="`tasks[].elastic`",
        fields=("Task.elastic",),
    ),
    Feature(
        name="Services and ports of tasks, drains",
        stage=Stage.BETA,
        page="how-to/roles.md#a-service-for-a-task",
        switch="`tasks[].service`, `.ports`, `.drain`",
        fields=("Task.service", "Task.ports", "Task.drain"),
    ),
    Feature(
        name="Companions",
        stage=Stage.BETA,
        page="how-to/roles.md#companions",
        switch="`spec.companions`, of the kinds in `companions.kinds`",
        fields=("JobSpec.companions",),
        values=("companions",),
    ),
    Feature(
        name="Progress policy",
        stage=Stage.BETA,
        page="reference/lifecycle.md#progress",
        switch="`spec.progressPolicy`",
        fields=("JobSpec.progressPolicy",),
    ),
    Feature(
        name="Idle policy",
        stage=Stage.ALPHA,
        page="reference/lifecycle.md#idle-jobs",
        switch="`spec.idlePolicy`; `operator.suspendIdleJobs` for its action `Suspend`, "
        "`operator.scaleDownIdleJobs` for `ScaleDown`",
        fields=("JobSpec.idlePolicy",),
        values=("operator.suspendIdleJobs", "operator.scaleDownIdleJobs"),
    ),
    Feature(
        name="Actions on the completion of a task",
        stage=Stage.BETA,
        page="reference/lifecycle.md#completed-tasks",
        switch="`tasks[].onCompletion`",
        fields=("Task.onCompletion",),
    ),
    Feature(
        name="Expected start and completion",
        stage=Stage.BETA,
        page="reference/lifecycle.md#expected-completion",
        switch="always on for jobs that report their progress",
    ),
    Feature(
        name="The allocator: preemptible jobs and its gangs",
        stage=Stage.BETA,
        page="explanation/allocation.md",
        switch="`spec.preemptible`, `scheduling.gang`; `operator.allocator.policy`",
        fields=("JobSpec.preemptible", "Scheduling.gang"),
        values=("operator.allocator",),
    ),
    Feature(
        name="Queues of the allocator",
        stage=Stage.BETA,
        page="how-to/teams-queues.md",
        switch="`queues` in `operator.allocator.arguments`",
        values=("operator.allocator.arguments",),
    ),
    Feature(
        name="Queues of Kueue",
        stage=Stage.BETA,
        page="how-to/teams.md#kueue",
        switch="the label `kueue.x-k8s.io/queue-name`; `operator.kueue.enabled`",
        values=("operator.kueue",),
    ),
    Feature(
        name="Tasks for autoscalers (DIJobTask)",
        stage=Stage.BETA,
        page="how-to/teams-autoscalers.md",
        switch="`tasks[].scalable`; `operator.jobTasks`",
        fields=("Task.scalable",),
        values=("operator.jobTasks",),
    ),
    Feature(
        name="Disruption budgets of tasks",
        stage=Stage.BETA,
        page="how-to/operations.md#drains-of-nodes",
        switch="`tasks[].maxUnavailable`; `scheduling.disruptionBudgets`",
        fields=("Task.maxUnavailable",),
        values=("scheduling.disruptionBudgets",),
    ),
    Feature(
        name="Dashboard, on a user's machine and in the cluster",
        stage=Stage.BETA,
        page="how-to/dashboard.md",
        switch="`di dashboard`; `dashboard.enabled`",
        values=("dashboard",),
    ),
    Feature(
        name="History",
        stage=Stage.BETA,
        page="how-to/history.md",
        switch="`history.enabled`",
        values=("history",),
    ),
    Feature(
        name="Notifications",
        stage=Stage.BETA,
        page="how-to/operations.md#notifications",
        switch="`operator.notifications.targets`",
        values=("operator.notifications",),
    ),
    Feature(
        name="Taints of suspect nodes",
        stage=Stage.ALPHA,
        page="reference/lifecycle.md#suspect-nodes",
        switch="`operator.suspectTaintPercent`",
        values=("operator.suspectTaintPercent",),
    ),
    Feature(
        name="Traces",
        stage=Stage.BETA,
        page="how-to/operations.md#traces",
        switch="`tracing.endpoint`",
        values=("tracing",),
    ),
    Feature(
        name="Sweeps",
        stage=Stage.ALPHA,
        page="how-to/sweeps.md",
        switch="`di sweep`, `di run` with a DISweep; `operator.sweeps`",
        values=("operator.sweeps",),
    ),
    Feature(
        name="Node checks",
        stage=Stage.ALPHA,
        page="reference/dijob.md#node-checks",
        switch="`tasks[].nodeCheck`",
        fields=("Task.nodeCheck",),
    ),
    Feature(
        name="Standby pods",
        stage=Stage.ALPHA,
        page="how-to/roles.md#warm-stand-by",
        switch="`tasks[].standby`",
        fields=("Task.standby",),
    ),
    Feature(
        name="Process groups of MPI, PaddlePaddle, TensorFlow and XGBoost",
        stage=Stage.ALPHA,
        page="how-to/process-groups.md#frameworks",
        switch="`mpi`, `paddle`, `tensorflow` or `xgboost` as `tasks[].processGroup.framework`",
        options=tuple(
            f"ProcessGroup.framework={each}" for each in ("mpi", "paddle", "tensorflow", "xgboost")
        ),
    ),
    Feature(
        name="Topology",
        stage=Stage.ALPHA,
        page="how-to/teams.md#topology",
        switch="`scheduling.topology`",
        fields=("Scheduling.topology",),
    ),
    Feature(
        name="Gang schedulers: scheduler-plugins, Volcano, Kubernetes' own",
        stage=Stage.ALPHA,
        page="how-to/teams-gangs.md",
        switch="`scheduling.gangScheduler`, one of `scheduling.gangSchedulers`",
        fields=("Scheduling.gangScheduler", "Scheduling.queue"),
        values=("scheduling.gangSchedulers",),
    ),
    Feature(
        name="Provisioning requests",
        stage=Stage.ALPHA,
        page="how-to/teams-autoscalers.md#nodes",
        switch="`scheduling.provisioningClassName`; `scheduling.provisioningRequests`",
        fields=("Scheduling.provisioningClassName",),
        values=("scheduling.provisioningRequests",),
    ),
    Feature(
        name="MultiKueue, jobs in several clusters",
        stage=Stage.ALPHA,
        page="how-to/teams-clusters.md",
        switch="`spec.managedBy`",
        fields=("JobSpec.managedBy",),
    ),
    Feature(
        name="GPUs of several types",
        stage=Stage.ALPHA,
        page="explanation/allocation.md#gpus-of-several-kinds",
        switch="`operator.allocator.kindLabel`",
        values=("operator.allocator.kindLabel",),
    ),
    Feature(
        name="Binding without the scheduler",
        stage=Stage.ALPHA,
        page="explanation/allocation.md#beside-the-scheduler",
        switch="`operator.allocator.binding=Direct`",
        values=("operator.allocator.binding",),
    ),
)
_OF_FIELDS: Final = {field: each.stage for each in FEATURES for field in each.fields}


def stage_of(field: str) -> Stage | None:
    """Return the stage of a field, `CLASS.FIELD`; None for a field that belongs to no single
    feature.
    """
    return _OF_FIELDS.get(field)
