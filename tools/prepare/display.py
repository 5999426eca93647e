"""Progress: a line for each item that begins or ends, and a live list on a terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TextIO

from tools.prepare.items import Item

if TYPE_CHECKING:
    from rich.table import Table


class Lines:
    """Prints a line when an item begins, ends or fails, with the seconds since the start."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._start = time.monotonic()

    def live(self) -> AbstractContextManager[object]:
        """What is entered while items are made."""
        return nullcontext()

    def begins(self, item: Item) -> None:
        self._say(f"{item.name} begins: {item.how}")

    def ends(self, item: Item, seconds: float) -> None:
        self._say(f"{item.name} is ready ({seconds:.1f} s)")

    def fails(self, item: Item, reason: str) -> None:
        text = reason.strip().replace("\n", "\n    ")
        self._say(f"{item.name} FAILED\n  tried: {item.how}\n  {text}\n  do: {item.advice}")

    def write(self, text: str) -> int:
        """Print lines of `di_cluster`'s reporter, whose stream this is."""
        self._write(text)
        return len(text)

    def flush(self) -> None:
        """Nothing is kept back."""

    def _say(self, text: str) -> None:
        # In one write: several threads print.
        self._write(f"[{time.monotonic() - self._start:6.1f} s] {text}\n")


class Screen:
    """The same on a terminal, below which the running items are listed with their time."""

    def __init__(self, stream: TextIO) -> None:
        # Here, because it takes a tenth of a second.
        from rich.console import Console  # noqa: PLC0415  # see above
        from rich.live import Live  # noqa: PLC0415  # see above

        self._running: dict[str, float] = {}
        self._lock = threading.Lock()
        console = Console(file=stream, highlight=False, markup=False)
        self._lines = Lines(lambda text: console.print(text, end="", soft_wrap=True))
        self._live = Live(
            console=console, get_renderable=self._list, refresh_per_second=4, transient=True
        )
        self.write, self.flush = self._lines.write, self._lines.flush

    def live(self) -> AbstractContextManager[object]:
        """The list is shown while this is entered."""
        return self._live

    def begins(self, item: Item) -> None:
        with self._lock:
            self._running[item.name] = time.monotonic()

    def ends(self, item: Item, seconds: float) -> None:
        self._drop(item)
        self._lines.ends(item, seconds)

    def fails(self, item: Item, reason: str) -> None:
        self._drop(item)
        self._lines.fails(item, reason)

    def _drop(self, item: Item) -> None:
        with self._lock:
            self._running.pop(item.name, None)

    def _list(self) -> Table:
        from rich.spinner import Spinner  # noqa: PLC0415  # see above
        from rich.table import Table  # noqa: PLC0415  # see above

        now, found = time.monotonic(), Table.grid(padding=(0, 1))
        with self._lock:
            for name, started in self._running.items():
                found.add_row(Spinner("dots"), name, f"{now - started:.0f} s")
        return found
