"""Templates of jobs: what a job gets from one, and the commands about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from di_api.defaults import with_defaults
from di_api.validation import validate_job
from di_cli.edits.job_templates import hash_of, with_template
from di_cli.exit_codes import ExitCode
from tests.unit.cli.conftest import JOBS, Di

Object = dict[str, Any]
_GROUP = "/apis/diengine.opendilab.org/v2alpha1"
OF_NAMESPACE = f"{_GROUP}/namespaces/rl/dijobtemplates"
OF_CLUSTER = f"{_GROUP}/clusterdijobtemplates"
TOLERATION = {"key": "gpu", "operator": "Exists"}


def container(**fields: Any) -> Object:
    return {"spec": {"containers": [{"name": "di-container", **fields}]}}


def template(name: str = "gpu", **job: Any) -> Object:
    return {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJobTemplate",
        "metadata": {"name": name, "namespace": "rl", "managedFields": [{}]},
        "spec": {"description": f"about\n{name}", "job": job},
    }


def job(*tasks: Object, **spec: Any) -> Object:
    return {"metadata": {"name": "a"}, "spec": {"tasks": [*tasks], **spec}}


@pytest.mark.proves(
    "job-templates.md#how-fields-are-merged/a-value",
    "job-templates.md#how-fields-are-merged/an-object",
)
def test_a_job_gets_what_it_does_not_set_itself() -> None:
    given = template(priority="high", backoffLimit=9, failurePolicy={"a": 1, "b": 2})
    found = with_template(job(backoffLimit=1, failurePolicy={"b": 3}), given)
    assert found["spec"] == {
        "priority": "high",
        "backoffLimit": 1,
        "failurePolicy": {"a": 1, "b": 3},
        "tasks": [],
    }


@pytest.mark.proves("job-templates.md#how-fields-are-merged/a-list")
def test_volumes_are_merged_by_name_and_other_lists_replaced() -> None:
    given = template(volumes=[{"name": "a", "x": 1}, {"name": "b"}], shared=["a"])
    found = with_template(job(volumes=[{"name": "a", "y": 2}], shared=["b"]), given)
    assert found["spec"]["volumes"] == [{"name": "a", "x": 1, "y": 2}, {"name": "b"}]
    assert found["spec"]["shared"] == ["b"]


@pytest.mark.proves("job-templates.md#how-fields-are-merged/null")
def test_a_null_field_takes_the_templates_field_out() -> None:
    given = template(priority="high", template={"spec": {"nodeSelector": {"a": "b"}}})
    own = {"type": "learner", "template": {"spec": {"nodeSelector": None}}}
    found = with_template(job(own, priority=None), given)
    assert found["spec"] == {"tasks": [{"type": "learner", "template": {"spec": {}}}]}


@pytest.mark.proves("job-templates.md#how-fields-are-merged/tasks")
def test_a_task_gets_the_base_then_its_type_then_its_name() -> None:
    given = template(
        template=container(image="base", env=[{"name": "A", "value": "base"}]),
        tasks=[
            {"name": "judge", "replicas": 3, "template": container(image="judge")},
            {"type": "collector", "maxReplicas": 9, "template": container(cpu=1)},
            {"type": "none", "maxReplicas": 4, "template": container(image="none")},
            {"backoffLimit": 7},
        ],
    )
    collector = {"type": "collector", "template": container(env=[{"name": "B", "value": "own"}])}
    judge = {"type": "none", "name": "judge", "maxReplicas": 5}
    first, second = with_template(job(collector, judge), given)["spec"]["tasks"]
    both = [{"name": "A", "value": "base"}, {"name": "B", "value": "own"}]
    assert first == {
        "type": "collector",
        "maxReplicas": 9,
        "backoffLimit": 7,
        "template": container(image="base", env=both, cpu=1),
    }
    assert second == {
        "type": "none",
        "name": "judge",
        "replicas": 3,
        "maxReplicas": 5,
        "backoffLimit": 7,
        "template": container(image="judge", env=both[:1]),
    }


@pytest.mark.proves("job-templates.md#how-fields-are-merged/labels-and-annotations")
def test_the_job_has_the_templates_labels_its_name_and_its_hash() -> None:
    given = template(priority="high")
    given["spec"]["metadata"] = {"labels": {"a": "t", "b": "t"}, "annotations": {"c": "t"}}
    own = {**job(), "metadata": {"name": "a", "labels": {"b": "own"}}}
    assert with_template(own, given)["metadata"] == {
        "name": "a",
        "labels": {"a": "t", "b": "own"},
        "annotations": {
            "c": "t",
            "diengine/template": "DIJobTemplate/gpu",
            "diengine/template-hash": hash_of(given),
        },
    }
    swapped = {**given, "spec": dict(reversed(given["spec"].items()))}
    assert hash_of(swapped) == hash_of(given)
    assert hash_of(template(priority="normal")) != hash_of(given)
    assert "labels" not in with_template(job(), template())["metadata"]


@pytest.mark.parametrize(
    "wrong",
    [{}, {"spec": None}, {"spec": {"job": "x"}}, {"spec": {"job": {"tasks": "x", "template": 1}}}],
)
def test_a_template_of_a_wrong_shape_adds_nothing(wrong: Object) -> None:
    own = job({"type": "learner"}, priority="high")
    assert with_template(own, wrong)["spec"] == own["spec"]
    coordinated: Object = {"metadata": {}, "spec": {"coordinated": {}}}
    found = with_template(coordinated, template(tasks=[{"type": "learner"}], template={}))
    assert found["spec"] == {"coordinated": {}}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text("print(1)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("di_cli.actions.program.packages", dict)
    return tmp_path


def main_container(found: Object) -> Object:
    (only,) = found["spec"]["tasks"][0]["template"]["spec"]["containers"]
    return dict(only)


@pytest.mark.usefixtures("program")
@pytest.mark.proves("job-templates.md#use-one")
def test_a_program_is_submitted_with_a_template(di: Di) -> None:
    base = container(image="torch:2")
    base["spec"]["tolerations"] = [TOLERATION]
    di.world.put(f"{OF_NAMESPACE}/gpu", template(template=base, priority="high"))
    assert di("submit", "train.py", "--template", "gpu").code == 0
    found = di.world.objects[f"{JOBS}/train"]
    assert main_container(found)["image"] == "torch:2"
    assert main_container(found)["command"] == ["python3", "train.py"]
    assert found["spec"]["tasks"][0]["template"]["spec"]["tolerations"] == [TOLERATION]
    assert found["metadata"]["annotations"]["diengine/template"] == "DIJobTemplate/gpu"
    assert not validate_job(with_defaults(found))
    said = di("submit", "train.py", "--template", "gpu", "--image", "own:1", "--dry-run", "client")
    shown, _ = yaml.safe_load_all(said.out)
    assert main_container(shown)["image"] == "own:1"
    assert shown["spec"]["priority"] == "high"


@pytest.mark.usefixtures("program")
def test_a_template_without_an_image_leaves_the_default_one(di: Di) -> None:
    di.world.put(f"{OF_NAMESPACE}/gpu", template(priority="high"))
    assert di("submit", "train.py", "--template", "gpu").code == 0
    assert main_container(di.world.objects[f"{JOBS}/train"])["image"] == "python:3.13-slim"


@pytest.mark.proves("job-templates.md#two-kinds/dijobtemplate")
def test_a_manifest_gets_a_template_of_the_namespace_before_one_of_the_cluster(
    di: Di, program: Path
) -> None:
    text = "apiVersion: diengine.opendilab.org/v2alpha1\nkind: DIJob\nmetadata: {name: m}\n"
    (program / "m.yaml").write_text(f"{text}spec: {{tasks: [{{type: learner}}]}}\n")
    di.world.put(f"{OF_CLUSTER}/gpu", template(priority="normal", template=container(image="c")))
    assert di("submit", "m.yaml", "--template", "gpu", "--name", "one").code == 0
    di.world.put(f"{OF_NAMESPACE}/gpu", template(priority="high", template=container(image="n")))
    assert di("submit", "m.yaml", "--template", "gpu", "--name", "two").code == 0
    one, two = (di.world.objects[f"{JOBS}/{name}"] for name in ("one", "two"))
    assert (main_container(one)["image"], main_container(two)["image"]) == ("c", "n")
    assert one["metadata"]["annotations"]["diengine/template"] == "ClusterDIJobTemplate/gpu"


@pytest.mark.usefixtures("program")
def test_an_unknown_template_submits_nothing(di: Di) -> None:
    di.world.put(f"{OF_CLUSTER}/other", template("other"))
    said = di("submit", "train.py", "--template", "gpu")
    assert said.code == ExitCode.NOT_FOUND
    assert said.err.splitlines()[-3:] == [
        "error: there is no template gpu in namespace rl or the cluster",
        "  templates there: other",
        "  try: di templates",
    ]
    assert all(method == "GET" for method, _, _ in di.world.requests)


@pytest.mark.proves("job-templates.md#see-them", "cli.md#templates")
def test_templates_are_listed_with_what_they_are_for(di: Di) -> None:
    assert di("templates").out == "there are no templates in namespace rl or the cluster\n"
    di.world.put(f"{OF_CLUSTER}/gpu", template())
    di.world.put(f"{OF_CLUSTER}/cpu", template("cpu"))
    di.world.put(f"{OF_NAMESPACE}/gpu", template(priority="high"))
    assert [line.split() for line in di("templates").lines] == [
        ["NAME", "KIND", "DESCRIPTION"],
        ["cpu", "ClusterDIJobTemplate", "about", "cpu"],
        ["gpu", "DIJobTemplate", "about", "gpu"],
    ]
    assert di("templates", "-o", "name").lines == [
        "clusterdijobtemplate/cpu",
        "dijobtemplate/gpu",
    ]
    shown = yaml.safe_load(di("templates", "gpu").out)
    assert shown["spec"]["job"] == {"priority": "high"}
    assert shown["metadata"] == {"name": "gpu", "namespace": "rl"}
    listed = yaml.safe_load(di("templates", "-o", "json").out)
    assert [each["metadata"]["name"] for each in listed["items"]] == ["cpu", "gpu"]
    assert di("templates", "none").code == ExitCode.NOT_FOUND


def test_templates_of_the_cluster_without_permission_are_left_out(di: Di) -> None:
    di.world.put(f"{OF_NAMESPACE}/gpu", template())
    message = "clusterdijobtemplates is forbidden"
    di.world.refusals["GET", OF_CLUSTER] = {"code": 403, "reason": "Forbidden", "message": message}
    assert di("templates", "-o", "name").lines == ["dijobtemplate/gpu"]
