"""The operator reads and decides about whatever an API server has taken."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from di_api.companions import CompanionKind
from di_operator.allocator.observe.changes import Changes
from di_operator.allocator.observe.cluster_reader import ClusterReader
from di_operator.allocator.policies.binpack import BinpackPolicy
from di_operator.cluster import informer_state
from di_operator.job_tasks.keeper import index_owner
from di_operator.job_tasks.scalable import has_scalable_tasks, scalable_tasks
from di_operator.job_tasks.steps import steps
from di_operator.lifecycle.decide import decide
from di_operator.lifecycle.needs import needs
from di_operator.lifecycle.observed.pods import Pod, failure_text, loss_record
from di_operator.lifecycle.observed.sources import Sources
from di_operator.lifecycle.observed.specs import read_spec
from di_operator.lifecycle.read import read_snapshot
from di_operator.lifecycle.vocabulary.decision import Settings
from tests.poison import FEW
from tests.poison.objects import (
    POD_TEMPLATE,
    Object,
    belonging,
    jobs,
    metadata,
    nodes,
    of_core,
    pods,
    wild,
    wild_jobs,
)
from tests.poison.schema import admitted

NOW = datetime(2030, 1, 1, 0, 0, 30, tzinfo=UTC)
SETTINGS = Settings(
    service_domain="svc.cluster.local",
    server_url="http://di-server",
    coordinated_server_url="http://di-server",
    token_audience="di-server",
    companion_kinds=(
        CompanionKind(api_version="v1", kind="ConfigMap", resource="configmaps"),
        CompanionKind(api_version="x.org/v1", kind="Pool", resource="pools"),
    ),
)
STEPS = 4
OBJECTS = st.lists(pods(), max_size=2)


def live_through(job: Object, *, aggregator: Any, others: dict[str, Any]) -> None:
    """Let the operator look at a job again and again, as if nothing but its status changed."""
    for _ in range(STEPS):
        sources = Sources(**others, aggregator=aggregator, companions={})
        snapshot = read_snapshot(job, sources)
        needs(snapshot, NOW, SETTINGS)
        decision = decide(snapshot, NOW, SETTINGS)
        for action in decision.actions:
            assert json.dumps(getattr(action, "body", {}))
        if decision.status is None:
            return
        job = {**job, "status": json.loads(json.dumps(decision.status))}


@FEW
@given(
    job=jobs() | wild_jobs(),
    found=OBJECTS,
    services=st.lists(of_core("Service"), max_size=2),
    configmaps=st.lists(of_core("ConfigMap"), max_size=2),
    aggregator=st.none() | admitted(POD_TEMPLATE, {}),
)
def test_every_job_gets_a_decision_beside_odd_objects(
    job: Object,
    found: list[Object],
    services: list[Object],
    configmaps: list[Object],
    aggregator: Any,
) -> None:
    uid = job["metadata"]["uid"]
    others = {
        "pods": [informer_state.transform_pod(belonging(each, uid)) for each in found],
        "services": [informer_state.transform(belonging(each, uid)) for each in services],
        "configmaps": [informer_state.transform(belonging(each, uid)) for each in configmaps],
    }
    job["metadata"].pop("deletionTimestamp", None)
    live_through(dict(informer_state.transform_job(job)), aggregator=aggregator, others=others)


@FEW
@given(
    jobs() | wild_jobs(),
    OBJECTS,
    st.lists(wild(st.builds(lambda head: {"metadata": head}, metadata())), max_size=2),
)
def test_every_job_is_synchronized_with_odd_job_tasks(
    job: Object, found: list[Object], others: list[Object]
) -> None:
    uid = job["metadata"]["uid"]
    job["metadata"].pop("deletionTimestamp", None)
    kept = dict(informer_state.transform_job(job))
    has_scalable_tasks(kept)
    names = [task.object_name for task in scalable_tasks(kept)]
    beside = [informer_state.transform(belonging(each, uid)) for each in others]
    for one, name in zip(beside, names, strict=False):
        one["metadata"]["name"] = name
    for one in beside:
        index_owner(one)
    owned = [informer_state.transform_pod(belonging(each, uid)) for each in found]
    for step in steps(kept, beside, owned, read_pod=Pod.read):
        assert json.dumps(dataclasses.asdict(step))


@FEW
@given(pods())
def test_every_pod_is_kept_and_read(pod: Object) -> None:
    for transformed in (
        informer_state.transform_pod(json.loads(json.dumps(pod))),
        informer_state.transform_other_pod(json.loads(json.dumps(pod))),
    ):
        list(informer_state.index_job(transformed))
        read = Pod.read(transformed)
        assert (read.name, read.uid) == (pod["metadata"]["name"], pod["metadata"]["uid"])
        assert read.has_ended in (True, False)
        assert read.node_is_lost in (True, False)
        assert (read.incarnation == read.uid) is (read.failures == 0)
        assert read.is_down in (True, False)
        assert read.signs.goes_on is read.goes_on
        assert failure_text(read)
        assert json.dumps(loss_record(read, NOW))


@FEW
@given(st.lists(jobs(), max_size=2), OBJECTS, OBJECTS, st.lists(nodes(), max_size=2))
def test_the_allocator_can_read_every_node_and_every_pod(
    some: list[Object], labelled: list[Object], others: list[Object], found: list[Object]
) -> None:
    by_name = {job["metadata"]["name"]: informer_state.transform_job(job) for job in some}
    reader = ClusterReader(read_spec)
    reader.take(
        Changes.all(
            jobs=by_name.values(),
            departed=(),
            pods=[informer_state.transform_pod(pod) for pod in labelled],
            others=[informer_state.transform_other_pod(pod) for pod in others],
            nodes=[informer_state.transform_node(node) for node in found],
        )
    )
    scheduling = reader.read(granted={}, now=NOW)
    assert not scheduling.unreadable
    answer = BinpackPolicy().optimize(scheduling.jobs, scheduling.nodes, scheduling.held)
    assert set(answer) == set(scheduling.jobs)
