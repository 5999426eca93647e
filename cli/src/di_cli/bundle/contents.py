"""The files of an archive: redacted, and within a maximum size."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from di_cli.bundle.redact import known_secrets, redacted
from di_cli.bundle.secrets import cleaned

MOST_BYTES: Final = 32 << 20
"""Maximum bytes of all files before compression."""
MOST_OF_ONE: Final = 4 << 20
_CUT: Final = "... what was before is left out: it is too long"
_ABOUT: Final = """\
An archive for support, made by `di bundle`. It has what the user who made it may read.

Left out: Secrets; managedFields and last-applied-configuration; imagePullSecrets.
Replaced by [redacted]: variables, fields and flags whose names are those of passwords, tokens and
keys; user and password of URLs; what looks like a token or a private key; and each of these values
wherever else it stands, in logs for instance. What is secret and is named nowhere is not known:
look before you pass it on.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """The unredacted input of an archive.

    Attributes:
        objects: by path in the archive.
        texts: logs, by path in the archive.
        unread: what could not be read, and why.
    """

    objects: Mapping[str, Any]
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unread: Sequence[str] = ()


def files(material: Material, *, most: int = MOST_BYTES) -> dict[str, bytes]:
    """Return the archive's files by path, the most informative first; README names those
    left out.
    """
    texts = {path: _text(lines) for path, lines in material.texts.items()}
    known = known_secrets([*material.objects.values(), *texts.values(), *material.unread])
    made: dict[str, bytes] = {}
    left_out: list[str] = []
    room = most
    for path, value in material.objects.items():
        text = json.dumps(redacted(value, known), indent=1, ensure_ascii=False, default=str)
        room = _add(made, left_out, path, f"{text}\n", room)
    for path, text in texts.items():
        room = _add(made, left_out, path, cleaned(text, known), room)
    about = [_ABOUT]
    for title, told in (("Not read", material.unread), ("No room for", left_out)):
        if told:
            about += [f"{title}:", *(f"  {cleaned(each, known)}" for each in told), ""]
    return {"README.txt": "\n".join(about).encode(errors="replace"), **made}


def _text(lines: Sequence[str]) -> str:
    """Return the last lines that fit into one file, as whole lines, because half a secret could be
    missed.
    """
    kept: list[str] = []
    room = MOST_OF_ONE
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            kept.append(_CUT)
            break
        kept.append(line)
    return "".join(f"{line}\n" for line in reversed(kept))


def _add(made: dict[str, bytes], left_out: list[str], path: str, text: str, room: int) -> int:
    raw = text.encode(errors="replace")
    if len(raw) > room:
        left_out.append(path)
        return room
    made[path] = raw
    return room - len(raw)
