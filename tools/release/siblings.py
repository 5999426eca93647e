"""Where pip finds our packages in a clone: beside the one that it builds.

`pip install ./cli` builds one package, which requires others of this repository by name and
version. An index must not be asked for them, because anyone can publish a package of that name
there. This hook of hatchling adds a direct reference to each of them, and pip prefers those.
Releases are built without hooks (`tools.release.wheels`), and so are images.

It runs where hatchling runs, which may be Python 3.9 with nothing but hatchling.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from email.parser import Parser
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from zipfile import ZIP_DEFLATED, ZipFile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.core import load_toml
from packaging.requirements import Requirement

NO_HOOKS: Final = "HATCH_BUILD_NO_HOOKS"
"""Environment variable of hatchling that turns this hook off."""

Projects = Mapping[str, tuple[Path, Mapping[str, Any]]]
"""Folder and `[project]` table of each package, by name."""


def projects(root: Path) -> Projects:
    """Return our packages below the root of the repository."""
    return {
        table["name"]: (file.parent, table)
        for folder in ("", "libraries/", "services/")
        for file in root.glob(f"{folder}*/pyproject.toml")
        for table in (load_toml(str(file))["project"],)
    }


def required(
    ours: Projects, requirements: Iterable[str], *, all_extras: bool = False
) -> dict[str, set[str]]:
    """Return the extras of each of our packages that requirements lead to, by name in order.

    Args:
        ours: all of our packages.
        requirements: where to start, such as `di-cli` and `di-service[serving]`.
        all_extras: whether each package counts with all extras that it has.
    """
    found: dict[str, set[str]] = {}
    wanted = list(map(Requirement, requirements))
    while wanted:
        each = wanted.pop()
        if each.name not in ours:
            continue
        table = ours[each.name][1]
        offered = table.get("optional-dependencies", {})
        asked = set(offered) if all_extras else each.extras & set(offered)
        if each.name not in found:
            found[each.name] = set()
            wanted += map(Requirement, table.get("dependencies", ()))
        for extra in asked - found[each.name]:
            found[each.name].add(extra)
            wanted += map(Requirement, offered[extra])
    return dict(sorted(found.items()))


def references(ours: Projects, name: str) -> Iterator[str]:
    """Yield direct references to those of our packages that one of them needs."""
    always = required(ours, [name])
    for each in always:
        if each != name:
            yield f"{each} @ {ours[each][0].as_uri()}"
    for extra in ours[name][1].get("optional-dependencies", {}):
        for each in required(ours, [f"{name}[{extra}]"]):
            if each not in always:
                yield f"{each} @ {ours[each][0].as_uri()} ; extra == '{extra}'"


def refer(wheel: Path, ours: Projects) -> None:
    """Put the direct references into the metadata of a wheel.

    They come first: pip looks for a package as soon as it reads the first requirement of it.
    """
    with ZipFile(wheel) as archive:
        members = {each: archive.read(each) for each in archive.infolist()}
    (metadata,) = (each for each in members if each.filename.endswith(".dist-info/METADATA"))
    (record,) = (each for each in members if each.filename.endswith(".dist-info/RECORD"))
    text = members[metadata].decode()
    name = Parser().parsestr(text, headersonly=True)["Name"]
    lines = "".join(f"\nRequires-Dist: {each}" for each in references(ours, name))
    members[metadata] = text.replace("\nRequires-Dist:", f"{lines}\nRequires-Dist:", 1).encode()
    members[record] = b"".join(
        _recorded(metadata.filename, members[metadata])
        if line.startswith(metadata.filename.encode())
        else line
        for line in members[record].splitlines(keepends=True)
    )
    with ZipFile(wheel, "w", ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)


def _recorded(path: str, content: bytes) -> bytes:
    digest = urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n".encode()


class Siblings(BuildHookInterface):  # type: ignore[type-arg] # hatchling's own examples have none
    """Hatchling's hook, called with each wheel that it has built."""

    def finalize(  # type: ignore[explicit-override] # Python 3.9 has no typing.override
        self, version: str, build_data: dict[str, Any], artifact_path: str
    ) -> None:
        """Put the references into the wheel."""
        refer(Path(artifact_path), projects(Path(__file__).resolve().parents[2]))
