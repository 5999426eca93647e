"""Writes the generated schemas into the files that hold them, or checks that they are up to date.

kubectl get --raw /openapi/v3/api/v1 | python -m di_api.crd --openapi - dijobs-crd.yaml

A YAML file has them between markers; a JSON file is the schema of a pod template as a whole.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from di_api.crd.core_schema import (
    core_schema,
    loose_template_schema,
    pod_template_schema,
    quantity_schema,
)
from di_api.crd.document import markers, place


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 0, or 1 if --check finds a file out of date."""
    parser = argparse.ArgumentParser(prog="python -m di_api.crd", description=__doc__)
    parser.add_argument(
        "--openapi",
        required=True,
        help="the API server's answer at /openapi/v3/api/v1, a file or - for standard input",
    )
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    parser.add_argument("files", type=Path, nargs="+", help="definitions in YAML, schemas in JSON")
    options = parser.parse_args(arguments)

    source = (
        sys.stdin.read() if options.openapi == "-" else Path(options.openapi).read_text("utf-8")
    )
    document = json.loads(source)
    code = 0
    for file in options.files:
        old = file.read_text("utf-8") if file.exists() else ""
        new = _json(document) if file.suffix == ".json" else _yaml(old, document)
        if new == old:
            continue
        if options.check:
            print(f"{file} is out of date; run {parser.prog}", file=sys.stderr)
            code = 1
        else:
            file.write_text(new, "utf-8")
    return code


def _yaml(text: str, document: Mapping[str, Any]) -> str:
    for kind in markers(text):
        text = place(text, kind, _schema(document, kind))
    return text


def _json(document: Mapping[str, Any]) -> str:
    schema = pod_template_schema(document)
    return json.dumps(schema, sort_keys=True, separators=(",", ":")) + "\n"


def _schema(document: Mapping[str, Any], kind: str) -> dict[str, Any]:
    if kind == "PodTemplateSpec":
        return pod_template_schema(document)
    if kind == "LoosePodTemplateSpec":
        return loose_template_schema(document)
    if kind == "Quantity":
        return quantity_schema()
    return core_schema(document, kind)


if __name__ == "__main__":
    sys.exit(main())
