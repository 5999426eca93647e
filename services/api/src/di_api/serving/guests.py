"""Who is connected, and who has to go when too many are."""

from __future__ import annotations

from collections.abc import Callable

from di_api.serving.penalties import Penalties


class Guest:
    """A connection from the moment it is accepted."""

    __slots__ = ("_guests", "body", "end", "known", "serving", "source")

    def __init__(self, guests: Guests, source: str, end: Callable[[], None]) -> None:
        self._guests = guests
        self.source = source
        self.end = end
        """Ends the connection at once."""
        self.body = 0
        """Bytes of requests that it has sent and that are not answered."""
        self.known = False
        """Whether it has had an answer."""
        self.serving = False
        """Whether a thread works for it, or will: then it is not ended for others."""

    def grow(self, size: int) -> None:
        """Count bytes of a body; may end this or another connection."""
        self._guests.grow(self, size)

    def begin(self) -> None:
        """Its request is complete."""
        self.serving = True

    def rest(self) -> None:
        """Its request was answered: it is quiet from now on."""
        self.serving, self.known = False, True
        self._guests.rest(self)

    def fault(self, what: str) -> None:
        """It did what no good client does often."""
        self._guests.penalties.count(self.source, what)

    def leave(self) -> None:
        """It has ended; may be said more than once."""
        self._guests.leave(self)


class Guests:
    """Takes what is scarce from the source that has most of it.

    Good clients and bad ones look alike until they have said something, and one who holds on is
    not told from one that is slow. But they come from different addresses.
    """

    def __init__(
        self,
        *,
        most: int,
        most_of_source: int,
        most_bytes: int,
        penalties: Penalties | None = None,
    ) -> None:
        self.penalties = penalties or Penalties()
        self._most = most
        self._most_of_source = most_of_source
        self._most_bytes = most_bytes
        self._count = 0
        self._bytes = 0
        # Of each source, in the order in which they fell quiet.
        self._by_source: dict[str, dict[Guest, None]] = {}

    def __len__(self) -> int:
        return self._count

    def admit(self, source: str, end: Callable[[], None]) -> Guest | None:
        """A place for a new connection, or None if all that could go are at work.

        Args:
            source: the address that it comes from.
            end: ends it at once, when its place goes to another.
        """
        own = self._by_source.get(source, {})
        if len(own) >= self._most_of_source:
            self.penalties.count(source, "too many connections")
            if not _end_one(own):
                return None
        elif self._count >= self._most and not _end_one(self._largest(len)):
            return None
        guest = Guest(self, source, end)
        self._by_source.setdefault(source, {})[guest] = None
        self._count += 1
        return guest

    def grow(self, guest: Guest, size: int) -> None:
        """Count `size` more bytes of a guest's body; who holds the most goes if it is too much."""
        if guest not in self._by_source.get(guest.source, {}):
            return
        guest.body += size
        self._bytes += size
        while self._bytes > self._most_bytes:
            holders = self._largest(lambda guests: sum(map(_waiting, guests)))
            # Where all that is held is at work, the one that asks for more has to go.
            victim = max(filter(_waiting, holders), key=_waiting, default=guest)
            victim.leave()
            victim.end()

    def rest(self, guest: Guest) -> None:
        """A guest's request is answered: its body is gone, and it is the latest to fall quiet."""
        self._bytes -= guest.body
        guest.body = 0
        own = self._by_source.get(guest.source, {})
        if guest in own:
            del own[guest]
            own[guest] = None

    def leave(self, guest: Guest) -> None:
        """Give a guest's place away: its connection has ended, or is about to."""
        own = self._by_source.get(guest.source, {})
        if guest not in own:
            return
        del own[guest]
        if not own:
            del self._by_source[guest.source]
        self._count -= 1
        self._bytes -= guest.body
        guest.body = 0

    def _largest(self, size: Callable[[dict[Guest, None]], int]) -> dict[Guest, None]:
        return max(self._by_source.values(), key=size)


def _waiting(guest: Guest) -> int:
    return 0 if guest.serving else guest.body


def _end_one(own: dict[Guest, None]) -> bool:
    """End the longest quiet one, of those that never asked anything first."""
    quiet = [guest for guest in own if not guest.serving]
    victim = next((guest for guest in quiet if not guest.known), None) or next(iter(quiet), None)
    if victim is None:
        return False
    victim.leave()
    victim.end()
    return True
