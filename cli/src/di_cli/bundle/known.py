"""Texts without secrets that are known from elsewhere, in a time that grows with the text alone.

A log may repeat hundreds of thousands of tokens, each of them known. To look for one after the
other would cost their number times the length of the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

REDACTED: Final = "[redacted]"
SHORTEST: Final = 5
"""Characters of a secret that is looked for; shorter ones are in every other word."""
_PREFIX: Final = 64
"""Characters by which a longer secret is found."""
_ALIKE: Final = 4
"""Longer secrets that begin alike and are compared in full."""
_FEW: Final = 32
"""Secrets that are looked for one after the other, which is faster while they are few."""


class KnownSecrets:
    """Secrets, and what of a text is one of them.

    Attributes:
        looks: comparisons so far, of at most 64 characters each.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """`secrets` shorter than five characters are not looked for."""
        found = sorted({each for each in secrets if len(each) >= SHORTEST}, key=len, reverse=True)
        self.looks = 0
        self._few = found if len(found) <= _FEW else None
        self._short: set[str] = set()
        # By their first 64 characters: those that are longer, the longest first.
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
        """Return the text with its secrets redacted; two that overlap or touch become one.

        Where more than four secrets have their first 64 characters in common, what begins so is
        redacted as far as the longest of them reaches.
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
        """Characters of the longest secret at a place; 0: there is none."""
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
