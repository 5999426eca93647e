"""The ConfigMaps of a bundle and the `spec.code` that names them; pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from di_api import names
from di_api.code_names import (
    ANNOTATION_CODE_HASH,
    ANNOTATION_CODE_SOURCE,
    CODE_BUNDLE_KEY,
    CODE_FILES_KEY,
    LABEL_CODE_OF,
    LABEL_CODE_STORE,
    MOST_CODE_PARTS,
)
from di_api.field_error import items, mapping
from di_cli.code.bundle import Bundle, contents, hash_of, listed, listing, packed_in
from di_unpack.program import BadBundle

KEPT: Final = 5
"""Bundles of a job that are kept besides the present one, for `di rollback`."""
FOLDER: Final = "."
"""Value of the annotation of a ConfigMap for a folder; else it is the name of the program."""
_DIGITS: Final = 12
_ON_CLAIM: Final = "-files"
"""End of the name of a ConfigMap without the bundle itself."""
_PART: Final = re.compile(r"\.\d+$")

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The objects that have a bundle.

    Attributes:
        config_map: the first one with its parts, or the one with the names of its files.
        claim: None: ConfigMaps have all of it.
    """

    config_map: str = "unknown"
    claim: str | None = None


def config_map_name(job: str, bundle: Bundle, attempt: int = 0) -> str:
    """Return the name of the ConfigMap; a later attempt is for a name that is in use."""
    name = f"{job}-code-{bundle.sha256[:_DIGITS]}{_ON_CLAIM if bundle.is_large else ''}"
    return f"{name}-{attempt}" if attempt else name


def config_maps(
    stored: Stored, job: str, bundle: Bundle, source: str, owner: Object | None = None
) -> list[Object]:
    """Return the ConfigMaps of a bundle, with the job as their owner if the job exists.

    For a bundle on a claim it is one, with the names of the files. While it exists, the bundle is
    kept.
    """
    name, parts, key = stored.config_map, bundle.parts, CODE_BUNDLE_KEY
    labels, annotations = {LABEL_CODE_OF: job}, {ANNOTATION_CODE_SOURCE: source}
    if stored.claim:
        parts, key = [listing(bundle.packed)], CODE_FILES_KEY
        labels[LABEL_CODE_STORE] = "true"
        annotations[ANNOTATION_CODE_HASH] = bundle.sha256
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": each,
                "labels": labels,
                "annotations": annotations,
                **({"ownerReferences": [owner]} if owner else {}),
            },
            "immutable": True,
            "binaryData": {key: base64.b64encode(part).decode()},
        }
        for each, part in zip(names.code_config_maps(name, len(parts)), parts, strict=True)
    ]


def config_map_names(code: Mapping[str, Any]) -> list[str]:
    """Return the names of the ConfigMaps of a `spec.code`; empty if it names none."""
    first, parts = code.get("configMap"), code.get("parts")
    count = parts if isinstance(parts, int) and 1 <= parts <= MOST_CODE_PARTS else 1
    return names.code_config_maps(str(first), count) if first else []


def code_of(
    stored: Stored, bundle: Bundle, *, requirements: str | None, revision: str | None
) -> dict[str, Any]:
    """Return the value of `spec.code`."""
    return {
        "configMap": stored.config_map,
        **({"persistentVolumeClaim": stored.claim} if stored.claim else parts_of(bundle)),
        "sha256": bundle.sha256,
        **({"requirements": requirements} if requirements else {}),
        **({"revision": revision} if revision else {}),
    }


def parts_of(bundle: Bundle) -> dict[str, int]:
    """Return the field of `spec.code` with the number of ConfigMaps; none for one."""
    count = len(bundle.parts)
    return {"parts": count} if count > 1 else {}


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


def files_in(found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the hashes of the user's files that the ConfigMaps of a bundle have, by path; empty
    if they cannot be read.
    """
    try:
        if len(found) == 1 and CODE_FILES_KEY in mapping(found[0].get("binaryData")):
            return listed(packed_in(found, CODE_FILES_KEY))
        files = contents(packed_in(found))
    except (binascii.Error, BadBundle):
        return {}
    return {name: hash_of(content) for name, content in files.items()}


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the paths that differ between two bundles: new, changed and removed ones."""
    return sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )


def started_files(job: Mapping[str, Any], known: Mapping[str, str]) -> set[str]:
    """Return the files of a bundle that commands of the job's containers name."""
    words = {
        str(word).removeprefix("./")
        for task in map(mapping, items(mapping(job.get("spec")).get("tasks")))
        for container in items(mapping(mapping(task.get("template")).get("spec")).get("containers"))
        for word in items(mapping(container).get("command"))[:2]
    }
    return words & known.keys()


def outdated(found: Sequence[Mapping[str, Any]], current: str, uid: str) -> list[str]:
    """Return the ConfigMaps of a job that are no longer kept.

    Kept are those of the current bundle, and of the latest ones before it: `KEPT` at most, and no
    more ConfigMaps than one bundle can have.
    """
    bundles: dict[str, list[Mapping[str, Any]]] = {}
    for each in found:
        if owners(each) == {uid}:
            bundles.setdefault(_first_name(each["metadata"]["name"]), []).append(each)
    others = [parts for first, parts in bundles.items() if first != current]
    others.sort(key=lambda parts: max(map(_created, parts)), reverse=True)
    forgotten, count = [], 0
    for number, parts in enumerate(others):
        count += len(parts)
        if number >= KEPT or (number and count > MOST_CODE_PARTS):
            forgotten += [str(each["metadata"]["name"]) for each in parts]
    return forgotten


def _first_name(name: str) -> str:
    """Return the name of the first ConfigMap of a bundle for that of any."""
    return _PART.sub("", name)


def _created(found: Mapping[str, Any]) -> str:
    return str(mapping(found.get("metadata")).get("creationTimestamp"))
