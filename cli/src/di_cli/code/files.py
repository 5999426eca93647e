"""The files of a program or a folder that go into a bundle.

In a git repository these are the files that git tracks, and new ones that it does not ignore;
elsewhere all files. `.diignore` and names of secrets leave files out in both cases.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Final

from di_api.code_names import CODE_FALLBACK, CODE_PACKAGES
from di_cli.errors import CommandError
from di_unpack.program import MOST_BYTES, PARTS

IGNORE_FILE: Final = ".diignore"
_NEVER: Final = (
    *(".git", "__pycache__", "*.pyc", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache"),
    *(IGNORE_FILE, CODE_PACKAGES, CODE_FALLBACK, PARTS),
)
"""Patterns of files without use for a program, which are left out without a message."""
_SECRETS: Final = (
    *(".env", ".env.*", ".netrc", ".pypirc", ".npmrc", ".git-credentials", ".aws", ".ssh"),
    *(".kube", ".gnupg", "kubeconfig", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "credentials.json"),
)
"""Patterns of names of secrets."""
_PRIVATE_KEY: Final = re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----")
_PACKAGES: Final = (
    *("di_orchestrator", "requests", "urllib3", "idna", "certifi", "charset_normalizer"),
)
"""The package of training programs, and what it imports."""
_UNUSED: Final = ("contrib", "cli")
"""Parts of these packages that nothing here uses."""
_GIT_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class File:
    """The content of a file."""

    content: bytes
    is_executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The files of a bundle by path, and what is known about them.

    Attributes:
        secrets: paths that were left out because they may be secrets.
        skipped: paths that cannot be in a bundle, such as links out of the folder.
        revision: git commit of the files, with `-dirty` if they differ from it.
    """

    files: dict[str, File]
    secrets: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    revision: str | None = None


def take(path: Path, *, requirements: Path | None = None) -> Taken:
    """Return the files of a folder, or a program with its file of requirements.

    Raises CommandError.
    """
    try:
        if path.is_dir():
            return _folder(path)
        return _program(path, requirements)
    except OSError as error:
        raise CommandError(
            f"{error.filename or path} cannot be read", where=error.strerror or str(error)
        ) from error


def packages() -> dict[str, File]:
    """Return `di_orchestrator` and what it imports, as fallbacks for images that lack them.

    Empty without the package `di-orchestrator` on this machine.
    """
    if find_spec(_PACKAGES[0]) is None:
        return {}
    found: dict[str, File] = {}
    for name in _PACKAGES:
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            for each in sorted(Path(folder).rglob("*")):
                below = each.relative_to(folder)
                if each.suffix not in (".py", ".pem") or set(below.parts) & {*_UNUSED}:
                    continue
                place = f"{CODE_FALLBACK}/{name}/{below.as_posix()}"
                found[place] = File(each.read_bytes())
    return found


def _program(path: Path, requirements: Path | None) -> Taken:
    files = {path.name: _read(path)}
    if requirements is not None:
        files[requirements.name] = _read(requirements)
    return Taken(files=files, revision=_revision(path.parent, list(files)))


def _folder(path: Path) -> Taken:
    listed = _listed_by_git(path)
    names = sorted(_walked(path) if listed is None else listed)
    ignored = _patterns(path / IGNORE_FILE)
    files: dict[str, File] = {}
    secrets, skipped, total = [], [], 0
    for name in names:
        if _matches(name, _NEVER) or _matches(name, ignored):
            continue
        if _matches(name, _SECRETS):
            secrets.append(name)
            continue
        place = path / name
        if not place.is_symlink() and not place.exists():
            continue  # git still tracks a file that was deleted.
        if not place.is_file() or not place.resolve().is_relative_to(path.resolve()):
            skipped.append(name)
            continue
        file = _read(place)
        if _PRIVATE_KEY.search(file.content):
            secrets.append(name)
            continue
        total += len(file.content)
        if total > MOST_BYTES:
            raise CommandError(
                f"the files of {path} have more than {MOST_BYTES >> 20} MiB",
                where=f"up to and with {name}",
                remedy=f"leave out data and results with a file {IGNORE_FILE}",
            )
        files[name] = file
    return Taken(
        files=files,
        secrets=tuple(secrets),
        skipped=tuple(skipped),
        revision=None if listed is None else _revision(path, ["."]),
    )


def _read(path: Path) -> File:
    if not path.is_file():
        raise CommandError(f"there is no file {path}")
    mode = path.stat()
    if mode.st_size > MOST_BYTES:
        raise CommandError(
            f"{path} has more than {MOST_BYTES >> 20} MiB",
            remedy=f"leave it out with a file {IGNORE_FILE}",
        )
    return File(path.read_bytes(), bool(mode.st_mode & stat.S_IXUSR))


def _walked(path: Path) -> Iterator[str]:
    """Yield the paths of all files below a folder, without those of `_NEVER`."""
    for folder, folders, names in os.walk(path):
        above = Path(folder).relative_to(path)
        folders[:] = [name for name in folders if not _matches(name, _NEVER)]
        yield from ((above / name).as_posix() for name in names)


def _patterns(file: Path) -> tuple[str, ...]:
    """Return the patterns of a `.diignore`, a subset of those of `.gitignore`."""
    if not file.is_file():
        return ()
    lines = [line.strip() for line in file.read_text("utf-8", "replace").splitlines()]
    found = tuple(line for line in lines if line and not line.startswith("#"))
    for line in found:
        if line.startswith("!") or "**" in line:
            raise CommandError(
                f"{IGNORE_FILE} has the pattern {line}",
                where="patterns with ! or ** are not supported",
                remedy="name the files or folders that are left out, such as data/ or *.ckpt",
            )
    return found


def _matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a pattern fits the path, or a folder above it.

    A pattern without a slash fits a name at any depth, another one only from the top.
    """
    parts = PurePosixPath(name).parts
    above = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
    for pattern in patterns:
        text = pattern.rstrip("/")
        if "/" in text:
            if any(fnmatchcase(each, text.lstrip("/")) for each in above):
                return True
        elif any(fnmatchcase(part, text) for part in parts):
            return True
    return False


def _listed_by_git(path: Path) -> list[str] | None:
    """Return what git tracks and does not ignore; None outside a repository or without git."""
    listing = _git(path, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return None if listing is None else sorted({each for each in listing.split("\0") if each})


def _revision(path: Path, names: list[str]) -> str | None:
    commit = _git(path, "rev-parse", "HEAD")
    if commit is None:
        return None
    changes = _git(path, "status", "--porcelain", "--", *names)
    return f"{commit.strip()}{'-dirty' if changes else ''}"


def _git(path: Path, *words: str) -> str | None:
    # A repository's own settings must not start programs.
    command = ["git", "-C", str(path), "-c", "core.fsmonitor=false", *words]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else None
