"""Changes of a job back to an earlier spec."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import yaml

Object = Mapping[str, Any]


def patch_to(job: Object, manifest: Object) -> list[dict[str, Any]]:
    """Return the JSON patch that gives a job the spec of one of its revisions, replicas included.

    It fails if the spec changes before it is applied: what was shown would not be what happens. A
    change of the status, such as a report of progress every second, does no harm.
    """
    return [
        {"op": "test", "path": f"/metadata/{field}", "value": job["metadata"][field]}
        for field in ("uid", "generation")
    ] + [
        {"op": "replace", "path": "/spec", "value": manifest["spec"]},
    ]


def difference(before: Object, after: Object) -> list[str]:
    """Return the change of the spec as lines of a unified diff; empty if there is none."""
    old, new = (
        yaml.safe_dump({"spec": each.get("spec")}, sort_keys=True, allow_unicode=True).splitlines()
        for each in (before, after)
    )
    return list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
