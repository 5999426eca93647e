"""Schemas of core/v1 types become structural ones and find their place in the definition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from di_api.crd.__main__ import main
from di_api.crd.core_schema import (
    UnsupportedSchema,
    bounded,
    core_schema,
    pod_template_schema,
)
from di_api.crd.document import MissingMarker, Shared, markers, place
from di_api.crd.spec_schema import SpecSchemas
from di_api.quantity import quantity_schema
from di_api.spec.bounds import MAX_ITEMS, MAX_NESTED_ITEMS
from di_api.validation.templates.core_types import pod_template

ROOT = Path(__file__).resolve().parents[4]
REF = "#/components/schemas/io.k8s.api.core.v1."
QUANTITY = "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"
OBJECT_META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def document(**kinds: Any) -> dict[str, Any]:
    return {
        "components": {"schemas": {f"io.k8s.api.core.v1.{name}": s for name, s in kinds.items()}}
    }


def wrapped(reference: str, **beside: Any) -> dict[str, Any]:
    return {"allOf": [{"$ref": reference}], "description": "A reference.", **beside}


POD_TEMPLATE = document(
    PodTemplateSpec={
        "type": "object",
        "description": "A template.",
        "properties": {
            "metadata": wrapped(OBJECT_META, default={}),
            "spec": wrapped(f"{REF}PodSpec", default={}),
        },
        "x-kubernetes-group-version-kind": [{"kind": "PodTemplateSpec"}],
    },
    PodSpec={
        "type": "object",
        "required": ["containers"],
        "properties": {
            "containers": {
                "type": "array",
                "items": wrapped(f"{REF}Container"),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "x-kubernetes-patch-merge-key": "name",
            }
        },
    },
    Container={
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "default": "", "description": "Name."},
            "cpu": wrapped(QUANTITY),
        },
    },
    Volume={"type": "object", "properties": {"name": {"type": "string"}}},
)


def test_a_pod_template_becomes_a_structural_schema() -> None:
    container = {
        "type": "object",
        "required": ["name"],
        "properties": {"cpu": quantity_schema(), "name": {"type": "string"}},
    }
    text_map = {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "maxProperties": MAX_ITEMS,
    }
    assert pod_template_schema(POD_TEMPLATE) == {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "metadata": {
                "type": "object",
                "properties": {"annotations": text_map, "labels": text_map},
            },
            "spec": {
                "type": "object",
                "required": ["containers"],
                "properties": {
                    "containers": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": MAX_ITEMS,
                        "items": container,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                    }
                },
            },
        },
    }


def test_lists_and_maps_of_kubernetes_types_are_bounded() -> None:
    text_map = {"type": "object", "additionalProperties": {"type": "string"}}
    nested = {"type": "array", "items": {"type": "object", "properties": {"a": text_map}}}
    found = bounded({"type": "object", "properties": {"list": nested, "map": text_map}})
    assert found["properties"]["list"]["maxItems"] == MAX_NESTED_ITEMS
    assert found["properties"]["list"]["items"]["properties"]["a"]["maxProperties"] == MAX_ITEMS
    assert found["properties"]["map"]["maxProperties"] == MAX_ITEMS
    assert bounded(found) == found
    assert pod_template() == bounded(pod_template())


def list_by(key: dict[str, Any], **item: Any) -> dict[str, Any]:
    return document(
        Kind={
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key"],
            "items": {"type": "object", "properties": {"key": key}, **item},
        }
    )


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (list_by({"type": "string"}), {"type": "string", "default": ""}),
        (list_by({"type": "string", "default": "TCP"}), {"type": "string", "default": "TCP"}),
        (list_by({"type": "integer"}, required=["key"]), {"type": "integer"}),
    ],
    ids=["an optional key gets a default", "its own default stays", "a required key needs none"],
)
def test_a_key_of_a_list_is_required_or_has_a_default(
    given: dict[str, Any], made: dict[str, Any]
) -> None:
    assert core_schema(given, "Kind")["items"]["properties"]["key"] == made


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "has no schema"),
        (document(Kind={"allOf": [{}, {}]}), "more than one schema"),
        (document(Kind={"oneOf": [{}]}), "oneOf"),
        (document(Kind={"$ref": f"{REF}Kind"}), "contains itself"),
        (document(Kind={"$ref": "other.json#/Kind"}), "another document"),
        (list_by({"type": "integer"}), "no default is known"),
    ],
    ids=["missing", "two in allOf", "oneOf", "a circle", "elsewhere", "an optional number as key"],
)
def test_an_unsupported_schema_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedSchema, match=message):
        core_schema(given, "Kind")


TEXT = """\
# By hand.
schema:
  # generated: Thing
  old: true
  # end of Thing
  after: 1 # stays
"""


def test_the_text_around_a_generated_part_is_kept() -> None:
    schema = {"type": "object", "enum": ["yes", "1", "Always"], "properties": {"on": {}, "a": {}}}
    schema["properties"] |= {"long": {"enum": [f"value-number-{n}" for n in range(9)]}}  # type: ignore[operator]
    text = place(TEXT, "Thing", schema)
    assert text.startswith("# By hand.\n")
    assert text.endswith("  after: 1 # stays\n")
    assert yaml.safe_load(text) == {"schema": schema | {"after": 1}}
    assert max(map(len, text.splitlines())) <= 100
    assert place(text, "Thing", schema) == text


LONG = "a sentence of so many words that it does not fit in a line: " + "word " * 30 + "end"


def test_long_texts_are_folded_and_long_lists_are_blocks() -> None:
    schema = {
        "description": LONG,
        "pattern": f"^ {'x' * 100} $",
        "rules": [{"rule": LONG, "message": "no"}, {"rule": "short"}],
    }
    text = place(TEXT, "Thing", schema)
    assert yaml.safe_load(text) == {"schema": schema | {"after": 1}}
    assert [len(line) > 100 for line in text.splitlines() if "xxx" not in line].count(True) == 0
    assert "  - rule: >-\n" in text


def test_a_shared_schema_is_written_once() -> None:
    shared = Shared("same", {"type": "object"})
    text = place(TEXT, "Thing", {"one": shared, "other": shared})
    assert "  one: &same\n    type: object\n  other: *same\n" in text
    later = text + TEXT.replace("Thing", "Other").replace("schema:", "older:")
    text = place(later, "Other", {"third": shared})
    assert "  third: *same\n" in text
    assert yaml.safe_load(text)["older"]["third"] == shared


@pytest.mark.parametrize("text", ["", TEXT.replace("# end of Thing", ""), TEXT + TEXT])
def test_each_marker_is_required_exactly_once(text: str) -> None:
    with pytest.raises(MissingMarker):
        place(text, "Thing", {})


def test_the_command_checks_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    openapi, definition = tmp_path / "v1.json", tmp_path / "crd.yaml"
    openapi.write_text(json.dumps(POD_TEMPLATE))
    definition.write_text(
        "a:\n  # generated: AggregatorConfigSpec\n  # end of AggregatorConfigSpec\n"
    )
    before = definition.read_text()
    schema = tmp_path / "pod_template.json"
    arguments = ["--openapi", str(openapi), str(definition), str(schema)]
    assert main([*arguments, "--check"]) == 1
    said = capsys.readouterr().err
    assert f"{definition} is out of date" in said
    assert f"{schema} is out of date" in said
    assert definition.read_text() == before
    assert main(arguments) == 0
    schemas = SpecSchemas(pod_template_schema(POD_TEMPLATE))
    assert yaml.safe_load(definition.read_text())["a"] == {"spec": schemas.aggregator_config()}
    assert json.loads(schema.read_text()) == pod_template_schema(POD_TEMPLATE)
    assert main([*arguments, "--check"]) == 0


@pytest.mark.proves("dijob.md#the-definition-itself")
def test_the_generated_files_are_up_to_date() -> None:
    """But for Kubernetes' own types, which `make verify` takes from an API server."""
    files = [
        *sorted((ROOT / "charts/di-orchestrator/files").glob("*-crd.yaml")),
        ROOT / "charts/di-orchestrator/files/dijobs-policy.yaml",
        ROOT / "docs/reference/dijob.md",
    ]
    assert len(files) == 8
    assert main(["--check", *map(str, files)]) == 0


def test_a_file_without_markers_is_refused() -> None:
    assert markers(TEXT) == ["Thing"]
    with pytest.raises(MissingMarker):
        markers("a: 1")
