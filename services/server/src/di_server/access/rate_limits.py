"""Rate limits: requests per job or user, and refusals per address."""

from __future__ import annotations

from di_server.deadline import Clock
from di_server.model.references import JobRef
from di_server.problems import TooMany
from di_service.sources import source_of
from di_service.token_buckets import TokenBuckets


class RateLimiter:
    """Limits each sender to `rate` requests a second with a burst of `burst`; per server process.

    The pods of a job are one sender, whatever their number. Each user is one too, for all jobs: a
    user's requests do not count against a job's pods, and a thousand jobs do not raise the user's
    limit.
    """

    def __init__(self, *, rate: float, burst: int, clock: Clock) -> None:
        self._rate = rate
        self._buckets = TokenBuckets[tuple[str, JobRef | None]](rate=rate, burst=burst, clock=clock)

    def take(self, ref: JobRef, *, user: str = "", caller: str = "") -> None:
        """Count one request.

        Args:
            ref: the job whose pods send it, or the pod, if `user` is empty.
            user: name of the user who sends it.
            caller: UID of the user, which distinguishes users.

        Raises:
            TooMany: the bucket is empty.
        """
        wait = self._buckets.take((caller, None) if user else ("", ref))
        if wait:
            who = user or ref.id
            raise TooMany(f"{who} may send {self._rate:g} requests a second", retry_after=wait)


class AuthFailureLimiter:
    """Limits refusals of each address to `rate` a second with a burst of `burst`; per server
    process.

    Only refusals count. So legitimate callers can share an address (NAT, a node's network) at no
    cost, and a refused caller does not use up their limit. An IPv6 /64 counts as one address,
    because one client can use all of it.
    """

    def __init__(self, *, rate: float, burst: int, clock: Clock) -> None:
        self._rate = rate
        self._burst = burst
        self._buckets = TokenBuckets[str](rate=rate, burst=burst, clock=clock)

    def check(self, address: str) -> None:
        """Admit a caller if its address can be refused once more.

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
        # Concurrently admitted callers are refused concurrently: the bucket goes into debt for
        # them, or a client with many connections would get more refusals than one with a few.
        self._buckets.take(source_of(address), owed=self._burst)
