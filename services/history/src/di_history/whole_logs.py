"""Whole logs in S3-compatible storage: one gzip-compressed object each, readable by any tool.

An object's key is derived from the container that wrote the log, so a second read, or another
replica, writes the same object. It is created before the row with its location, and deleted before
the rows of its job, so the bucket has no objects without a row. With a job everything below its
prefix is deleted, also what a crash left without a row.
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
    # Does not exist at run time, as the library documents for its types.
    from obstore.store import ClientConfig, RetryConfig, S3Config

_GZIP: Final = zlib.MAX_WBITS | 16
_TIMEOUT: Final = timedelta(seconds=30)
_RETRY: Final[RetryConfig] = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
_AT_ONCE: Final = 1000
"""Objects deleted by one request, the limit of S3."""


class StorageError(Exception):
    """The storage request failed; the message has the reason, without credentials."""


class WholeLogs:
    """The objects of whole logs. Thread-safe.

    Args:
        store: client with the prefix of the objects.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def keep(self, key: str, parts: Iterable[bytes]) -> None:
        """Create or replace an object from compressed parts.

        Raises:
            StorageError: the object is unchanged.
        """
        attributes = {"Content-Type": "application/gzip"}
        try:
            obstore.put(self._store, key, iter(parts), attributes=attributes)
        except (BaseError, OSError) as error:
            raise StorageError(told(error)) from error

    def read(self, key: str) -> Iterator[bytes]:
        """Yield the uncompressed log in parts.

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
            StorageError: some may still exist.
        """
        try:
            for found in obstore.list(self._store, f"{namespace}/{job}/", chunk_size=_AT_ONCE):
                obstore.delete(self._store, [each["path"] for each in found])
        except (BaseError, OSError) as error:
            raise StorageError(told(error)) from error


def open_bucket(url: str, *, endpoint: str, region: str, authority: bytes | None) -> WholeLogs:
    """Return the whole logs of a bucket; credentials come from the environment (`AWS_*`), as for
    AWS's own programs.

    Args:
        url: `s3://BUCKET` or `s3://BUCKET/PREFIX`.
        endpoint: of a storage other than AWS, `https://HOST:PORT`; else empty.
        authority: additional CA certificates for the endpoint, PEM; None: only public ones.

    Raises:
        ValueError: the arguments are invalid.
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
    """Return the key: `NAMESPACE/JOB'S UID/POD-POD'S UID/CONTAINER-RESTARTS.log.gz`."""
    pod = f"{wanted.pod}-{wanted.pod_uid}"
    return f"{wanted.namespace}/{wanted.job}/{pod}/{wanted.container}-{wanted.attempt}.log.gz"


def told(error: Exception) -> str:
    """Return an error in one line: the library appends a dump of its cause in further lines."""
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__


def _inflated(parts: Iterator[bytes]) -> Iterator[bytes]:
    inflater = zlib.decompressobj(_GZIP)
    try:
        for part in parts:
            rest = bytes(part)
            while rest:
                # A repetitive part of a log can expand a thousandfold.
                text = inflater.decompress(rest, 1 << 20)
                rest = inflater.unconsumed_tail
                if text:
                    yield text
        if text := inflater.flush():
            yield text
    except (BaseError, zlib.error) as error:
        raise StorageError(told(error)) from error
