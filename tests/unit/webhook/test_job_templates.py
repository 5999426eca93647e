"""What is refused in DIJobTemplates and ClusterDIJobTemplates."""

from __future__ import annotations

from typing import Any

import pytest

from di_webhook.admission import mutate, validate
from tests.unit.webhook.reviews import patch_of, review

KINDS = ("DIJobTemplate", "ClusterDIJobTemplate")
MOUNTS = [{"name": "data", "mountPath": "/data"}]
GOOD: dict[str, Any] = {
    "template": {"spec": {"containers": [{"name": "di-container", "volumeMounts": MOUNTS}]}},
    "tasks": [{"type": "learner", "template": {"spec": {"nodeSelector": {"gpu": "a100"}}}}],
    "volumes": [{"name": "scratch", "emptyDir": {}}],
}


def body(job: Any, kind: str = "DIJobTemplate", **spec: Any) -> bytes:
    version = "diengine.opendilab.org/v2alpha1"
    template = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "gpu"},
        "spec": {"job": job, **spec},
    }
    about = {"group": "diengine.opendilab.org", "version": "v2alpha1", "kind": kind}
    return review(template, kind=about, name="gpu")


def refused(request: bytes) -> list[tuple[str, str]]:
    status = validate(request).body["response"]["status"]
    assert (status["code"], status["details"]["kind"]) == (422, "DIJobTemplate")
    return [(each["field"], each["message"]) for each in status["details"]["causes"]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("job", [GOOD, {}, {"template": None, "tasks": [None, {"type": "none"}]}])
def test_a_part_of_a_job_is_allowed_and_not_changed(kind: str, job: Any) -> None:
    assert validate(body(job, kind)).body["response"]["allowed"]
    assert patch_of(mutate(body(job, kind))) == []


@pytest.mark.proves("job-templates.md#what-is-checked")
@pytest.mark.parametrize(
    ("job", "path", "message"),
    [
        (
            {"template": {"spec": {"tolerration": []}}},
            "spec.job.template.spec.tolerration",
            "unknown field; did you mean tolerations?",
        ),
        (
            {"template": {"spec": {"containers": [{"name": "a", "image": 1}]}}},
            "spec.job.template.spec.containers[0].image",
            "must be a string",
        ),
        (
            {"tasks": [{}, {"template": {"spec": {"nodeSelector": {"gpu": "a b"}}}}]},
            "spec.job.tasks[1].template.spec.nodeSelector.gpu",
            "",
        ),
        (
            {"template": {"spec": {"tolerations": [{"operator": "Is"}]}}},
            "spec.job.template.spec.tolerations[0].operator",
            "",
        ),
        (
            {"volumes": [{"name": "a", "emptyDirr": {}}]},
            "spec.job.volumes[0].emptyDirr",
            "unknown field; did you mean emptyDir?",
        ),
        (
            {"template": {"spec": {"containers": [{"name": "a", "args": ["x" * 17_000]}]}}},
            "spec.job.template",
            "may have 16384 characters",
        ),
    ],
)
def test_what_no_job_can_repair_is_refused_with_its_path(job: Any, path: str, message: str) -> None:
    ((found, text),) = refused(body(job))
    assert found == path
    assert message in text


def test_labels_that_no_job_can_have_are_refused() -> None:
    ((path, _),) = refused(body({}, metadata={"labels": {"team": "not a label"}}))
    assert path == "spec.metadata.labels.team"
