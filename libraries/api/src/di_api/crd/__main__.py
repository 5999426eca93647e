"""Command that writes the generated parts into their files, or checks that they are up to date.

python -m di_api.crd charts/di-orchestrator/files/*-{crd,policy}.yaml docs/reference/dijob.md

A YAML or Markdown file has the generated part between markers. A JSON file is the schema of a pod
template, and the only part that needs an API server:

kubectl get --raw /openapi/v3/api/v1 | python -m di_api.crd --openapi - pod_template.json
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from di_api.crd.core_schema import Schema, pod_template_schema
from di_api.crd.document import markers, place, place_lines
from di_api.crd.policy import validations
from di_api.crd.spec_schema import SpecSchemas
from di_api.crd.tables import table
from di_api.validation.templates.core_types import pod_template


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit code: 0, or 1 if --check finds an outdated file."""
    parser = argparse.ArgumentParser(prog="python -m di_api.crd", description=__doc__)
    parser.add_argument(
        "--openapi",
        help="the API server's answer at /openapi/v3/api/v1, a file or - for standard input; "
        "without it the schema of a pod template is that of the library",
    )
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    parser.add_argument(
        "files", type=Path, nargs="+", help="definitions in YAML, documents, schemas in JSON"
    )
    options = parser.parse_args(arguments)

    template = _template_of(options.openapi) if options.openapi else pod_template()
    code = 0
    for file in options.files:
        old = file.read_text("utf-8") if file.exists() else ""
        new = _generated(file, old, template)
        if new == old:
            continue
        if options.check:
            print(f"{file} is out of date; run make generate", file=sys.stderr)
            code = 1
        else:
            file.write_text(new, "utf-8")
    return code


def _template_of(source: str) -> Schema:
    text = sys.stdin.read() if source == "-" else Path(source).read_text("utf-8")
    return pod_template_schema(json.loads(text))


def _generated(file: Path, text: str, template: Schema) -> str:
    match file.suffix:
        case ".json":
            return json.dumps(template, separators=(",", ":")) + "\n"
        case ".md":
            for name in markers(text):
                text = place_lines(text, name, table(name))
        case _:
            for name in markers(text):
                text = place(text, name, _schema(name, template))
    return text


def _schema(name: str, template: Schema) -> dict[str, Any]:
    if name == "Validations":
        return {"validations": validations()}
    schemas = SpecSchemas(template)
    specs = {
        "AggregatorConfigSpec": schemas.aggregator_config,
        "JobTaskSpec": schemas.job_task,
        "JobTemplateSpec": schemas.job_template,
        "OlderSpec": schemas.older,
        "Spec": schemas.newest,
        "SweepSpec": schemas.sweep,
    }
    return {"spec": specs[name]()}


if __name__ == "__main__":
    sys.exit(main())
