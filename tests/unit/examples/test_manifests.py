"""The examples' manifests are admitted, and the documents show parts of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from di_api.conversion.versions import convert
from di_api.defaults import with_defaults
from di_api.names import API_VERSION, KIND, SWEEP_KIND, task_service_env
from di_api.sweeps import validate_sweep
from di_api.validation import validate_job
from examples.demo.manifests import EXAMPLES, REFUSED, ROOT, templates

ROLES = ROOT / "examples/roles"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("file", sorted(ROOT.glob("examples/*/*.yaml")), ids=str)
def test_every_manifest_but_the_refused_one_is_admitted(file: Path) -> None:
    documents = list(yaml.safe_load_all(file.read_text()))
    if sweeps := [body for body in documents if body["kind"] == SWEEP_KIND]:
        assert [validate_sweep(body) for body in sweeps] == [[]]
        return
    found = [body for body in documents if body["kind"] == KIND]
    (job,) = (convert(body, API_VERSION) for body in found)
    errors = validate_job({**job, "spec": with_defaults(job["spec"])})
    assert bool(errors) is (file == REFUSED), errors


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        *(f"docs/tutorials/{each}.md" for each in ("1-laptop", "2-cluster", "3-team")),
    ],
)
def test_the_manifests_of_first_pages_are_admitted(page: str) -> None:
    marked = r"<!-- admitted by tests/unit/examples/test_manifests.py -->\n```yaml\n(.*?)^```$"
    found = re.findall(marked, (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert found
    for text in found:
        job = yaml.safe_load(text)
        assert validate_job({**job, "spec": with_defaults(job["spec"])}) == []


def test_the_demo_finds_every_pod_template() -> None:
    found = {name: [*templates(read(file))] for name, file in EXAMPLES.items()}
    pods = {
        **{"cartpole": 3, "coordinated": 2, "di-engine": 3, "di-engine-dist": 3},
        **{"di-engine-elastic": 3, "torch-ddp": 1, "grpo": 4, "ray": 2, "impala": 2, "share": 1},
    }
    assert {name: len(found[name]) for name in pods} == pods
    assert all(each["spec"]["containers"] for every in found.values() for each in every)


@pytest.mark.parametrize(
    ("page", "heading", "example"),
    [
        ("reference/dijob.md", "Node checks", "node-check/job.yaml"),
        ("how-to/roles.md", "Companions", "roles/companions.yaml"),
        ("how-to/roles.md", "Leaving well", "roles/drain.yaml"),
    ],
)
def test_a_document_shows_the_example_that_runs(page: str, heading: str, example: str) -> None:
    _, _, section = (ROOT / "docs" / page).read_text().partition(f"\n## {heading}\n")
    shown = section.partition("```yaml\n")[2].partition("```")[0]
    text = (ROOT / "examples" / example).read_text()
    head, service, rest = shown.partition("\n      service:")
    assert len(head) > 50
    assert head in text
    assert service + rest in text


@pytest.mark.parametrize("example", ["judge.yaml", "drain.yaml"])
def test_a_learner_finds_the_service_of_another_task(example: str) -> None:
    learner, other = read(ROLES / example)["spec"]["tasks"]
    program = learner["template"]["spec"]["containers"][0]["command"][-1]
    assert task_service_env(other["name"]) in program


def test_the_example_with_checkpoints_adds_nothing_but_checkpoints() -> None:
    file = EXAMPLES["cartpole"].with_name("checkpoint.yaml")
    claim, job = yaml.safe_load_all(file.read_text())
    assert job["spec"].pop("checkpoint")["persistentVolumeClaim"] == claim["metadata"]["name"]
    # The group of the example's image.
    group = {"fsGroup": 65532}
    assert job["spec"]["tasks"][0]["template"]["spec"].pop("securityContext") == group
    assert job == read(EXAMPLES["cartpole"])


def test_leader_patches_of_example_and_document_are_admitted() -> None:
    example = read(ROOT / "examples/replicas/job.yaml")
    page = (ROOT / "docs/how-to/roles.md").read_text()
    (shown,) = re.findall(r"```yaml\n(  leaderTemplatePatch:.*?)```", page, re.DOTALL)
    (task,) = example["spec"]["tasks"]
    for patch in (task["leaderTemplatePatch"], yaml.safe_load(shown)["leaderTemplatePatch"]):
        job = {**example, "spec": {"tasks": [{**task, "leaderTemplatePatch": patch}]}}
        assert validate_job(job) == []
