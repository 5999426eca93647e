"""What the page has from npm, checked in: `python -m tools.release.vendor` fetches it as
`dashboard/package-lock.json` has it, with `--check` nothing is fetched and all is compared.

Who installs the packages needs no npm; whoever changes a version does.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tools.release.version import ROOT

LOCK: Final = Path("dashboard/package-lock.json")
MANIFEST: Final = Path("dashboard/vendored.json")
_STATIC: Final = "dashboard/src/di_dashboard/static/vendor"
WANTED: Final[Mapping[str, Mapping[str, str]]] = {
    "idiomorph": {
        "dist/idiomorph.min.js": f"{_STATIC}/idiomorph.min.js",
        "LICENSE": f"{_STATIC}/idiomorph.LICENSE",
    },
    "uplot": {
        "dist/uPlot.iife.min.js": f"{_STATIC}/uPlot.min.js",
        "dist/uPlot.min.css": f"{_STATIC}/uPlot.min.css",
        "LICENSE": f"{_STATIC}/uPlot.LICENSE",
    },
    "axe-core": {
        "axe.min.js": "tests/browser/axe.min.js",
        "LICENSE": "tests/browser/axe.LICENSE",
    },
}
"""Files of each package, and where they lie here."""
_SECONDS: Final = 300


class CannotVendor(Exception):
    """Something was not fetched, or is another thing than the lock says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendored:
    """A file that is checked in.

    Attributes:
        integrity: of the package's archive, as the lock has it.
        sha256: of the file.
    """

    package: str
    version: str
    integrity: str
    source: str
    file: str
    sha256: str


def locked(root: Path) -> dict[str, tuple[str, str]]:
    """Version and integrity of each package of the lock."""
    packages: dict[str, Any] = json.loads((root / LOCK).read_text())["packages"]
    return {
        path.removeprefix("node_modules/"): (each["version"], each["integrity"])
        for path, each in packages.items()
        if path
    }


def faults(root: Path) -> Iterator[str]:
    """Yield each difference between the files, the manifest and the lock."""
    lock = locked(root)
    if set(lock) != set(WANTED):
        yield f"{LOCK} has {sorted(lock)}, and {sorted(WANTED)} are wanted"
        return
    found = [Vendored(**each) for each in json.loads((root / MANIFEST).read_text())]
    wanted = {(package, *pair) for package, files in WANTED.items() for pair in files.items()}
    if {(each.package, each.source, each.file) for each in found} != wanted:
        yield f"{MANIFEST} has other files than those that are wanted"
    for each in found:
        if (each.version, each.integrity) != lock.get(each.package):
            yield f"{each.file} is of {each.package} {each.version}, the lock has another one"
        path = root / each.file
        if not path.is_file() or _sha256(path.read_bytes()) != each.sha256:
            yield f"{each.file} is not what was fetched"


def fetch(root: Path) -> None:
    """Get all files anew, by npm, and write the manifest.

    Raises:
        CannotVendor: there is no npm, it fails, or what it brings is not what the lock says.
    """
    if (npm := shutil.which("npm")) is None:
        raise CannotVendor("npm is needed: install npm")
    found: list[Vendored] = []
    for package, (version, integrity) in locked(root).items():
        with tempfile.TemporaryDirectory() as temporary:
            archive = _pack(npm, f"{package}@{version}", Path(temporary), integrity)
            with tarfile.open(archive) as packed:
                for source, file in WANTED[package].items():
                    member = packed.extractfile(f"package/{source}")
                    assert member is not None, "a file, not a folder"
                    content = member.read()
                    (root / file).parent.mkdir(parents=True, exist_ok=True)
                    (root / file).write_bytes(content)
                    found.append(
                        Vendored(
                            package=package,
                            version=version,
                            integrity=integrity,
                            source=source,
                            file=file,
                            sha256=_sha256(content),
                        )
                    )
    text = json.dumps([asdict(each) for each in found], indent=2)
    (root / MANIFEST).write_text(f"{text}\n")


def _pack(npm: str, what: str, folder: Path, integrity: str) -> Path:
    done = subprocess.run(
        [npm, "pack", "--silent", "--pack-destination", str(folder), what],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        raise CannotVendor(f"npm pack {what}: {done.stderr}")
    (archive,) = folder.glob("*.tgz")
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if f"sha512-{digest}" != integrity:
        raise CannotVendor(f"{what} has another checksum than {integrity}")
    return archive


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main(arguments: list[str]) -> int:
    """Fetch, or with `--check` compare."""
    try:
        if arguments != ["--check"]:
            fetch(ROOT)
    except CannotVendor as error:
        print(f"vendor: {error}", file=sys.stderr)
        return 1
    found = list(faults(ROOT))
    for fault in found:
        print(f"vendor: {fault}; python -m tools.release.vendor", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
