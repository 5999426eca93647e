"""What an image is built of, as one digest: the same one, and there is nothing to build.

Only Dockerfiles whose inputs can be told are known: their stages begin from `BASE_IMAGE` or from
one another, and copy files and folders that are named as they are. Of all others there is no
digest.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

_OTHERS = frozenset(
    {"ARG", "CMD", "ENTRYPOINT", "ENV", "EXPOSE", "LABEL", "RUN", "USER", "WORKDIR"}
)
"""Instructions that read nothing of the context, but for RUN with a mount."""
_FROM = re.compile(r"(\$\{?BASE_IMAGE\}?|\w+)(?:\s+AS\s+(\w+))?", re.IGNORECASE)
_PLAIN = re.compile(r"[\w./-]+")


def fingerprint(context: Path, dockerfile: Path, build_args: Mapping[str, str]) -> str | None:
    """The digest of a Dockerfile, its arguments, and what it copies; None if that cannot be told.

    Files of the context that are left out everywhere by `.dockerignore` (`**/NAME`) do not count.
    What else it leaves out counts, though it is not copied.

    Args:
        context: the folder that paths to copy are below.
        build_args: all of them, the base image among them.
    """
    text = dockerfile.read_text()
    sources = _sources(text)
    if sources is None:
        return None
    ignored = _ignored(context)
    digest = hashlib.sha256(repr((text, sorted(build_args.items()))).encode())
    for source in sources:
        path = context / source
        if not path.exists():
            return None
        for part in _files(path, ignored):
            digest.update(_described(part, context))
    return digest.hexdigest()


def _sources(text: str) -> list[str] | None:
    """What is copied out of the context; None if that cannot be told."""
    if re.search(r"(?mi)^\s*#\s*escape\s*=", text):
        return None
    found: list[str] = []
    bases = {"$BASE_IMAGE", "${BASE_IMAGE}"}
    for line in _instructions(text):
        name, _, rest = line.partition(" ")
        match name.upper():
            case "FROM":
                stage = _FROM.fullmatch(rest.strip())
                if stage is None or stage[1] not in bases:
                    return None
                bases |= {stage[2]} - {None}
            case "COPY":
                words = rest.split()
                *sources, _ = [word for word in words if not word.startswith("--")]
                if any(word.startswith("--from=") for word in words):
                    continue
                if not all(map(_PLAIN.fullmatch, sources)):
                    return None
                found += sources
            case other:
                if other not in _OTHERS or "--mount" in rest or "<<" in rest:
                    return None
    return found


def _instructions(text: str) -> Iterator[str]:
    """The instructions of a Dockerfile, each in one line."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\s*\n", " ", "\n".join(lines))
    return (line.strip() for line in joined.splitlines() if line.strip())


def _ignored(context: Path) -> tuple[str, ...]:
    """Patterns of names that are left out wherever they are."""
    file = context / ".dockerignore"
    if not file.is_file() or (context / ".containerignore").exists():
        return ()
    lines = [line.strip() for line in file.read_text().splitlines()]
    last = max((at for at, line in enumerate(lines) if line.startswith("!")), default=-1)
    names = (line.removeprefix("**/") for line in lines[last + 1 :] if line.startswith("**/"))
    return tuple(name for name in names if name and "/" not in name)


def _files(path: Path, ignored: Iterable[str]) -> Iterator[Path]:
    """The path and all below it, in an order that is always the same."""
    if any(fnmatchcase(path.name, pattern) for pattern in ignored):
        return
    yield path
    if path.is_dir() and not path.is_symlink():
        for each in sorted(path.iterdir()):
            yield from _files(each, ignored)


def _described(path: Path, context: Path) -> bytes:
    """Name, kind, permissions and content, so that two different files are never alike."""
    mode = path.lstat().st_mode
    content = b""
    if stat.S_ISLNK(mode):
        content = os.readlink(path).encode()
    elif stat.S_ISREG(mode):
        content = hashlib.sha256(path.read_bytes()).digest()
    return repr((str(path.relative_to(context)), mode, content)).encode()
