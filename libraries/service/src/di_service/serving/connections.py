"""Who is connected, and whose connection ends when too many are open."""

from __future__ import annotations

from collections.abc import Callable, Iterator


class Connection:
    """A connection from the moment it is accepted, and what it takes of what is scarce."""

    __slots__ = ("_all", "end", "held", "known", "serving", "source")

    def __init__(self, all_of_them: Connections, source: str, end: Callable[[], None]) -> None:
        self._all = all_of_them
        self.source = source
        self.end = end
        """Ends the connection at once."""
        self.held = 0
        """Bytes kept for it: of requests that are not answered, or of an answer."""
        self.known = False
        """Whether it has had an answer."""
        self.serving = False
        """Whether a thread works for it, or will: then it is not ended for others."""

    def grow(self, size: int) -> None:
        """Count bytes that are kept for it; may end this or another connection."""
        self._all.grow(self, size)

    def begin(self) -> None:
        """Its request is complete."""
        self.serving = True

    def answered(self) -> None:
        """Its request was answered: it is quiet from now on."""
        if self.known:
            self._all.kept(self.source)
        self.serving, self.known = False, True
        self._all.answered(self)

    def release(self) -> None:
        """It has ended; may be said more than once."""
        self._all.release(self)


def _ignored(_source: str) -> None:
    """Where neither matters."""


class Connections:
    """Limits connections and what is kept for them, taking from the source that has most of them.

    Good clients and bad ones look alike until they have said something, and one who holds on is
    not told from one that is slow. But they come from different addresses.
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
        """None is open.

        Args:
            most: in all.
            most_of_source: of one source.
            most_bytes: kept for them, in all.
            crowded: told of a source that opens one more than it may have.
            kept: told of a source one of whose connections had not only its first answer.
        """
        self.kept = kept
        self._crowded = crowded
        self._most = most
        self._most_of_source = most_of_source
        self._most_bytes = most_bytes
        self._count = 0
        self._bytes = 0
        # Of each source, in the order in which they fell quiet.
        self._by_source: dict[str, dict[Connection, None]] = {}

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Connection]:
        """Those of now, whatever ends while somebody goes through them."""
        return iter([each for own in self._by_source.values() for each in own])

    def admit(self, source: str, end: Callable[[], None]) -> Connection | None:
        """Count a new connection in, or None if all that could end for it are at work.

        Args:
            source: the address that it comes from.
            end: ends it at once, when its place goes to another.
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
        """Count `size` more bytes kept for one; who holds the most is ended if it is too much."""
        if connection not in self._by_source.get(connection.source, {}):
            return
        connection.held += size
        self._bytes += size
        while self._bytes > self._most_bytes:
            holders = self._largest(lambda own: sum(map(_waiting, own)))
            # Where all that is held is at work, the one that asks for more has to go.
            victim = max(filter(_waiting, holders), key=_waiting, default=connection)
            victim.release()
            victim.end()

    def answered(self, connection: Connection) -> None:
        """A request is answered: its body is gone, and the connection the latest to fall quiet."""
        self._bytes -= connection.held
        connection.held = 0
        own = self._by_source.get(connection.source, {})
        if connection in own:
            del own[connection]
            own[connection] = None

    def release(self, connection: Connection) -> None:
        """Count one out: it has ended, or is about to."""
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
    """End the longest quiet one, of those that never asked anything first."""
    quiet = [each for each in own if not each.serving]
    victim = next((each for each in quiet if not each.known), None) or next(iter(quiet), None)
    if victim is None:
        return False
    victim.release()
    victim.end()
    return True
