"""The collectors at work: portions of episodes go out, and come back from whoever is there."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from di_coordinated.client import Unreachable, call
from di_coordinated.health import Health
from di_coordinated.policy import Episode, Floats

log = logging.getLogger(__name__)

PORTION = 2
"""Episodes a collector is asked for at once."""
LOOK_SECONDS = 0.5
"""How often a thread looks whether its collector is still wanted."""
HELLO_SECONDS = 1.0
"""How long to wait for a collector to say that it is there."""


class Fleet:
    """One thread for each collector; each takes work when its collector is well.

    A portion whose collector is lost goes back, so the next free one plays it.
    """

    def __init__(self) -> None:
        self._open: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[list[Episode]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._wanted: set[str] = set()
        self._lost: set[str] = set()
        self._threads: list[threading.Thread] = []

    def follow(self, addresses: Iterable[str]) -> None:
        """Work with these collectors from now on, and with no others."""
        with self._lock:
            before, self._wanted = self._wanted, set(addresses)
            self._lost &= self._wanted
            for address in self._wanted - before:
                thread = threading.Thread(target=self._employ, args=(address,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def dismiss(self) -> None:
        """Work with no collector any more; does not wait for answers that are still out."""
        self.follow(())
        for thread in self._threads:
            thread.join(2 * LOOK_SECONDS)

    def lost(self) -> list[str]:
        """Names of the pods that do not answer any more, until `follow` leaves them out."""
        with self._lock:
            return sorted(address.partition(".")[0] for address in self._lost)

    def order(self, weights: Floats, seeds: Sequence[int]) -> None:
        """Have an episode played with these weights for each seed."""
        for start in range(0, len(seeds), PORTION):
            self._open.put(
                {"weights": weights.tolist(), "seeds": list(seeds[start : start + PORTION])}
            )

    def arrived(self, seconds: float) -> Iterator[Episode]:
        """The episodes that have come in, after waiting for one at most so long."""
        try:
            yield from self._done.get(timeout=seconds)
            while True:
                yield from self._done.get_nowait()
        except queue.Empty:
            return

    def _employ(self, address: str) -> None:
        health = Health(time.monotonic())
        while self._is_wanted(address):
            try:
                if health.is_well:
                    self._work(address)
                else:
                    call("GET", f"http://{address}/", seconds=HELLO_SECONDS)
                    log.info("%s is here", address)
                health.answered()
            except Unreachable as error:
                if health.is_well:
                    log.warning("%s", error)
                if health.missed(time.monotonic()):
                    with self._lock:
                        self._lost |= {address} & self._wanted
                    return
                time.sleep(LOOK_SECONDS)

    def _work(self, address: str) -> None:
        try:
            portion = self._open.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            return
        try:
            self._done.put(_episodes(call("POST", f"http://{address}/", portion)))
        except Unreachable:
            self._open.put(portion)
            raise

    def _is_wanted(self, address: str) -> bool:
        with self._lock:
            return address in self._wanted


def _episodes(answer: dict[str, Any]) -> list[Episode]:
    return [
        Episode(
            observations=np.array(raw["observations"], dtype=float),
            actions=np.array(raw["actions"], dtype=int),
        )
        for raw in answer["episodes"]
    ]
