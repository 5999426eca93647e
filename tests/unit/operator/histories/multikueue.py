"""MultiKueue, in a manager cluster: which other cluster runs the job, and the status from there.

In a worker cluster: the Workloads of jobs that it creates there.
"""

from __future__ import annotations

from random import Random
from typing import Final

from di_api.conditions import condition_of
from di_api.ownership import controlling_job
from di_api.phase import has_finished
from di_api.timestamps import format_time, parse_time
from di_kube.resources import DIJOBS, WORKLOADS
from di_operator.kueue.bodies import Standing, WorkloadRecipe
from di_operator.kueue.portions import core_pod_sets, portions_of
from di_operator.lifecycle.observed.specs import read_spec
from tests.unit.operator.fake_api import Object
from tests.unit.operator.histories.api import NAMESPACE, WatchedApi
from tests.unit.operator.histories.queue import is_admitted, set_conditions
from tests.unit.operator.virtual_time import VirtualClock

CONTROLLER: Final = "kueue.x-k8s.io/multikueue"
CHOSEN_AFTER: Final = 2.0
"""Seconds from the quota to the choice of a cluster, which admits the job first, at least."""


def send_workload(api: WatchedApi, name: str, job: str, spec: Object) -> None:
    """Create the Workload of a job that another cluster sends, as the operator there did."""
    # A limit that cannot be read changes no Workload.
    spec = {**spec, "backoffLimit": 1}
    sender = {"metadata": {"name": job, "namespace": NAMESPACE, "uid": "there"}, "spec": spec}
    read = read_spec(sender)
    pod_sets = core_pod_sets(portions_of(read, read.tasks, placed=None, whole=True))
    standing = Standing(queue="team", priority=0)
    recipe = WorkloadRecipe(
        job=sender, name=name, task=None, standing=standing, pod_sets=pod_sets, sent="1"
    )
    body = recipe.build()
    for field in ("ownerReferences", "finalizers"):
        del body["metadata"][field]
    api.put(WORKLOADS, NAMESPACE, body)


def dispatch_some(api: WatchedApi, clock: VirtualClock, random: Random, *, is_ending: bool) -> None:
    """Choose a cluster for Workloads with quota, and copy the status of the job there."""
    jobs = {job["metadata"]["uid"]: job for job in api.all(DIJOBS.kind)}
    for name, body in [*api.stored(WORKLOADS.kind).items()]:
        job = jobs.get((controlling_job(body) or {}).get("uid", ""))
        is_waiting = not is_admitted(api, name) or "deletionTimestamp" in body["metadata"]
        if job is None or is_waiting or random.random() < 0.5:
            continue
        if "clusterName" in body["status"]:
            since = condition_of(body, "Admitted")["lastTransitionTime"]
            if not has_finished(job):
                _copy(api, job, "Succeeded" if is_ending else "Running", since)
            continue
        reserved = parse_time(condition_of(body, "QuotaReserved")["lastTransitionTime"])
        assert reserved is not None
        if (clock.now() - reserved).total_seconds() > CHOSEN_AFTER:
            # MultiKueue copies the status a moment before it records the cluster.
            _copy(api, job, "Starting", format_time(clock.now()))
            status = {**body["status"], "clusterName": "east"}
            api.put(WORKLOADS, NAMESPACE, {**body, "status": status})
            set_conditions(api, clock, name, Admitted=True)


def _copy(api: WatchedApi, job: Object, phase: str, since: str) -> None:
    """Copy a status; `since`: when the other cluster has admitted the job."""
    known = {"status": "True", "reason": f"Job{phase}", "message": "there"}
    admitted = {"type": "Queued", "status": "False", "reason": "Admitted", "message": ""}
    conditions = [{**admitted, "lastTransitionTime": since}, {"type": phase, **known}]
    api.put(DIJOBS, NAMESPACE, {**job, "status": {"phase": phase, "conditions": conditions}})
