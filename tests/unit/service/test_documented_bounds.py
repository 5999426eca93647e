"""The documents say what each service gives a client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from di_dashboard.shared.serving import bounds_of
from di_history.main import BOUNDS
from di_server.serving import REST
from di_service.serving import arrivals, turns
from di_service.serving.bounds import Bounds
from di_webhook.serving import REVIEWS

DOCS = Path(__file__).parents[3] / "docs"
PAGES_OF_CALLERS = 32 * 8
"""`dashboard.callers` of the chart, and the pages of each."""
BOUNDS_OF = {
    "webhook": REVIEWS,
    "server": REST,
    "history": BOUNDS,
    "page": bounds_of(PAGES_OF_CALLERS),
}
MIB = 1024 * 1024
ROWS: dict[str, Callable[[Bounds], str]] = {
    "TLS handshake": lambda bounds: f"{bounds.handshake_seconds:g} s",
    "a request, from its first byte to its last": lambda bounds: f"{bounds.read_seconds:g} s",
    "waiting for a thread": lambda bounds: f"{bounds.queue_seconds:g} s, then 503",
    "taking what was written to it": lambda bounds: f"{bounds.write_seconds:g} s",
    "nothing, between requests and before the first": lambda bounds: f"{bounds.idle_seconds:g} s",
    "connections in all, of one address": lambda bounds: (
        f"{bounds.connections:,}, {bounds.connections_of_source:,}"
    ),
    "new connections of one address, at once and then a second": lambda bounds: (
        f"{bounds.connections_at_once}, {bounds.connections_per_second:g}"
    ),
    "bodies of requests not answered yet, in all": lambda bounds: (
        f"{bounds.bodies_bytes // MIB} MiB"
    ),
}


@pytest.mark.proves(
    "security.md#clients-that-hold-on/new-connections-of-one-address-at-once",
    "security.md#clients-that-hold-on/connections-in-all-of-one-address",
    "security.md#clients-that-hold-on/bodies-of-requests-not-answered-yet-in",
)
@pytest.mark.parametrize("row", ROWS)
def test_the_bounds_of_each_service_are_those_in_the_table(row: str) -> None:
    lines = (DOCS / "reference/security.md").read_text().splitlines()
    start = lines.index("## Clients that hold on")
    table = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines[start:]
        if line.startswith("|")
    ]
    services = table[0][1:]
    said = next(cells[1:] for cells in table if cells[0] == row)
    assert dict(zip(services, said, strict=True)) == {
        service: ROWS[row](bounds) for service, bounds in BOUNDS_OF.items()
    }


def test_the_limits_of_shared_addresses_have_the_numbers_of_the_services() -> None:
    rates = {name: f"{bounds.connections_per_second:g}" for name, bounds in BOUNDS_OF.items()}
    usual, page = rates["server"], rates["page"]
    assert {rates["webhook"], rates["history"]} == {usual}
    text = " ".join((DOCS / "reference/security.md").read_text().split())
    assert f"{usual} a second, at the page {page}." in text
    assert f"get {usual} responses a second per address, at the page {page}, shared by" in text
    assert (1 / arrivals.SLOW_SECONDS, 1 / turns.SLOW_SECONDS) == (5, 20)
    assert "to five new connections and at most twenty requests a second" in text
