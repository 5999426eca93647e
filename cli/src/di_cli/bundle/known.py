"""Redaction of known secrets in texts, in time linear in the text.

A log can repeat hundreds of thousands of tokens, all of them known. A search for one after the
other would take their number times the length of the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

REDACTED: Final = "[redacted]"
SHORTEST: Final = 5
"""Minimum length of a secret that is searched for; shorter ones occur in ordinary words."""
_PREFIX: Final = 64
"""Length of the prefix by which a longer secret is found."""
_ALIKE: Final = 4
"""Maximum number of secrets with the same prefix that are compared in full."""
_FEW: Final = 32
"""Number of secrets up to which a search for one after the other is faster."""


class KnownSecrets:
    """Known secrets, and their redaction in texts.

    Attributes:
        looks: number of comparisons so far, of at most 64 characters each.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """`secrets` shorter than five characters are ignored."""
        found = sorted({each for each in secrets if len(each) >= SHORTEST}, key=len, reverse=True)
        self.looks = 0
        self._few = found if len(found) <= _FEW else None
        self._short: set[str] = set()
        # Longer secrets by their first 64 characters, the longest first.
        self._long: dict[str, list[str]] = {}
        # By the first characters: the lengths to compare, the longest first.
        self._lengths: dict[str, list[int]] = {}
        for each in found if self._few is None else ():
            if len(each) > _PREFIX:
                self._long.setdefault(each[:_PREFIX], []).append(each)
            else:
                self._short.add(each)
            lengths = self._lengths.setdefault(each[:SHORTEST], [])
            length = min(len(each), _PREFIX)
            if not lengths or lengths[-1] != length:
                lengths.append(length)

    def without(self, text: str) -> str:
        """Return the text with its secrets redacted; two that overlap or touch are redacted as one.

        If more than four secrets share their first 64 characters, every text with that beginning is
        redacted for the length of the longest of them.
        """
        if self._few is not None:
            for secret in self._few:
                text = text.replace(secret, REDACTED)
            return text
        parts: list[str] = []
        begin = end = done = 0
        lengths = self._lengths
        for at in range(len(text) - SHORTEST + 1):
            if (candidates := lengths.get(text[at : at + SHORTEST])) is None:
                continue
            if not (size := self._size(text, at, candidates)):
                continue
            if at > end:
                parts += [text[done:begin], REDACTED] if end else []
                begin, done = at, end
            elif not end:
                begin = at
            end = max(end, at + size)
        if not end:
            return text
        return "".join((*parts, text[done:begin], REDACTED, text[end:]))

    def _size(self, text: str, at: int, lengths: list[int]) -> int:
        """Return the length of the longest secret at a position; 0: there is none."""
        for length in lengths:
            self.looks += 1
            part = text[at : at + length]
            if length == _PREFIX and (size := self._size_of_long(text, at, part)):
                return size
            if part in self._short:
                return len(part)
        return 0

    def _size_of_long(self, text: str, at: int, part: str) -> int:
        alike = self._long.get(part, ())
        if len(alike) > _ALIKE:
            return min(len(alike[0]), len(text) - at)
        return next((len(each) for each in alike if text.startswith(each, at)), 0)
