"""Open connections, and which one is closed when there are too many."""

from __future__ import annotations

from collections.abc import Callable, Iterator


class Connection:
    """An accepted connection, and the resources that it uses."""

    __slots__ = ("_all", "end", "held", "known", "serving", "source")

    def __init__(self, all_of_them: Connections, source: str, end: Callable[[], None]) -> None:
        self._all = all_of_them
        self.source = source
        self.end = end
        """Closes the connection at once."""
        self.held = 0
        """Bytes kept for it: of unanswered requests, or of a response."""
        self.known = False
        """Whether it has had a response."""
        self.serving = False
        """Whether a thread works for it, or will: then it is not closed in favor of others."""

    def grow(self, size: int) -> None:
        """Count bytes that are kept for it; can close this or another connection."""
        self._all.grow(self, size)

    def begin(self) -> None:
        """Record that its request is complete."""
        self.serving = True

    def answered(self) -> None:
        """Record that its request was answered: it is idle from now on."""
        if self.known:
            self._all.kept(self.source)
        self.serving, self.known = False, True
        self._all.answered(self)

    def release(self) -> None:
        """Record that it has ended; can be called more than once."""
        self._all.release(self)


def _ignored(_source: str) -> None:
    """Do nothing, for fronts that count neither event."""


class Connections:
    """Limits connections and their memory, at the expense of the source with the most.

    A good client and an attacker look the same until they have sent something, and a client that
    holds a connection looks like a slow one. But they have different addresses.
    """

    def __init__(
        self,
        *,
        most: int,
        most_of_source: int,
        most_bytes: int = 0,
        crowded: Callable[[str], None] = _ignored,
        kept: Callable[[str], None] = _ignored,
    ) -> None:
        """Begin without connections.

        Args:
            most: maximum number.
            most_of_source: maximum number per source.
            most_bytes: maximum bytes kept for all of them.
            crowded: called with a source that exceeds its maximum.
            kept: called with a source when one of its connections has a further response after the
                first.
        """
        self.kept = kept
        self._crowded = crowded
        self._most = most
        self._most_of_source = most_of_source
        self._most_bytes = most_bytes
        self._count = 0
        self._bytes = 0
        # Connections by source, in the order in which they became idle.
        self._by_source: dict[str, dict[Connection, None]] = {}

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Connection]:
        """Return an iterator over the present connections, which stays valid when some end."""
        return iter([each for own in self._by_source.values() for each in own])

    def admit(self, source: str, end: Callable[[], None]) -> Connection | None:
        """Count a new connection, or return None if no other one can be closed for it.

        Args:
            source: its address.
            end: closes it at once, in favor of another.
        """
        own = self._by_source.get(source, {})
        if len(own) >= self._most_of_source:
            self._crowded(source)
            if not _end_one(own):
                return None
        elif self._count >= self._most and not _end_one(self._largest(len)):
            return None
        connection = Connection(self, source, end)
        self._by_source.setdefault(source, {})[connection] = None
        self._count += 1
        return connection

    def grow(self, connection: Connection, size: int) -> None:
        """Count `size` more bytes for a connection; above the maximum the largest holder is
        closed.
        """
        if connection not in self._by_source.get(connection.source, {}):
            return
        connection.held += size
        self._bytes += size
        while self._bytes > self._most_bytes:
            holders = self._largest(lambda own: sum(map(_waiting, own)))
            # If all other holders are at work, the connection that needs more is closed.
            victim = max(filter(_waiting, holders), key=_waiting, default=connection)
            victim.release()
            victim.end()

    def answered(self, connection: Connection) -> None:
        """Record that a request was answered: its body is freed, and the connection becomes the
        latest idle one.
        """
        self._bytes -= connection.held
        connection.held = 0
        own = self._by_source.get(connection.source, {})
        if connection in own:
            del own[connection]
            own[connection] = None

    def release(self, connection: Connection) -> None:
        """Stop counting a connection: it has ended, or is about to."""
        own = self._by_source.get(connection.source, {})
        if connection not in own:
            return
        del own[connection]
        if not own:
            del self._by_source[connection.source]
        self._count -= 1
        self._bytes -= connection.held
        connection.held = 0

    def _largest(self, size: Callable[[dict[Connection, None]], int]) -> dict[Connection, None]:
        return max(self._by_source.values(), key=size)


def _waiting(connection: Connection) -> int:
    return 0 if connection.serving else connection.held


def _end_one(own: dict[Connection, None]) -> bool:
    """Close the longest idle connection; those without any request come first."""
    quiet = [each for each in own if not each.serving]
    victim = next((each for each in quiet if not each.known), None) or next(iter(quiet), None)
    if victim is None:
        return False
    victim.release()
    victim.end()
    return True
