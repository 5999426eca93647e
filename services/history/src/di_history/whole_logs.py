"""Whole logs in S3-compatible storage: an object each, compressed by gzip, which any tool reads.

An object's key follows from the container that wrote it: whoever reads a log once more, or another
replica, writes the same object. It is made before the row that names it, and deleted before the
rows of its job are, so that nothing is left in the bucket that no row leads to: of a job everything
below its own prefix goes, also what a crash left there without a row.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore, S3Store

from di_history.changes.pods import LogWanted

if TYPE_CHECKING:
    # Not there when the program runs, as the library says of its types.
    from obstore.store import ClientConfig, RetryConfig, S3Config

_GZIP: Final = zlib.MAX_WBITS | 16
_TIMEOUT: Final = timedelta(seconds=30)
_RETRY: Final[RetryConfig] = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
_AT_ONCE: Final = 1000
"""Objects deleted by one request, as S3 has it."""


class StorageError(Exception):
    """The storage did not do it; the message says why, without credentials."""


class WholeLogs:
    """The objects. Every method may be called by several threads at once.

    Args:
        store: below whose prefix they are.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def keep(self, key: str, parts: Iterable[bytes]) -> None:
        """Make an object of these, compressed already, or replace it.

        Raises:
            StorageError: it is as it was.
        """
        attributes = {"Content-Type": "application/gzip"}
        try:
            obstore.put(self._store, key, iter(parts), attributes=attributes)
        except (BaseError, OSError) as error:
            raise StorageError(told(error)) from error

    def read(self, key: str) -> Iterator[bytes]:
        """The log, part by part, as its container wrote it.

        Raises:
            KeyError: there is no such object (any more).
            StorageError: at the call, or at a part.
        """
        try:
            parts = iter(obstore.get(self._store, key).stream())
        except FileNotFoundError as error:
            raise KeyError(key) from error
        except BaseError as error:
            raise StorageError(told(error)) from error
        return _inflated(parts)

    def forget(self, namespace: str, job: str) -> None:
        """Delete all objects of a job.

        Raises:
            StorageError: some may be there still.
        """
        try:
            for found in obstore.list(self._store, f"{namespace}/{job}/", chunk_size=_AT_ONCE):
                obstore.delete(self._store, [each["path"] for each in found])
        except (BaseError, OSError) as error:
            raise StorageError(told(error)) from error


def open_bucket(url: str, *, endpoint: str, region: str, authority: bytes | None) -> WholeLogs:
    """Those of a bucket; credentials come of the environment (`AWS_*`), as AWS's own programs do.

    Args:
        url: `s3://BUCKET` or `s3://BUCKET/PREFIX`.
        endpoint: of a storage that is not AWS's, `https://HOST:PORT`; else empty.
        authority: certificates, PEM, that the endpoint's is good by as well; None: public ones.

    Raises:
        ValueError: they mean nothing.
    """
    parts = urlsplit(url)
    if parts.scheme != "s3" or not parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"{url!r} is not s3://BUCKET or s3://BUCKET/PREFIX")
    place: S3Config = {"region": region}
    options: ClientConfig = {"timeout": _TIMEOUT, "connect_timeout": timedelta(seconds=5)}
    if authority is not None:
        options["root_certificate"] = authority
    if endpoint:
        scheme = urlsplit(endpoint).scheme
        if scheme not in ("http", "https"):
            raise ValueError(f"{endpoint!r} is not https://HOST:PORT")
        place["endpoint"] = endpoint
        options["allow_http"] = scheme == "http"
    try:
        store = S3Store(
            parts.netloc,
            prefix=parts.path.strip("/") or None,
            config=place,
            client_options=options,
            retry_config=_RETRY,
        )
    except BaseError as error:
        raise ValueError(told(error)) from error
    return WholeLogs(store)


def key_of(wanted: LogWanted) -> str:
    """`NAMESPACE/JOB'S UID/POD-POD'S UID/CONTAINER-RESTARTS.log.gz`."""
    pod = f"{wanted.pod}-{wanted.pod_uid}"
    return f"{wanted.namespace}/{wanted.job}/{pod}/{wanted.container}-{wanted.attempt}.log.gz"


def told(error: Exception) -> str:
    """An error in one line: the library's has a dump of its cause below the first."""
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__


def _inflated(parts: Iterator[bytes]) -> Iterator[bytes]:
    inflater = zlib.decompressobj(_GZIP)
    try:
        for part in parts:
            rest = bytes(part)
            while rest:
                # A part of a log that repeats itself may be a thousand times as long.
                text = inflater.decompress(rest, 1 << 20)
                rest = inflater.unconsumed_tail
                if text:
                    yield text
        if text := inflater.flush():
            yield text
    except (BaseError, zlib.error) as error:
        raise StorageError(told(error)) from error
