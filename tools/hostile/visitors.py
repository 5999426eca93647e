"""Clients as they should be, and how long they wait."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from dataclasses import dataclass, field

from tools.hostile.target import Target

THINK_SECONDS = 0.02
_ANSWER_SECONDS = 10.0


@dataclass(slots=True)
class Waits:
    """What visitors saw."""

    seconds: list[float] = field(default_factory=list)
    """Of each answered request, its connection included where a new one was opened."""
    failures: list[str] = field(default_factory=list)

    def quantile(self, share: float) -> float | None:
        """Milliseconds that this share of the requests took at most; None without any."""
        if not self.seconds:
            return None
        ordered = sorted(self.seconds)
        return round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1)

    def report(self) -> dict[str, object]:
        """For the JSON of a run."""
        return {
            "requests": len(self.seconds),
            "p50_ms": self.quantile(0.5),
            "p99_ms": self.quantile(0.99),
            "failures": len(self.failures),
            "first_failure": self.failures[0] if self.failures else None,
        }


async def visit(
    target: Target, *, visitors: int, seconds: float, think: float = THINK_SECONDS
) -> Waits:
    """Ask for some seconds: half of the visitors keep a connection, half open one each time.

    Args:
        think: seconds between an answer and the next question of a visitor.
    """
    waits = Waits()
    until = time.monotonic() + seconds
    await asyncio.gather(
        *(
            _visitor(target, waits, until, keep=number % 2 == 0, think=think)
            for number in range(visitors)
        )
    )
    return waits


async def _visitor(target: Target, waits: Waits, until: float, *, keep: bool, think: float) -> None:
    tls = target.tls_context()
    kept: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    try:
        while time.monotonic() < until:
            began = time.monotonic()
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    kept = kept or await target.connect(None, tls=tls)
                    open_still = await _ask(*kept, target.request)
            except (OSError, EOFError, TimeoutError, ssl.SSLError, ValueError) as error:
                waits.failures.append(f"{type(error).__name__}: {error}")
                _hang_up(kept)
                kept = None
            else:
                waits.seconds.append(time.monotonic() - began)
                if not (keep and open_still):
                    _hang_up(kept)
                    kept = None
            await asyncio.sleep(think)
    finally:
        _hang_up(kept)


def _hang_up(kept: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None) -> None:
    if kept is not None:
        with contextlib.suppress(OSError):
            kept[1].close()


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bool:
    """Whether the service keeps the connection after its answer."""
    writer.write(request)
    await writer.drain()
    head = await reader.readuntil(b"\r\n\r\n")
    status = head.split(b" ", 2)[1]
    fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:-2])
    if b"content-length" in fields:
        await reader.readexactly(int(fields[b"content-length"]))
    else:
        # Chunks, as the API server sends what is longer than two KiB.
        while size := int(await reader.readuntil(b"\r\n"), 16):
            await reader.readexactly(size + 2)
        await reader.readexactly(2)
    if status != b"200":
        raise ValueError(f"answered {status.decode()}")
    return fields.get(b"connection") != b"close"
