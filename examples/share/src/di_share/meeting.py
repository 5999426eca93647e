"""Where the learners of a world exchange what they have: each brings an item and gets all of them.

Rank 0 keeps the meeting and serves it over HTTP to the others.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, Protocol

import di_orchestrator as di

WAIT_SECONDS = 2.0
"""How long a request waits for the others; then it is made again."""
ASK_SECONDS = 5.0
"""How long the first member is asked before this one looks whether the world is over."""
RETRY_SECONDS = 0.1
LEAVE_SECONDS = 10.0
NOT_NOW, LATE = 409, 503


class WorldOverError(Exception):
    """This world is no more, or its first member is gone: there will be another one."""


class Place(Protocol):
    """A learner's place in a world."""

    def meet(self, number: int, item: Any) -> list[Any]:
        """Bring an item to the meeting of that number; returns those of all, by rank.

        Raises:
            WorldOverError: not all of them come any more.
        """

    def leave(self, number: int) -> None:
        """Meet for the last time: all have got what they asked the first one for.

        Raises:
            WorldOverError: somebody has come or gone; there is another world to tell the end.
        """


class Meeting:
    """The meetings of one world after the other; for any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._generation = 0
        self._size = 0
        self._items: dict[int, dict[int, Any]] = {}

    def open(self, generation: int, size: int) -> None:
        """From now on a world of so many members meets."""
        with self._changed:
            self._generation, self._size, self._items = generation, size, {}
            self._changed.notify_all()

    def end_all_but(self, generation: int) -> None:
        """There is this world now: who waits for another one gets no answer."""
        with self._changed:
            if self._generation != generation:
                self.open(0, 0)

    def meet(
        self, generation: int, number: int, rank: int, item: Any, *, seconds: float
    ) -> list[Any] | None:
        """The items of all; None if they are not there after so many seconds.

        Raises:
            WorldOverError: another world meets, or none.
        """
        with self._changed:
            if generation != self._generation:
                raise WorldOverError(f"world {generation} does not meet")
            items = self._items.setdefault(number, {})
            # Who brings the next one has got the one before: only the last two are asked for.
            self._items.pop(number - 2, None)
            items[rank] = item
            self._changed.notify_all()
            size = self._size
            self._changed.wait_for(
                lambda: len(items) == size or generation != self._generation, seconds
            )
            if len(items) == size:
                return [items[each] for each in range(size)]
            if generation != self._generation:
                raise WorldOverError(f"world {generation} is over")
            return None


class First:
    """The place of rank 0.

    Args:
        pause: waits for so many seconds; True if the learner is to leave.
    """

    def __init__(
        self, meeting: Meeting, generation: int, size: int, *, pause: Callable[[float], bool]
    ) -> None:
        self._meeting, self._generation = meeting, generation
        self._pause = pause
        meeting.open(generation, size)

    def meet(self, number: int, item: Any) -> list[Any]:
        """See `Place`."""
        while not self._pause(0.0):
            found = self._meeting.meet(self._generation, number, 0, item, seconds=1.0)
            if found is not None:
                return found
        raise WorldOverError("the first member is to leave")

    def leave(self, number: int) -> None:
        """See `Place`. Who has not come after LEAVE_SECONDS has gone without a word."""
        self._meeting.meet(self._generation, number, 0, {}, seconds=LEAVE_SECONDS)


class Other:
    """The place of another rank, who meets at the first one's.

    Args:
        is_over: whether this world is no more.
        pause: waits for so many seconds; True if the learner is to leave.
    """

    def __init__(
        self,
        url: str,
        generation: int,
        rank: int,
        *,
        is_over: Callable[[], bool],
        pause: Callable[[float], bool],
    ) -> None:
        self._url = f"{url}/meet/{generation}/{rank}"
        self._is_over = is_over
        self._pause = pause

    def meet(self, number: int, item: Any) -> list[Any]:
        """See `Place`."""
        while not self._is_over():
            try:
                return self._ask(number, item)
            except (di.Refused, di.Unreachable):
                # It may not be there yet, or be gone: then there is another world soon.
                if self._pause(RETRY_SECONDS):
                    break
        raise WorldOverError("the first member does not answer")

    def leave(self, number: int) -> None:
        """See `Place`. Who finds nobody there is the last to leave."""
        try:
            self._ask(number, {})
        except di.Refused as error:
            raise WorldOverError("another world meets") from error
        except di.Unreachable:
            return

    def _ask(self, number: int, item: Any) -> list[Any]:
        """Ask the first member, again while others are waited for."""
        body = json.dumps(item).encode()
        answer = di.call("POST", f"{self._url}/{number}", body, seconds=ASK_SECONDS)
        found: list[Any] = json.loads(answer)
        return found


def answering(meeting: Meeting) -> Callable[[di.Asked], di.Reply]:
    """What the hub of the first member says to the others."""

    def answer(asked: di.Asked) -> di.Reply:
        generation, rank, number = map(int, asked.path.split("/")[2:])
        item = json.loads(asked.body)
        try:
            found = meeting.meet(generation, number, rank, item, seconds=WAIT_SECONDS)
        except WorldOverError:
            return di.Reply(NOT_NOW)
        return di.Reply(LATE) if found is None else di.Reply(body=json.dumps(found).encode())

    return answer
