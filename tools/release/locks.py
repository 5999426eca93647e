"""The lock files of the repository, and whether they agree: `python -m tools.release.locks`.

`uv.lock` is that of the product and its tests; each example has one of its own, with which it can
be copied. A package has one version in all of them, for each supported Python. Folders in
`[tool.locks.apart]` of `pyproject.toml` keep versions of their own, for the reason given there.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.markers import Marker

from tools.release.version import ROOT

LOCK: Final = "uv.lock"
"""The lock of the product and of its tests."""
NAMES: Final = ("*.lock", "package-lock.json")
_PIN: Final = re.compile(r"(?m)^([A-Za-z0-9._-]+)==([^ \\;\n]+)[ ]*(?:; ([^\\\n]*?))?[ ]*\\?$")
_SKIPPED: Final = re.compile(r"^(\.|out$|node_modules$)")
_MACHINE: Final = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "sys_platform": "linux",
}


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Pin:
    """A version of a package in a lock file.

    Attributes:
        ecosystem: `PyPI` or `npm`, as OSV names them.
        file: below the root.
        marker: of Python packages, when it is installed; empty: always.
    """

    ecosystem: str
    name: str
    version: str
    file: str
    marker: str = ""

    def is_for(self, python: str) -> bool:
        """Whether a Python of that version installs it."""
        if not self.marker:
            return True
        release = ".".join(python.split(".")[:2])
        environment = {**_MACHINE, "python_full_version": python, "python_version": release}
        return Marker(self.marker).evaluate(environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waivers:
    """What `pyproject.toml` allows, each with its reason.

    Attributes:
        apart: folders whose locks have versions of their own.
        accepted: vulnerabilities, by id.
    """

    apart: Mapping[str, str]
    accepted: Mapping[str, str]

    def is_apart(self, pin: Pin) -> bool:
        """Whether the pin is of a lock that has versions of its own."""
        return any(pin.file.startswith(f"{folder}/") for folder in self.apart)


def lock_files(root: Path) -> list[Path]:
    """Return all lock files of packages below a folder; those of Go are of other programs."""
    return sorted(
        file
        for name in NAMES
        for file in root.rglob(name)
        if not any(_SKIPPED.match(part) for part in file.relative_to(root).parts)
    )


def pins(root: Path) -> list[Pin]:
    """Return what all lock files pin.

    Raises:
        ValueError: a file pins nothing, or is no lock.
    """
    found: list[Pin] = []
    for file in lock_files(root):
        name = str(file.relative_to(root))
        of_file = list(_READERS.get(file.name, _of_requirements)(file, name))
        if not of_file:
            raise ValueError(f"{name} pins nothing that can be read")
        found += of_file
    return found


def read_waivers(root: Path) -> Waivers:
    """Return `[tool.locks]` of the root's `pyproject.toml`."""
    tools = tomllib.loads((root / "pyproject.toml").read_text()).get("tool", {})
    found = tools.get("locks", {})
    return Waivers(apart=found.get("apart", {}), accepted=found.get("accepted", {}))


def disagreements(found: Iterable[Pin], pythons: Iterable[str], waivers: Waivers) -> list[str]:
    """Return each package with several versions on one Python: versions, and their files."""
    kept = [pin for pin in found if pin.ecosystem == "PyPI" and not waivers.is_apart(pin)]
    faults: dict[str, list[str]] = {}
    for python in pythons:
        versions: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for pin in kept:
            if pin.is_for(python):
                versions[pin.name][pin.version].append(pin.file)
        for name, files in sorted(versions.items()):
            if len(files) > 1:
                parts = (f"{version} in {', '.join(sorted(files[version]))}" for version in files)
                faults.setdefault(f"{name}: {'; '.join(sorted(parts))}", []).append(python)
    return [f"{fault} (Python {', '.join(on)})" for fault, on in sorted(faults.items())]


def stale(found: Iterable[Pin], pythons: Iterable[str], waivers: Waivers) -> list[str]:
    """Return the folders of `apart` whose locks agree with all others, or that have none."""
    every, versions = list(found), list(pythons)
    faults = []
    for folder in waivers.apart:
        others = {name: why for name, why in waivers.apart.items() if name != folder}
        without = Waivers(apart=others, accepted={})
        if disagreements(every, versions, without) == disagreements(every, versions, waivers):
            faults.append(f"pyproject.toml: tool.locks.apart: {folder} needs no exception any more")
    return faults


def _of_requirements(file: Path, name: str) -> Iterator[Pin]:
    text = file.read_text()
    for line in re.findall(r"(?m)^[^\s#].*", text):
        if "==" not in line:
            raise ValueError(f"{name}: {line!r} pins nothing")
    for package, version, marker in _PIN.findall(text):
        yield _pin(package, version, name, marker)


def _of_uv(file: Path, name: str) -> Iterator[Pin]:
    for package in tomllib.loads(file.read_text()).get("package", ()):
        if "registry" in package["source"]:
            markers = [f"({each})" for each in package.get("resolution-markers", ())]
            yield _pin(package["name"], package["version"], name, " or ".join(markers))


def _pin(name: str, version: str, file: str, marker: str) -> Pin:
    normal = re.sub(r"[-_.]+", "-", name).lower()
    return Pin(ecosystem="PyPI", name=normal, version=version, file=file, marker=marker)


def _of_npm(file: Path, name: str) -> Iterator[Pin]:
    for place, package in json.loads(file.read_text()).get("packages", {}).items():
        if place:
            own = package.get("name") or place.rpartition("node_modules/")[2]
            yield Pin(ecosystem="npm", name=own, version=package["version"], file=name)


_READERS: Final[Mapping[str, Callable[[Path, str], Iterator[Pin]]]] = {
    LOCK: _of_uv,
    "package-lock.json": _of_npm,
}
"""By the file's name; all others are requirements as pip reads them."""


def pythons(root: Path) -> list[str]:
    """Return the oldest supported Python, and each later minor version up to the images' one."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    oldest = str(project["requires-python"]).removeprefix(">=")
    image = re.search(r"python:(\d+)\.(\d+)", (root / "services/operator/Dockerfile").read_text())
    assert image is not None, "the Dockerfile names its Python"
    first = int(oldest.split(".")[1])
    return [oldest, *(f"3.{minor}.99" for minor in range(first + 1, int(image[2]) + 1))]


def main(root: Path = ROOT) -> int:
    """Print what disagrees; 1 if anything does."""
    found, versions, waivers = pins(root), pythons(root), read_waivers(root)
    faults = [*disagreements(found, versions, waivers), *stale(found, versions, waivers)]
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults:
        print("make lock gives each package one version in all locks", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
