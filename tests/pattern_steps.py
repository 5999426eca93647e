"""How many steps a regular expression takes: a backtracking matcher that counts.

It reads the tree that Python's own compiler reads, so it knows every pattern that compiles, but
for back references and conditions, which no pattern of the product has. A step is one try of one
node at one place. Python's own matcher skips some of them, never more than a constant share.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from random import Random
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]  # untyped internals
from typing import Any, Final

_FEW: Final = 3
"""Most turns of a repeat, above its minimum, in a text that is made to match."""
_LETTERS: Final = "abcxyzABCXYZ019 \t-_.,:;=/\\\"'()[]{}@$%&+*#?!<>|~\n"

Next = Callable[[int], bool]
Matcher = Callable[[int, Next], bool]
"""From a place in the text, and what follows, to whether both match."""


class TooManySteps(Exception):
    """The matcher was stopped."""


def steps(pattern: re.Pattern[str], text: str, *, most: int, begins: int | None = None) -> int:
    """Steps to find all matches of a pattern in a text.

    `begins` is the number of places where a match may begin; None: everywhere.

    Raises:
        TooManySteps: there are more than `most`.
    """
    return _Count(pattern, text, most).all(len(text) + 1 if begins is None else begins)


def matching(pattern: re.Pattern[str], rng: Random) -> str:
    """A text that the pattern mostly matches."""
    return "".join(_made(_tree(pattern), pattern.flags, rng))


def _tree(pattern: re.Pattern[str]) -> Any:
    return _parser.parse(pattern.pattern, pattern.flags)


class _Count:
    def __init__(self, pattern: re.Pattern[str], text: str, most: int) -> None:
        self._text, self._flags, self._most = text, pattern.flags, most
        self._taken = 0
        self._match = self._sequence(_tree(pattern))

    def all(self, begins: int) -> int:
        place, ends = 0, list[int]()

        def end(at: int) -> bool:
            ends.append(at)
            return True

        while place < begins:
            self._step()
            ends.clear()
            place = max(place + 1, ends[-1]) if self._match(place, end) else place + 1
        return self._taken

    def _step(self) -> None:
        self._taken += 1
        if self._taken > self._most:
            raise TooManySteps

    def _sequence(self, nodes: Iterable[Any]) -> Matcher:
        found = [self._node(*node) for node in nodes]
        if len(found) == 1:
            return found[0]

        def match(place: int, then: Next) -> bool:
            def rest(number: int, at: int) -> bool:
                if number == len(found):
                    return then(at)
                return found[number](at, lambda after: rest(number + 1, after))

            return rest(0, place)

        return match

    def _node(self, op: Any, value: Any) -> Matcher:  # noqa: PLR0911  # one for each kind
        if op in _SINGLE:
            return self._single(op, value)
        if op is _constants.BRANCH:
            return self._branch([self._sequence(each) for each in value[1]])
        if op is _constants.SUBPATTERN:
            return self._sequence(value[-1])
        if op in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
            return self._repeat(*value, is_greedy=op is _constants.MAX_REPEAT)
        if op is _constants.POSSESSIVE_REPEAT:
            return self._atomic(self._repeat(*value, is_greedy=True))
        if op is _constants.ATOMIC_GROUP:
            return self._atomic(self._sequence(value))
        if op is _constants.AT:
            # The place alone decides.
            return self._at(_alone(op, value, self._flags))
        if op in (_constants.ASSERT, _constants.ASSERT_NOT):
            return self._look(*value, wanted=op is _constants.ASSERT)
        raise NotImplementedError(str(op))

    def _single(self, op: Any, value: Any) -> Matcher:
        fits, text = _fits(_alone(op, value, self._flags)), self._text

        def match(place: int, then: Next) -> bool:
            self._step()
            return place < len(text) and fits(text[place]) and then(place + 1)

        return match

    def _at(self, alone: re.Pattern[str]) -> Matcher:
        def match(place: int, then: Next) -> bool:
            self._step()
            return alone.match(self._text, place) is not None and then(place)

        return match

    def _branch(self, ways: list[Matcher]) -> Matcher:
        return lambda place, then: any(way(place, then) for way in ways)

    def _atomic(self, inner: Matcher) -> Matcher:
        def match(place: int, then: Next) -> bool:
            ends: list[int] = []

            def end(at: int) -> bool:
                ends.append(at)
                return True

            return inner(place, end) and then(ends[-1])

        return match

    def _look(self, direction: int, nodes: Any, *, wanted: bool) -> Matcher:
        inner, width = self._sequence(nodes), nodes.getwidth()[0]

        def match(place: int, then: Next) -> bool:
            start = place if direction > 0 else place - width
            found = start >= 0 and inner(start, lambda _: True)
            return found is wanted and then(place)

        return match

    def _repeat(self, least: int, most: Any, nodes: Any, *, is_greedy: bool) -> Matcher:
        most = len(self._text) + 1 if most is _constants.MAXREPEAT else int(most)
        if len(nodes) == 1 and nodes[0][0] in _SINGLE and is_greedy:
            return self._run(least, most, _fits(_alone(nodes[0][0], nodes[0][1], self._flags)))
        inner = self._sequence(nodes)

        def match(place: int, then: Next) -> bool:
            def turn(number: int, at: int) -> bool:
                self._step()

                def again(after: int) -> bool:
                    # An empty turn would go on for ever.
                    return after > at and turn(number + 1, after)

                if number < least:
                    return inner(at, lambda after: turn(number + 1, after))
                if is_greedy:
                    return (number < most and inner(at, again)) or then(at)
                return then(at) or (number < most and inner(at, again))

            return turn(0, place)

        return match

    def _run(self, least: int, most: int, fits: Callable[[str], bool]) -> Matcher:
        """A repeat of one character, without a call for each."""
        text = self._text

        def match(place: int, then: Next) -> bool:
            at, last = place, min(len(text), place + most)
            while at < last and fits(text[at]):
                self._step()
                at += 1
            while at - place >= least:
                self._step()
                if then(at):
                    return True
                at -= 1
            return False

        return match


_SINGLE: Final = (_constants.LITERAL, _constants.NOT_LITERAL, _constants.ANY, _constants.IN)


def _alone(op: Any, value: Any, flags: int) -> re.Pattern[str]:
    state = _parser.State()
    state.flags = flags
    found: re.Pattern[str] = _compiler.compile(_parser.SubPattern(state, [(op, value)]), flags)
    return found


def _fits(alone: re.Pattern[str]) -> Callable[[str], bool]:
    return lru_cache(maxsize=None)(lambda letter: alone.fullmatch(letter) is not None)


def _made(nodes: Iterable[Any], flags: int, rng: Random) -> Iterator[str]:
    for op, value in nodes:
        if op in _SINGLE:
            alone = _alone(op, value, flags)
            letter = chr(value) if op is _constants.LITERAL else ""
            yield letter or rng.choice([each for each in _LETTERS if alone.match(each)] or [""])
        elif op is _constants.BRANCH:
            yield from _made(rng.choice(value[1]), flags, rng)
        elif op is _constants.SUBPATTERN:
            yield from _made(value[-1], flags, rng)
        elif op is _constants.ATOMIC_GROUP:
            yield from _made(value, flags, rng)
        elif op in (
            _constants.MAX_REPEAT,
            _constants.MIN_REPEAT,
            _constants.POSSESSIVE_REPEAT,
        ):
            least, most, inner = value
            for _ in range(rng.randint(least, min(int(most), least + _FEW))):
                yield from _made(inner, flags, rng)
