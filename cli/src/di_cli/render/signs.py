"""Signs for terminals and encodings that have no others than ASCII."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Final, TextIO

_SIGNS: Final[Mapping[str, str]] = {
    "▇": "#",
    "▁": ".",
    "·": ".",
    "…": "~",
    "→": ">",
    "\u00d7": "x",
    "\u2013": "-",
    "\u2014": "-",
}
"""One character each, so that columns stay aligned."""
_HANDLER: Final = "di-signs"
_WITHOUT_UNICODE: Final = ("C", "POSIX")


def adapt(stream: TextIO, environ: Mapping[str, str]) -> None:
    """Have a stream write a similar sign for each that its encoding lacks.

    A terminal under `LC_ALL=C` gets ASCII alone, although Python writes UTF-8 there; files and
    pipes keep UTF-8.
    """
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is None:
        return
    codecs.register_error(_HANDLER, _similar)
    is_plain = stream.isatty() and environ.get("LC_ALL") in _WITHOUT_UNICODE
    reconfigure(encoding="ascii" if is_plain else None, errors=_HANDLER)


def is_unicode(stream: TextIO) -> bool:
    """Return whether a stream can write all characters."""
    return codecs.lookup(stream.encoding or "ascii").name.startswith("utf")


def _similar(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    bad = error.object[error.start : error.end]
    return "".join(_SIGNS.get(sign, "?") for sign in bad), error.end
