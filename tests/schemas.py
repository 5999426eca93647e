"""The CRDs of the chart, and which fields of an object the API server would drop by them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
FILES = ROOT / "charts/di-orchestrator/files"


@cache
def status_schema(crd: str) -> Mapping[str, Any]:
    """Return the schema of the status in the stored version of a CRD, by its file name."""
    body = yaml.safe_load((FILES / crd).read_text("utf-8"))
    (version,) = (each for each in body["spec"]["versions"] if each["storage"])
    found: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    return found


def dropped(schema: Mapping[str, Any], value: Any, path: str = "status") -> list[str]:
    """Return the paths of fields that a structural schema does not have."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return []
    if isinstance(value, list):
        items = schema.get("items", {})
        return [found for each in value for found in dropped(items, each, f"{path}[]")]
    if not isinstance(value, Mapping):
        return []
    found = []
    for name, inner in value.items():
        known = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
        if known is None:
            found.append(f"{path}.{name}")
        elif inner is not None:
            found += dropped(known, inner, f"{path}.{name}")
    return found


def properties(schema: Mapping[str, Any], path: str = "status") -> Iterator[tuple[str, str]]:
    """Yield path and name of every property at any depth."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}", name
        yield from properties(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(inner := schema.get(key), Mapping):
            yield from properties(inner, f"{path}[]")


@cache
def texts_of(*folders: str) -> frozenset[str]:
    """Return all string constants of the Python sources in some folders, docstrings aside."""
    found = set()
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.add(node.value)
    return frozenset(found)
