"""Writes the generated schemas into the definition, or checks that they are up to date.

kubectl get --raw /openapi/v3/api/v1 | python -m di_api.crd --openapi - dijobs-crd.yaml
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from di_api.crd.core_schema import core_schema, pod_template_schema
from di_api.crd.document import place


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 0, or 1 if --check finds the file out of date."""
    parser = argparse.ArgumentParser(prog="python -m di_api.crd", description=__doc__)
    parser.add_argument(
        "--openapi",
        required=True,
        help="the API server's answer at /openapi/v3/api/v1, a file or - for standard input",
    )
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    parser.add_argument("definition", type=Path, help="the YAML file of the definition")
    options = parser.parse_args(arguments)

    source = (
        sys.stdin.read() if options.openapi == "-" else Path(options.openapi).read_text("utf-8")
    )
    document = json.loads(source)
    old = options.definition.read_text("utf-8")
    new = place(old, "PodTemplateSpec", pod_template_schema(document))
    new = place(new, "Volume", core_schema(document, "Volume"))
    if new == old:
        return 0
    if options.check:
        print(f"{options.definition} is out of date; run {parser.prog}", file=sys.stderr)
        return 1
    options.definition.write_text(new, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
