"""Changes of jobs in a real API server: which are reviewed, and what merge patches do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from di_api.names import ANNOTATION_CHANGED_BY, LABEL_QUEUE
from di_api.spec.bounds import MAX_ITEMS
from di_kube.config import KubeConfig
from di_kube.errors import ApiError, Invalid
from di_kube.resources import DIJOBS
from di_kube.wire import APPLY_PATCH
from tests.integration.admitting import admitting, call, manifest
from tests.integration.conftest import ApiServer, definition, install_crd
from tests.integration.webhook_process import WebhookProcess, webhook_process
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("crd")
SPEAKER = "system:serviceaccount:di-system:di-server"


@pytest.fixture
def webhook(api_server: ApiServer, tmp_path: Path) -> Iterator[WebhookProcess]:
    environment = {"DI_WEBHOOK_SPEAKERS": SPEAKER}
    with webhook_process(
        tmp_path, api_server.host_address, log_level="debug", environment=environment
    ) as running:
        yield running


def reviews(webhook: WebhookProcess) -> int:
    """How many reviews were answered so far."""
    return sum(line.get("event") == "review answered" for line in webhook.log_lines())


class Jobs:
    """Jobs of a namespace."""

    def __init__(self, config: KubeConfig, namespace: str) -> None:
        self._config = config
        self._namespace = namespace

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        return self._call(lambda client: client.create(DIJOBS, body, self._namespace))

    def patch(self, name: str, body: object) -> dict[str, Any]:
        return self._call(lambda client: client.patch(DIJOBS, name, body, self._namespace))

    def apply(self, body: dict[str, Any]) -> dict[str, Any]:
        """Server-side, by one and the same manager."""
        return self._call(
            lambda client: client.patch(
                DIJOBS,
                body["metadata"]["name"],
                body,
                self._namespace,
                content_type=APPLY_PATCH,
                field_manager="test",
            )
        )

    def replace(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._call(lambda client: client.replace(DIJOBS, name, body, self._namespace))

    def refused(self, name: str, body: object) -> ApiError:
        with pytest.raises(ApiError) as refusal:
            self.patch(name, body)
        return refusal.value

    def _call(self, work: Any) -> dict[str, Any]:
        found: dict[str, Any] = call(self._config, work)
        return found


@pytest.fixture
def jobs(kube_config: KubeConfig, namespace: str) -> Jobs:
    return Jobs(kube_config, namespace)


def heavy(name: str = "heavy") -> dict[str, Any]:
    """A job of 1.3 MiB, as one from before the bound may be."""
    body = manifest(name, suspend=False)
    [task] = body["spec"]["tasks"]
    task["replicas"] = 3
    task["template"]["spec"]["containers"][0]["args"] = ["x" * 2048] * 650
    return body


def test_changes_of_nothing_that_is_judged_are_not_reviewed(
    admission: WebhookProcess, jobs: Jobs
) -> None:
    jobs.create(manifest("quiet"))
    before = reviews(admission)
    jobs.patch("quiet", {"metadata": {"labels": {"team": "rl"}, "annotations": {"note": "x"}}})
    jobs.patch("quiet", {"metadata": {"finalizers": ["example.org/keep"]}})
    jobs.patch("quiet", {"metadata": {"finalizers": None}, "spec": {"suspend": False}})
    assert reviews(admission) == before
    forged = jobs.patch("quiet", {"metadata": {"annotations": {ANNOTATION_CHANGED_BY: "1 eve"}}})
    assert not forged["metadata"]["annotations"][ANNOTATION_CHANGED_BY].endswith("eve")
    # It is put back, so that nothing is left to validate.
    assert reviews(admission) == before + 1
    for change in ({"spec": {"suspend": True}}, {"metadata": {"labels": {LABEL_QUEUE: "a"}}}):
        before = reviews(admission)
        jobs.patch("quiet", change)
        assert reviews(admission) == before + 2, change


def test_a_merge_patch_of_a_null_is_carried_out_or_refused(
    admission: WebhookProcess, jobs: Jobs
) -> None:
    made = jobs.create(manifest("running"))
    assert {"failurePolicy", "successPolicy"} <= made["spec"].keys()
    gone = jobs.refused("running", {"spec": None})
    assert (gone.code, "spec" in gone.message) == (422, True)
    assert "failurePolicy" not in jobs.patch("running", {"spec": {"failurePolicy": None}})["spec"]
    kept = jobs.refused("running", {"spec": {"successPolicy": None}})
    assert kept.code == 422
    assert "spec.successPolicy" in kept.message
    assert "delete it and create it" in kept.message


def test_a_job_that_is_replaced_or_applied_again_keeps_its_policies(
    admission: WebhookProcess, jobs: Jobs
) -> None:
    made = jobs.create(manifest("replaced"))
    bare = manifest("replaced")
    bare["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    assert jobs.replace("replaced", bare)["spec"] == made["spec"]
    first = jobs.apply(manifest("applied"))
    assert jobs.apply(manifest("applied"))["spec"] == first["spec"]
    assert first["spec"]["failurePolicy"]


def test_a_heavy_job_is_refused_with_its_largest_part(
    admission: WebhookProcess, jobs: Jobs
) -> None:
    with pytest.raises(ApiError) as refusal:
        jobs.create(heavy())
    assert refusal.value.code == 422
    assert "a job may have 262144" in refusal.value.message
    assert "spec.tasks[0].template.spec.containers[0].args" in refusal.value.message


def test_a_heavy_job_from_before_the_bound_can_be_changed(
    webhook: WebhookProcess, jobs: Jobs, kube_config: KubeConfig, namespace: str
) -> None:
    made = jobs.create(heavy())
    with admitting(webhook, kube_config, namespace):
        jobs.patch("heavy", {"metadata": {"labels": {"team": "rl"}}})
        jobs.patch("heavy", {"spec": {"suspend": True}})
        smaller = deepcopy(made["spec"]["tasks"])
        smaller[0]["replicas"] = 1
        jobs.patch("heavy", {"spec": {"tasks": smaller}})
        grown = deepcopy(smaller)
        grown[0]["template"]["metadata"] = {"labels": {"a": "b"}}
        refusal = jobs.refused("heavy", {"spec": {"tasks": grown}})
        # What changes is too large by itself.
        assert "a job may have 262144" in refusal.message
        assert "spec.tasks[0].template" in refusal.message
        call(kube_config, lambda client: client.delete(DIJOBS, "heavy", namespace))


def test_lists_of_a_template_are_bounded_without_a_webhook(jobs: Jobs) -> None:
    body = manifest("listed")
    container = body["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": f"A{number}", "value": ""} for number in range(MAX_ITEMS + 1)]
    with pytest.raises(ApiError) as refusal:
        jobs.create(body)
    assert refusal.value.code == 422
    assert "containers[0].env: Too many" in refusal.value.message
    container["env"].pop()
    assert jobs.create(body)


@pytest.mark.proves("dijob.md#how-large-a-job-may-be/items-of-a-list-fields-of-a-map-in-a-pod")
def test_a_longer_list_from_before_the_bound_stays(jobs: Jobs, kube_config: KubeConfig) -> None:
    bounded = definition()
    asyncio.run(install_crd(kube_config, without_bounds(bounded)))
    try:
        body = manifest("listed", suspend=False)
        [task] = body["spec"]["tasks"]
        task["template"]["spec"]["containers"][0]["args"] = ["a"] * (MAX_ITEMS + 1)

        def is_created() -> bool:
            with suppress(Invalid):
                jobs.create(body)
                return True
            return False

        wait_until(is_created, what="the API server to have no bounds")
    finally:
        asyncio.run(install_crd(kube_config, bounded))

    def is_bounded() -> bool:
        with suppress(ApiError):
            jobs.create({**body, "metadata": {"generateName": "again-"}})
            return False
        return True

    wait_until(is_bounded, what="the API server to have the bounds")
    jobs.patch("listed", {"metadata": {"labels": {"team": "rl"}}})
    assert jobs.patch("listed", {"spec": {"suspend": True}})["spec"]["suspend"]
    assert jobs.patch("listed", {"spec": {"tasks": [task]}})["spec"]["tasks"] == [task]


def without_bounds(schema: Any) -> Any:
    """A definition with any number of arguments of a container."""
    if isinstance(schema, list):
        return [without_bounds(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: without_bounds(value) for key, value in schema.items()}
    if isinstance(result.get("args"), dict):
        result["args"].pop("maxItems", None)
    return result
