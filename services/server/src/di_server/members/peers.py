"""Connections to the other replicas of di-server, for the exchange of entries."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import orjson
import structlog
import urllib3
from urllib3.exceptions import HTTPError

from di_server.members.exchange import MAX_BODY, PATH, Link, News, read_news
from di_server.members.service import tell
from di_server.members.shared import Members
from di_server.problems import Problem
from di_server.rest.json_object import parse_object
from di_service.settings import Address

_log = structlog.get_logger()

MAX_PEERS: Final = 16
PERIOD: Final = 1.0
"""Seconds after which a peer is called even without news."""
PAUSE: Final = 0.05
"""Seconds after a request that sent news; further news in between is sent together."""
LOOK_SECONDS: Final = 5.0
"""Seconds after which the addresses of peers are looked up again."""
CALL_SECONDS: Final = 2.0
_MAX_ANSWER: Final = MAX_BODY + 4096

Resolve = Callable[[], Sequence[Address]]
"""Returns the present addresses of replicas, possibly including this one."""


class PeerError(Exception):
    """The call to a peer failed; the message has the reason."""


Call = Callable[[bytes], bytes]
"""Calls one peer; returns its response, or raises PeerError."""


class Peers:
    """One thread for each peer, and one that looks up the peers.

    Args:
        resolve: returns the addresses; can raise OSError.
        connect: creates the calls to a peer.
        on_exchange: called after each exchange with whether it succeeded.
    """

    def __init__(
        self,
        *,
        members: Members,
        server: str,
        resolve: Resolve,
        connect: Callable[[Address], Call],
        on_exchange: Callable[[bool], None],
    ) -> None:
        self._members = members
        self._server = server
        self._resolve = resolve
        self._connect = connect
        self._on_exchange = on_exchange
        self._followed: dict[Address, _Follower] = {}
        self._looked = False
        self._asked = False

    @property
    def asked(self) -> bool:
        """Return whether all peers that existed at the start were called once, successfully
        or not.
        """
        self._asked = self._asked or (
            self._looked and all(each.tried for each in self._followed.values())
        )
        return self._asked

    def start(self) -> None:
        """Start the threads, which run until the process ends."""
        threading.Thread(target=self._run, name="peers", daemon=True).start()

    def _run(self) -> None:
        forever = threading.Event()
        while True:
            try:
                self.look()
            except Exception:
                _log.exception("looking for peers failed")
            forever.wait(LOOK_SECONDS)

    def look(self) -> None:
        """Look up the peers, and start and stop threads accordingly."""
        try:
            found = sorted(set(self._resolve()), key=str)
        except OSError as error:
            # The known peers stay: an unreachable name server does not mean that they are gone.
            _log.warning("peers cannot be looked up", error=str(error))
            found = list(self._followed)
        if len(found) > MAX_PEERS:
            _log.warning("more peers than are told", peers=len(found), told=MAX_PEERS)
        followed = dict(self._followed)
        for address in set(followed) - set(found[:MAX_PEERS]):
            followed.pop(address).stop()
        for address in found[:MAX_PEERS]:
            if address not in followed:
                followed[address] = follower = _Follower(
                    address, self._members, self._server, self._connect, self._on_exchange
                )
                follower.start()
        self._followed = followed
        self._looked = True


class _Follower:
    """Calls one peer repeatedly."""

    def __init__(
        self,
        address: Address,
        members: Members,
        server: str,
        connect: Callable[[Address], Call],
        on_exchange: Callable[[bool], None],
    ) -> None:
        self.tried = False
        self._address = address
        self._members = members
        self._server = server
        self._connect = connect
        self._on_exchange = on_exchange
        self._news = members.follow()
        self._pause = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"peer {self._address}", daemon=True).start()

    def stop(self) -> None:
        """Stop calling."""
        self._pause.set()
        self._members.unfollow(self._news)
        self._news.set()

    def _run(self) -> None:
        link, call, failed = Link(), self._connect(self._address), False
        had_news = False
        while not self._pause.is_set():
            self._news.clear()
            more = False
            try:
                more = exchange(self._members, self._server, link, call)
                failed = False
            except (PeerError, Problem) as error:
                if not failed:
                    _log.warning(
                        "a peer does not answer", peer=str(self._address), error=str(error)
                    )
                failed = True
            except Exception:
                failed = True
                _log.exception("an exchange failed", peer=str(self._address))
            self._on_exchange(not failed)
            if link.server == self._server:
                # The address is this server's own. A later owner of the address has a new process.
                self.tried = True
                self._members.unfollow(self._news)
                return
            self.tried = self.tried or failed or not more
            if not more:
                if failed or had_news:
                    self._pause.wait(PERIOD if failed else PAUSE)
                had_news = self._news.wait(PERIOD)


def exchange(members: Members, server: str, link: Link, call: Call) -> bool:
    """Exchange news with a peer; return whether either side has more.

    Raises:
        PeerError, Malformed: it did not respond, or with an invalid response.
    """
    mine = tell(members, server, link.told, to=link.server)
    link.sending = mine.change
    asked = News(
        server=server,
        entries=mine.entries,
        change=mine.change,
        known_server=link.server,
        known_change=link.heard,
    )
    news = read_news(parse_object(call(orjson.dumps(asked.dump()))).get("data"))
    is_new = link.server != news.server
    link.answered(news)
    if news.server != server:
        members.merge(news.server, news.entries)
    return is_new or mine.more or news.more


def resolver(names: Sequence[Address]) -> Resolve:
    """Return a function that resolves all addresses of the names."""

    def resolve() -> list[Address]:
        return [
            Address(host=str(found[4][0]), port=name.port)
            for name in names
            for found in socket.getaddrinfo(name.host, name.port, type=socket.SOCK_STREAM)
        ]

    return resolve


def connector(
    *, token: Callable[[], str | None], authority: Path | None, host: str
) -> Callable[[Address], Call]:
    """Return a function that creates the calls to a peer.

    Args:
        token: returns the token to send.
        authority: file with the peers' CA certificates; None: they use plain HTTP.
        host: the name in their certificate.
    """

    def connect(address: Address) -> Call:
        pool: list[urllib3.HTTPConnectionPool] = []

        def call(body: bytes) -> bytes:
            try:
                if not pool:
                    pool.append(_pool(address, authority, host))
                shown = token()
                answer = pool[0].urlopen(
                    "POST",
                    PATH,
                    body=body,
                    headers={
                        "Content-Type": "application/json",
                        **({"Authorization": f"Bearer {shown}"} if shown else {}),
                    },
                    retries=False,
                    redirect=False,
                    timeout=urllib3.Timeout(total=CALL_SECONDS),
                    preload_content=False,
                )
                try:
                    found = answer.read(_MAX_ANSWER + 1)
                finally:
                    answer.release_conn()
            except (HTTPError, OSError) as error:
                # The CA certificate may have changed.
                pool.clear()
                raise PeerError(f"{type(error).__name__}: {error}") from error
            if answer.status != 200 or len(found) > _MAX_ANSWER:
                pool.clear()
                raise PeerError(f"status {answer.status}: {found[:200]!r}")
            return found

        return call

    return connect


def _pool(address: Address, authority: Path | None, host: str) -> urllib3.HTTPConnectionPool:
    if authority is None:
        return urllib3.HTTPConnectionPool(address.host, address.port, maxsize=1)
    context = ssl.create_default_context(cafile=str(authority))
    return urllib3.HTTPSConnectionPool(
        address.host,
        address.port,
        maxsize=1,
        ssl_context=context,
        server_hostname=host,
        assert_hostname=host,
    )
