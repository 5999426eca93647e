"""The ConfigMap of a bundle and the `spec.code` that names it; pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

from di_api import names
from di_api.field_error import items, mapping
from di_cli.code.bundle import Bundle, contents
from di_unpack.program import BadBundle

KEPT: Final = 5
"""Bundles of a job that are kept besides the present one, for `di rollback`."""
FOLDER: Final = "."
"""Value of the annotation of a ConfigMap for a folder; else it is the name of the program."""
_DIGITS: Final = 12

Object = dict[str, Any]


def config_map_name(job: str, sha256: str, attempt: int = 0) -> str:
    """Return the name of the ConfigMap; a later attempt is for a name that is in use."""
    name = f"{job}-code-{sha256[:_DIGITS]}"
    return f"{name}-{attempt}" if attempt else name


def config_map(
    name: str, job: str, bundle: Bundle, source: str, owner: Object | None = None
) -> Object:
    """Return the ConfigMap of a bundle, with the job as its owner if the job exists."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "labels": {names.LABEL_CODE_OF: job},
            "annotations": {names.ANNOTATION_CODE_SOURCE: source},
            **({"ownerReferences": [owner]} if owner else {}),
        },
        "immutable": True,
        "binaryData": {names.CODE_BUNDLE_KEY: base64.b64encode(bundle.packed).decode()},
    }


def code_of(
    name: str, bundle: Bundle, *, requirements: str | None, revision: str | None
) -> dict[str, str]:
    """Return the value of `spec.code`."""
    return {
        "configMap": name,
        "sha256": bundle.sha256,
        **({"requirements": requirements} if requirements else {}),
        **({"revision": revision} if revision else {}),
    }


def owner_of(job: Mapping[str, Any]) -> Object:
    """Return the reference by which the ConfigMap is deleted with its job.

    The job is not its controller, because the operator does not manage the ConfigMap.
    """
    metadata = mapping(job.get("metadata"))
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
    }


def owners(found: Mapping[str, Any]) -> set[str]:
    """Return the UIDs of the owners of an object."""
    references = items(mapping(found.get("metadata")).get("ownerReferences"))
    return {str(mapping(each).get("uid")) for each in references}


def files_in(found: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the user's files in a ConfigMap; empty if they cannot be read."""
    text = mapping(found.get("binaryData")).get(names.CODE_BUNDLE_KEY)
    try:
        return contents(base64.b64decode(str(text), validate=True))
    except (binascii.Error, BadBundle):
        return {}


def changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[str]:
    """Return the paths that differ between two bundles: new, changed and removed ones."""
    return sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )


def started_files(job: Mapping[str, Any], known: Mapping[str, bytes]) -> set[str]:
    """Return the files of a bundle that commands of the job's containers name."""
    words = {
        str(word).removeprefix("./")
        for task in map(mapping, items(mapping(job.get("spec")).get("tasks")))
        for container in items(mapping(mapping(task.get("template")).get("spec")).get("containers"))
        for word in items(mapping(container).get("command"))[:2]
    }
    return words & known.keys()


def outdated(found: Sequence[Mapping[str, Any]], current: str, uid: str) -> list[str]:
    """Return the ConfigMaps of a job that are no longer kept: all but the latest."""
    own = [each for each in found if owners(each) == {uid}]
    others = [each for each in own if mapping(each.get("metadata")).get("name") != current]
    others.sort(key=lambda each: str(mapping(each.get("metadata")).get("creationTimestamp")))
    return [str(each["metadata"]["name"]) for each in others[: max(0, len(others) - KEPT)]]
