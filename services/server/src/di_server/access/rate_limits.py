"""How many requests one job or user may send, and how many of one address may be refused."""

from __future__ import annotations

from di_server.deadline import Clock
from di_server.model.references import JobRef
from di_server.problems import TooMany
from di_service.sources import source_of
from di_service.token_buckets import TokenBuckets


class RateLimiter:
    """Of one sender: `rate` requests a second, `burst` at once; per server process.

    The pods of a job are one sender, so that a job of many pods has no more than one of few. Every
    user is one too, whatever jobs the requests are about: a user takes nothing from a job's pods,
    and has one rate for a thousand jobs.
    """

    def __init__(self, *, rate: float, burst: int, clock: Clock) -> None:
        self._rate = rate
        self._buckets = TokenBuckets[tuple[str, JobRef | None]](rate=rate, burst=burst, clock=clock)

    def take(self, ref: JobRef, *, user: str = "", caller: str = "") -> None:
        """Count one request.

        Args:
            ref: the job whose pods send it, or the pod, where `user` is empty.
            user: name of the user who sends it.
            caller: what distinguishes users, their UID.

        Raises:
            TooMany: the bucket is empty.
        """
        wait = self._buckets.take((caller, None) if user else ("", ref))
        if wait:
            who = user or ref.id
            raise TooMany(f"{who} may send {self._rate:g} requests a second", retry_after=wait)


class AuthFailureLimiter:
    """Of one address: `rate` refusals a second, `burst` at once; per server process.

    Only refusals count, so that callers who are who they say share an address (NAT, the network
    of a node) at no cost, and one who is not does not use up what the others may ask. Of IPv6 a
    whole /64 counts as one address: that much anybody has to choose from.
    """

    def __init__(self, *, rate: float, burst: int, clock: Clock) -> None:
        self._rate = rate
        self._burst = burst
        self._buckets = TokenBuckets[str](rate=rate, burst=burst, clock=clock)

    def check(self, address: str) -> None:
        """Let a caller through who may be refused once more.

        Raises:
            TooMany: the address has been refused too often.
        """
        wait = self._buckets.wait(source_of(address))
        if wait:
            raise TooMany(
                f"{address} was refused too often: at most {self._rate:g} requests a second that"
                " do not say who sends them are looked at",
                retry_after=wait,
            )

    def count(self, address: str) -> None:
        """Count one refusal."""
        # All that were let through at once are refused at once: they are owed, or a client with
        # many connections would be refused more often than one with a few.
        self._buckets.take(source_of(address), owed=self._burst)
