"""One lock for each key: no thread waits for that of another key."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from di_server.storage.locks import Locks

KEYS = 1000


def test_no_key_waits_for_another_one() -> None:
    locks = Locks[int]()
    with ExitStack() as stack:
        assert all(stack.enter_context(locks.hold(key, 0.0)) for key in range(KEYS))
        assert len(locks) == KEYS
    assert len(locks) == 0


def test_a_key_is_held_once() -> None:
    locks = Locks[str]()
    with locks.hold("a", 0.0) as first, locks.hold("a", 0.0) as second:
        assert (first, second) == (True, False)
    with locks.hold("a", 0.0) as again:
        assert again


def test_a_waiting_thread_holds_the_key_next() -> None:
    locks, waits, held = Locks[str](), threading.Event(), list[bool]()

    def wait() -> None:
        waits.set()
        with locks.hold("a", 60.0) as is_held:
            held.append(is_held)

    thread = threading.Thread(target=wait)
    with locks.hold("a", 0.0):
        thread.start()
        waits.wait()
        assert not held
    thread.join()
    assert (held, len(locks)) == ([True], 0)
