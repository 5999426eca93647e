"""Items that are fetched or built side by side, each once what it depends on is ready."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

Command = Literal["check", "test", "all", "bench"]
COMMANDS: Final[Sequence[Command]] = ("check", "test", "all", "bench")
"""The commands; each needs what those before it need, in the groups that it names."""
Group = Literal[
    "browser",
    "containers",
    "control plane",
    "earlier version",
    "examples",
    "helm",
    "kueue",
    "libraries",
    "node",
    "peers",
    "prometheus",
    "release",
    "rival",
    "soak",
    "storage",
]
"""What items are for; a lane names those that its tests use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Something that tests need.

    Attributes:
        name: what the user reads.
        command: the first of `COMMANDS` that needs it.
        group: what it is for.
        how: how it is fetched or built.
        advice: what to do if that fails.
        is_ready: whether there is nothing to do.
        make: fetches or builds it; an exception is a failure.
        after: names of the items that it needs.
        turn: one item of the same turn is made at a time, since all of them need one lock.
    """

    name: str
    command: Command
    group: Group
    how: str
    advice: str
    is_ready: Callable[[], bool]
    make: Callable[[], object]
    after: Collection[str] = ()
    turn: str = ""


class Display(Protocol):
    """Where the user reads how far the items are."""

    def begins(self, item: Item) -> None: ...

    def ends(self, item: Item, seconds: float) -> None: ...

    def fails(self, item: Item, reason: str) -> None: ...


def needed_by(
    items: Iterable[Item], command: Command, groups: Collection[Group] = ()
) -> list[Item]:
    """The items that a command needs: those of some groups, with what they depend on, or all."""
    first = COMMANDS.index(command)
    found = [item for item in items if COMMANDS.index(item.command) <= first]
    if not groups:
        return found
    names, new = set[str](), {item.name for item in found if item.group in groups}
    while new:
        names |= new
        new = {name for item in found if item.name in new for name in item.after} - names
    return [item for item in found if item.name in names]


def processors() -> int:
    """The number of processors that this process is allowed to use."""
    return len(os.sched_getaffinity(0))


def unready(items: Sequence[Item]) -> list[Item]:
    """The items that are not ready. All are asked at once, since most wait for a program."""
    if not items:
        return []
    with ThreadPoolExecutor(len(items)) as pool:
        ready = list(pool.map(_is_ready, items))
    return [item for item, is_ready in zip(items, ready, strict=True) if not is_ready]


def _is_ready(item: Item) -> bool:
    try:
        return item.is_ready()
    except Exception:  # `make` meets the same fault, and its failure is reported
        return False


@dataclass(slots=True)
class Preparation:
    """One run over items that are not ready.

    Args:
        display: where progress goes.
        workers: how many items are made at once.
    """

    display: Display
    workers: int
    failed: dict[str, str] = field(default_factory=dict)
    """Why items have failed, by their names."""
    _running: dict[Future[object], tuple[Item, float]] = field(default_factory=dict)

    def make(self, items: Sequence[Item]) -> None:
        """Make the items, the first ones first; a failure stops only what depends on it."""
        waiting = list(items)
        # Those that are not in the list are ready.
        unmade = {item.name for item in items}
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                while waiting or self._running:
                    waiting = self._without_hopeless(waiting)
                    for item in self._startable(waiting, unmade):
                        waiting.remove(item)
                        self.display.begins(item)
                        self._running[pool.submit(item.make)] = (item, time.monotonic())
                    if waiting and not self._running:
                        raise ValueError(f"{waiting[0].name} depends on itself")
                    done, _ = wait(self._running, return_when=FIRST_COMPLETED)
                    for future in done:
                        self._end(future, unmade)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _without_hopeless(self, waiting: list[Item]) -> list[Item]:
        """Those of the items whose dependencies have not failed; the others fail, too."""
        hopeful = []
        for item in waiting:
            if failed := [name for name in item.after if name in self.failed]:
                self._fail(item, f"it needs {', '.join(failed)}")
            else:
                hopeful.append(item)
        # What depends on the ones that have failed just now.
        return hopeful if hopeful == waiting else self._without_hopeless(hopeful)

    def _startable(self, waiting: Iterable[Item], unmade: set[str]) -> list[Item]:
        turns = {item.turn for item, _ in self._running.values()} - {""}
        free = self.workers - len(self._running)
        found: list[Item] = []
        for item in waiting:
            if len(found) < free and unmade.isdisjoint(item.after) and item.turn not in turns:
                found.append(item)
                turns |= {item.turn} - {""}
        return found

    def _end(self, future: Future[object], unmade: set[str]) -> None:
        item, started = self._running.pop(future)
        unmade.discard(item.name)
        if (error := future.exception()) is not None:
            self._fail(item, str(error) or type(error).__name__)
        else:
            self.display.ends(item, time.monotonic() - started)

    def _fail(self, item: Item, reason: str) -> None:
        self.failed[item.name] = reason
        self.display.fails(item, reason)
