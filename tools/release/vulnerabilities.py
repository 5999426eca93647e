"""Known vulnerabilities of all packages in the lock files.

    python -m tools.release.vulnerabilities

The source is OSV (https://osv.dev): its service, or with VULNERABILITIES its database as files, the
`all.zip` of an ecosystem, separated by colons. Without the service and without files nothing is
scanned; then the output says so, and the command succeeds.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

from packaging.version import InvalidVersion, Version

from tools.release.locks import Pin, Waivers, pins, read_waivers
from tools.release.version import ROOT

VARIABLE: Final = "VULNERABILITIES"
SERVICE: Final = "https://api.osv.dev/v1/querybatch"
DATABASE: Final = "https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip, .../npm/all.zip"
_AT_ONCE: Final = 1000
"""Queries of one request, as the service has it."""
_SECONDS: Final = 60.0

Package = tuple[str, str, str]
"""Ecosystem, name and version."""
Found = Mapping[Package, Sequence[str]]
"""Ids of vulnerabilities by package."""
Ask = Callable[[bytes], bytes]


class NotScanned(Exception):
    """The source cannot be reached; the message says which and why."""


def from_service(packages: Sequence[Package], ask: Ask) -> Found:
    """Return what the service knows.

    Raises:
        NotScanned: it does not answer, or with something else.
    """
    found: dict[Package, list[str]] = {}
    for first in range(0, len(packages), _AT_ONCE):
        part = packages[first : first + _AT_ONCE]
        queries = [
            {"package": {"ecosystem": ecosystem, "name": name}, "version": version}
            for ecosystem, name, version in part
        ]
        try:
            results = json.loads(ask(json.dumps({"queries": queries}).encode()))["results"]
            for package, result in zip(part, results, strict=True):
                if ids := [str(each["id"]) for each in result.get("vulns", ())]:
                    found[package] = ids
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            reason = getattr(error, "reason", None) or error
            raise NotScanned(f"{SERVICE}: {reason}") from error
    return found


def from_files(packages: Sequence[Package], files: Iterable[Path]) -> Found:
    """Return what the database in these files knows.

    Raises:
        OSError, ValueError, zipfile.BadZipFile: a file cannot be read, or has no vulnerability in
            an ecosystem of ours.
    """
    versions: dict[tuple[str, str], list[str]] = defaultdict(list)
    for ecosystem, name, version in packages:
        versions[ecosystem, name].append(version)
    ecosystems, known = {ecosystem for ecosystem, _, _ in packages}, set[str]()
    found: dict[Package, list[str]] = defaultdict(list)
    for vulnerability in _entries(files):
        for affected in vulnerability.get("affected", ()):
            package = affected.get("package", {})
            ecosystem, name = str(package.get("ecosystem")), str(package.get("name"))
            known.add(ecosystem)
            for version in versions.get((ecosystem, name), ()):
                ids = found[ecosystem, name, version]
                if vulnerability["id"] not in ids and is_affected(affected, version):
                    ids.append(vulnerability["id"])
    if missing := sorted(ecosystems - known):
        raise ValueError(f"{VARIABLE} has no database of {', '.join(missing)}")
    return {package: ids for package, ids in found.items() if ids}


def is_affected(affected: Mapping[str, Any], version: str) -> bool:
    """Whether an `affected` of OSV's schema means a version; one that cannot be compared is."""
    if version in affected.get("versions", ()):
        return True
    return any(
        _is_within(each.get("events", ()), version)
        for each in affected.get("ranges", ())
        if each.get("type") in ("ECOSYSTEM", "SEMVER")
    )


def report(found: Found, every: Iterable[Pin], waivers: Waivers) -> tuple[list[str], list[str]]:
    """Return a line for each vulnerability: those that fail, and those that are accepted."""
    files: dict[Package, list[Pin]] = defaultdict(list)
    for pin in every:
        files[pin.ecosystem, pin.name, pin.version].append(pin)
    bad: list[str] = []
    accepted: list[str] = []
    for package, ids in sorted(found.items()):
        where = ", ".join(sorted({pin.file for pin in files[package]}))
        are_apart = all(waivers.is_apart(pin) for pin in files[package])
        for each in ids:
            line = f"{package[1]} {package[2]}: {each} (https://osv.dev/{each}) in {where}"
            is_accepted = are_apart or each in waivers.accepted
            (accepted if is_accepted else bad).append(line)
    return bad, accepted


def _entries(files: Iterable[Path]) -> Iterator[Mapping[str, Any]]:
    for file in files:
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                if name.endswith(".json"):
                    found = json.loads(archive.read(name))
                    if "withdrawn" not in found:
                        yield found


def _is_within(events: Iterable[Mapping[str, str]], version: str) -> bool:
    within = False
    try:
        own = Version(version)
        for event in events:
            if "introduced" in event:
                within = within or event["introduced"] == "0" or own >= Version(event["introduced"])
            elif "fixed" in event:
                within = within and own < Version(event["fixed"])
            elif "last_affected" in event:
                within = within and own <= Version(event["last_affected"])
    except InvalidVersion:
        return True
    return within


def _ask(body: bytes) -> bytes:
    request = Request(SERVICE, body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=_SECONDS) as answer:
        found: bytes = answer.read()
        return found


def main(root: Path = ROOT, *, files: str | None = None, ask: Ask = _ask) -> int:
    """Scan, and print what was found and by what; 1 if a vulnerability is not accepted."""
    every, waivers = pins(root), read_waivers(root)
    packages = sorted({(pin.ecosystem, pin.name, pin.version) for pin in every})
    given = os.environ.get(VARIABLE, "") if files is None else files
    try:
        if given:
            source = given
            found = from_files(packages, map(Path, given.split(os.pathsep)))
        else:
            source = SERVICE
            found = from_service(packages, ask)
    except NotScanned as error:
        print(
            f"vulnerabilities: NOT SCANNED, {len(packages)} packages are unchecked: {error}\n"
            f"  with {VARIABLE}=FILE:FILE they are compared with a copy of OSV's database "
            f"({DATABASE})",
            file=sys.stderr,
        )
        return 0
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        print(f"vulnerabilities: {VARIABLE}={given}: {error}", file=sys.stderr)
        return 1
    bad, accepted = report(found, every, waivers)
    for line in accepted:
        print(f"accepted (tool.locks in pyproject.toml): {line}")
    for line in bad:
        print(line, file=sys.stderr)
    print(f"vulnerabilities: {len(packages)} packages compared with {source}, {len(bad)} found")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
