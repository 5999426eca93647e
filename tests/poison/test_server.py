"""di-server reads, answers and scales any object that an API server has taken, or refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from di_api.coordinated import port_of
from di_api.spec import Role
from di_server.coordination import plans
from di_server.coordination.checks import check_coordinated
from di_server.coordination.listing import listing
from di_server.coordination.requests import Demand, RoleDemand
from di_server.jobs.addresses import addresses
from di_server.jobs.profilings import Report, status_patch
from di_server.jobs.scaling import ScalingPatch, ScalingRequest, decide
from di_server.model.job import Job
from di_server.problems import Problem
from di_server.storage import transforms
from tests.poison import FEW
from tests.poison.objects import POD_TEMPLATE, Object, belonging, jobs, nodes, pods
from tests.poison.schema import admitted

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ONE_MORE = Demand(
    collectors=RoleDemand(1, {"cpu": "1"}), learners=RoleDemand(1, {"nvidia.com/gpu": 2})
)


@FEW
@given(job=jobs(), found=st.lists(pods(), max_size=3), key=st.sampled_from([None, "learner", "x"]))
def test_every_job_is_answered_for_or_refused(
    job: Object, found: list[Object], key: str | None
) -> None:
    own = [transforms.transform_pod(belonging(pod, job["metadata"]["uid"])) for pod in found]
    # From the cache and as the API server has it: what is transformed away makes no difference.
    for seen in (job, transforms.transform_job(job)):
        assert len(addresses(seen, own)) < 100
        with suppress(Problem):
            written = decide(seen, ScalingRequest(1, key), None)
            assert isinstance(written, ScalingPatch)
            assert json.dumps(list(written.operations))
        merged = status_patch(seen, [Report({"steps": 1}, lambda _: None)], NOW)
        assert json.dumps(merged.patch)


@FEW
@given(jobs())
def test_every_job_is_recognised_as_coordinated_or_not(job: Object) -> None:
    rng = Random(1)
    acts: tuple[Callable[[Job], plans.Plan], ...] = (
        lambda job: plans.add(job, ONE_MORE, plans.NameGenerator(job, rng), node_gpus=1),
        lambda job: plans.remove(job, ONE_MORE),
        lambda job: plans.replace(
            job, {r.name for r in job.replicas}, plans.NameGenerator(job, rng)
        ),
    )
    for seen in (Job(job), Job(transforms.transform_job(job))):
        for act in acts:
            with suppress(Problem):
                check_coordinated(seen)
                assert json.dumps(list(plans.patch(seen, act(seen))))
        assert seen.has_ended in (True, False)
        for pod in (seen.coordinator, *seen.aggregators):
            assert json.dumps(listing(seen, seen.replicas, pod, aggregator_port=22272))


@FEW
@given(node=nodes(), pod=pods(), template=admitted(POD_TEMPLATE, {}))
def test_nodes_pods_and_configurations_are_kept(node: Object, pod: Object, template: Any) -> None:
    assert transforms.transform_node(node)["metadata"]["name"] == node["metadata"]["name"]
    assert transforms.transform_pod(pod)["metadata"]["uid"] == pod["metadata"]["uid"]
    head = {"name": "aggregator-config", "namespace": "ns"}
    config = {"metadata": head, "spec": {"aggregator": {"template": template}}}
    kept = transforms.transform_config(config)["spec"]["aggregator"]["template"]
    assert port_of(kept, Role.AGGREGATOR) == port_of(template, Role.AGGREGATOR)
