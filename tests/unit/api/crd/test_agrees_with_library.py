"""The CRD and the library state one contract: fields, limits and defaults agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from di_api import names
from di_api.conversion import versions as conversion
from di_api.defaults import with_defaults
from di_api.phase import Phase
from di_api.spec import CleanPodPolicy, Priority, TaskType
from di_api.validation import validate_job
from tests.unit.api.jobs import job, of_spec, task

FILES = Path(__file__).parents[4] / "charts/di-orchestrator/files"
CRD = yaml.safe_load((FILES / "dijobs-crd.yaml").read_text("utf-8"))
VERSION, *OLDER_VERSIONS = CRD["spec"]["versions"]
ROOT: dict[str, Any] = VERSION["schema"]["openAPIV3Schema"]["properties"]
SPEC: dict[str, Any] = ROOT["spec"]["properties"]
TASK: dict[str, Any] = SPEC["tasks"]["items"]["properties"]
STATUS: dict[str, Any] = ROOT["status"]["properties"]
# Client-side apply keeps the body in an annotation; the API server takes 256 KiB of them.
LARGEST_ANNOTATION = 262_144
_OF_KUBERNETES = (
    "cm cs ep ev limits ns no pvc pv po rc quota sa svc crd crds rs deploy ds sts hpa cj csr ing "
    "netpol pdb pc sc"
)
"""Short names of Kubernetes' own resources: kubectl api-resources."""


def test_the_crd_has_the_names_of_the_library() -> None:
    assert CRD["metadata"]["name"] == f"{names.PLURAL}.{names.GROUP}"
    assert CRD["spec"]["group"] == names.GROUP
    assert CRD["spec"]["names"]["kind"] == names.KIND
    assert VERSION["name"] == names.VERSION


def test_the_recommended_quota_counts_jobs() -> None:
    page = (Path(__file__).parents[4] / "docs/reference/dijob.md").read_text("utf-8")
    [block] = [
        b for b in page.split("```yaml\n") if b.startswith("apiVersion: v1\nkind: ResourceQ")
    ]
    quota = yaml.safe_load(block.split("```")[0])
    assert quota["spec"]["hard"].keys() == {f"count/{names.PLURAL}.{names.GROUP}"}


def test_kubectl_get_shows_the_columns_in_order() -> None:
    columns = [c["name"] for c in VERSION["additionalPrinterColumns"] if not c.get("priority")]
    assert columns == [
        *("Phase", "ReadyReplicas", "Replicas", "Restarts", "Reschedules"),
        *("Progress", "LastReport", "Age"),
    ]


def test_the_older_versions_have_one_schema_and_are_not_served() -> None:
    assert {version["name"] for version in OLDER_VERSIONS} == set(names.COORDINATED_VERSIONS)
    one, other = ({**version, "name": ""} for version in OLDER_VERSIONS)
    assert one == other
    assert not one["served"]
    assert "conversion" not in CRD["spec"]
    assert [c["name"] for c in one["additionalPrinterColumns"]] == ["Phase", "Age"]
    fields = one["schema"]["openAPIV3Schema"]["properties"]
    # What is shown of a job in them is all they can hold.
    assert conversion.fields_of_older_versions() == {
        part: frozenset(fields[part]["properties"]) for part in ("spec", "status")
    }
    for part in ("conditions", "replicaStatus"):
        assert fields["status"]["properties"][part] == STATUS[part]


@pytest.mark.proves(
    "dijob.md#spec/priority",
    "dijob.md#spec/cleanpodpolicy",
    "dijob.md#spec-tasks/type",
    "dijob.md#spec/scheduling-gangscheduler",
    "dijob.md#spec-tasks/nodecheck-action",
    "dijob.md#spec-tasks/protocol",
    "dijob.md#spec/colocate",
)
@pytest.mark.parametrize(
    ("field", "values"),
    [
        (SPEC["priority"], Priority),
        (SPEC["cleanPodPolicy"], CleanPodPolicy),
        (TASK["type"], TaskType),
        (STATUS["phase"], Phase),
    ],
    ids=["priority", "cleanPodPolicy", "type", "phase"],
)
def test_an_enumeration_has_the_values_of_the_library(field: dict[str, Any], values: Any) -> None:
    assert field["enum"] == [value.value for value in values]


def test_the_library_has_the_fields_of_the_crd_and_no_others() -> None:
    for fields, path, bad in (
        (SPEC, "spec.", job(unknownXyz=1)),
        (TASK, "spec.tasks[0].", job(task(unknownXyz=1))),
    ):
        (error,) = validate_job(bad)
        assert error.path == f"{path}unknownXyz"
        assert error.advice.endswith(f"the fields here are {', '.join(sorted(fields))}")


def test_the_crd_has_the_defaults_of_the_library() -> None:
    """All but two of a task: its name depends on its type, and what is left out of `replicas`
    the webhook alone sees."""
    filled = with_defaults({"tasks": [{"type": "none", "name": "a"}]})
    written = {name: field["default"] for name, field in SPEC.items() if "default" in field}
    assert written == {name: value for name, value in filled.items() if name != "tasks"}
    assert not [name for name, field in TASK.items() if "default" in field]


NUMBERS = [(SPEC, name, None) for name, field in SPEC.items() if field["type"] == "integer"] + [
    (TASK, name, 0) for name, field in TASK.items() if field.get("type") == "integer"
]


@pytest.mark.proves(
    "dijob.md#spec/ttlsecondsafterfinished",
    "dijob.md#spec-tasks/replicas",
    "dijob.md#spec-tasks/nodecheck-waitseconds",
    "dijob.md#spec/checkpoint-graceseconds",
    "dijob.md#spec-tasks/port",
)
@pytest.mark.parametrize(("fields", "name", "index"), NUMBERS, ids=[n[1] for n in NUMBERS])
def test_a_number_has_the_limits_of_the_library(
    fields: dict[str, Any], name: str, index: int | None
) -> None:
    lowest = fields[name]["minimum"]
    largest = 2 ** (63 if fields[name]["format"] == "int64" else 31) - 1
    highest = fields[name].get("maximum", largest)
    path = f"spec.{name}" if index is None else f"spec.tasks[{index}].{name}"
    for value, is_allowed in (
        (lowest - 1, False),
        (lowest, True),
        (highest, True),
        (highest + 1, False),
    ):
        bad = job(**{name: value}) if index is None else job(task(**{name: value}))
        shape = [e for e in validate_job(bad) if e.message.endswith((" more", " less"))]
        assert [e.path for e in shape] == ([] if is_allowed else [path])


def test_a_status_write_evaluates_no_rule() -> None:
    """The API server evaluates the CRD's rules at each write of the status, over the whole spec."""
    assert "x-kubernetes-validations" not in json.dumps(CRD)
    policy, _ = yaml.safe_load_all((FILES / "dijobs-policy.yaml").read_text("utf-8"))
    (asked,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert asked["resources"] == [names.PLURAL]


@pytest.mark.proves("dijob.md#spec/volumes", "dijob.md#spec/tasks-list-of-1-to-64-see-below")
@pytest.mark.parametrize(
    ("crd_field", "owner", "items"),
    [
        (SPEC["tasks"], "spec.tasks", lambda n: {"tasks": [task()] * n}),
        (SPEC["volumes"], "spec.volumes", lambda n: {"tasks": [task()], "volumes": [{}] * n}),
        (
            TASK["dependsOn"],
            "spec.tasks[0].dependsOn",
            lambda n: {"tasks": [task(dependsOn=["a"] * n)]},
        ),
    ],
    ids=["tasks", "volumes", "dependsOn"],
)
def test_a_list_has_the_length_of_the_library(
    crd_field: dict[str, Any], owner: str, items: Any
) -> None:
    most = crd_field["maxItems"]
    for count, is_allowed in ((most, True), (most + 1, False)):
        errors = [e for e in validate_job(of_spec(items(count))) if "at most" in e.message]
        assert (owner in [e.path for e in errors]) != is_allowed


def test_every_field_has_a_description() -> None:
    def undescribed(schema: dict[str, Any], path: str) -> list[str]:
        found = [] if schema.get("description") else [path]
        # What users write for pods is described by Kubernetes.
        opaque = (".template", ".volumes", ".companions", ".dependsOn")
        if path.endswith((*opaque, ".allocation", ".taskStatus")):
            return found
        below = schema.get("items", schema).get("properties", {})
        return found + [p for n, s in below.items() for p in undescribed(s, f"{path}.{n}")]

    assert undescribed(ROOT["spec"], "spec") + undescribed(ROOT["status"], "status") == []
    older = OLDER_VERSIONS[0]["schema"]["openAPIV3Schema"]["properties"]
    assert undescribed(older["spec"], "spec") + undescribed(older["status"], "status") == []


def test_the_crd_fits_in_the_annotation_of_client_side_apply() -> None:
    assert len(json.dumps(CRD, separators=(",", ":"))) < LARGEST_ANNOTATION * 3 / 4


def test_short_names_are_short_and_belong_to_one_resource() -> None:
    names = [yaml.safe_load(file.read_text())["spec"]["names"] for file in FILES.glob("*-crd.yaml")]
    short = [name for each in names for name in each["shortNames"]]
    assert len(short) == len(set(short)) == len({*short}.difference(_OF_KUBERNETES.split()))
    (jobs,) = (each for each in names if each["kind"] == "DIJob")
    assert min(map(len, jobs["shortNames"])) < len(jobs["singular"])
