"""The examples' manifests are jobs without a mistake, and every pod of them gets the image."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from di_api.conversion import convert
from di_api.defaults import with_defaults
from di_api.names import API_VERSION, KIND, task_service_env
from di_api.validation import validate_job
from examples.demo.manifests import EXAMPLES, REFUSED, ROOT, templates

JUDGED = ROOT / "examples/roles/judge.yaml"
COMPANIONS = JUDGED.with_name("companions.yaml")


def manifest(example: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(EXAMPLES[example].read_text())
    return found


@pytest.mark.parametrize("file", sorted(ROOT.glob("examples/*/*.yaml")), ids=str)
def test_a_manifest_would_be_admitted_but_for_the_refused_one(file: Path) -> None:
    found = [body for body in yaml.safe_load_all(file.read_text()) if body["kind"] == KIND]
    (job,) = (convert(body, API_VERSION) for body in found)
    errors = validate_job({**job, "spec": with_defaults(job["spec"])})
    assert bool(errors) is (file == REFUSED), errors


@pytest.mark.parametrize(
    ("example", "pods"),
    [
        ("cartpole", 3),
        ("coordinated", 2),
        ("di-engine", 3),
        ("di-engine-dist", 3),
        ("di-engine-elastic", 3),
        ("torch-ddp", 1),
        ("grpo", 4),
        ("ray", 2),
        ("impala", 2),
        ("share", 1),
    ],
)
def test_all_templates_of_a_manifest_are_found(example: str, pods: int) -> None:
    found = list(templates(manifest(example)))
    assert len(found) == pods
    assert all(template["spec"]["containers"] for template in found)


def test_the_example_of_node_checks_is_the_one_of_its_document_and_would_be_admitted() -> None:
    file = EXAMPLES["cartpole"].parents[1] / "node-check" / "job.yaml"
    job = yaml.safe_load(file.read_text())
    assert validate_job({**job, "spec": with_defaults(job["spec"])}) == []
    document = (file.parents[2] / "docs" / "dijob.md").read_text()
    _, _, section = document.partition("\n## Node checks\n")
    shown = section.partition("```yaml\n")[2].partition("```")[0]
    assert "nodeCheck" in shown
    assert shown in file.read_text()


def test_the_job_with_companions_is_the_one_of_its_document() -> None:
    text = COMPANIONS.read_text()
    document = (ROOT / "docs/roles.md").read_text()
    _, _, section = document.partition("\n## Companions\n")
    shown = section.partition("```yaml\n")[2].partition("```")[0]
    assert "$(JOB)-config" in shown
    assert shown in text


def test_the_judged_job_would_be_admitted_and_its_judges_are_found_by_name() -> None:
    job = yaml.safe_load(JUDGED.read_text())
    assert validate_job({**job, "spec": with_defaults(job["spec"])}) == []
    learner, judge = job["spec"]["tasks"]
    program = learner["template"]["spec"]["containers"][0]["command"][-1]
    assert task_service_env(judge["name"]) in program


def test_the_job_whose_engines_drain_is_the_one_of_its_page_and_would_be_admitted() -> None:
    text = (ROOT / "examples/roles/drain.yaml").read_text()
    job = yaml.safe_load(text)
    assert validate_job({**job, "spec": with_defaults(job["spec"])}) == []
    learner, engine = job["spec"]["tasks"]
    program = learner["template"]["spec"]["containers"][0]["command"][-1]
    assert task_service_env(engine["name"]) in program
    section = (ROOT / "docs/roles.md").read_text().partition("\n## Leaving well\n")[2]
    shown = section.partition("```yaml\n")[2].partition("```")[0].split("\n      service:")
    assert all(part in text for part in ("\n      service:" + shown[1], shown[0]))


def test_the_job_with_checkpoints_is_the_same_job_and_would_be_admitted() -> None:
    plain = manifest("cartpole")
    file = EXAMPLES["cartpole"].with_name("checkpoint.yaml")
    claim, job = yaml.safe_load_all(file.read_text())
    assert validate_job({**job, "spec": with_defaults(job["spec"])}) == []
    assert job["spec"].pop("checkpoint")["persistentVolumeClaim"] == claim["metadata"]["name"]
    # That of the example's image.
    group = {"fsGroup": 65532}
    assert job["spec"]["tasks"][0]["template"]["spec"].pop("securityContext") == group
    assert job == plain


def test_the_leaders_of_the_examples_and_of_the_page_would_be_admitted() -> None:
    example = yaml.safe_load((ROOT / "examples/replicas/job.yaml").read_text())
    page = (ROOT / "docs/roles.md").read_text()
    (shown,) = re.findall(r"```yaml\n(  leaderTemplatePatch:.*?)```", page, re.DOTALL)
    (task,) = example["spec"]["tasks"]
    for patch in (task["leaderTemplatePatch"], yaml.safe_load(shown)["leaderTemplatePatch"]):
        job = {**example, "spec": {"tasks": [{**task, "leaderTemplatePatch": patch}]}}
        assert validate_job(job) == []
