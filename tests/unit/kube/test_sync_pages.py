"""Collections that the blocking client reads page by page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import HTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from di_kube.config import KubeConfig
from di_kube.errors import Unavailable
from di_kube.resources import DIJOBS
from di_kube.sync import SyncKubeClient
from tests.fakes.web import Handler, serving

PAGES = {"": (["a", "b"], "1"), "1": (["c"], "2"), "2": (["d"], "")}
LEFT = {"": {"remainingItemCount": 2}}
SECONDS = 6.0
"""The time that the API server takes for a page; the timeout of the client is ten."""
asked: list[str] = []


class _Pages(Handler):
    """Serves the pages by their tokens, and takes its time."""

    def do_GET(self) -> None:
        token = parse_qs(urlsplit(self.path).query).get("continue", [""])[0]
        asked.append(token)
        names, after = PAGES[token]
        metadata = {"resourceVersion": "7", "continue": after, **LEFT.get(token, {})}
        items = [{"metadata": {"name": name, "namespace": "ns"}} for name in names]
        self.answer(200, json.dumps({"metadata": metadata, "items": items}).encode())


@pytest.fixture
def client() -> Iterator[SyncKubeClient]:
    asked.clear()
    with serving(HTTPServer(("127.0.0.1", 0), _Pages)) as address:
        config = KubeConfig(server=f"http://{address}")
        with SyncKubeClient(config=config, clock=lambda: SECONDS * len(asked)) as found:
            yield found


def test_a_page_is_asked_for_when_the_objects_of_the_one_before_are_read(
    client: SyncKubeClient,
) -> None:
    each = client.each(DIJOBS, "ns")
    assert asked == []
    assert [next(each)["metadata"]["name"] for _ in range(2)] == ["a", "b"]
    assert asked == [""]
    assert [one["metadata"]["name"] for one in each] == ["c", "d"]
    assert asked == ["", "1", "2"]


def test_each_page_says_how_many_objects_are_to_come(client: SyncKubeClient) -> None:
    pages: list[tuple[int, int | None]] = []
    assert len([*client.each(DIJOBS, "ns", on_page=lambda *page: pages.append(page))]) == 4
    assert pages == [(2, 2), (1, None), (1, 0)]


def test_the_timeout_is_of_a_page_or_of_a_whole_list(client: SyncKubeClient) -> None:
    assert len([*client.each(DIJOBS, "ns")]) == 4
    with pytest.raises(Unavailable, match="Timeout"):
        client.list(DIJOBS, "ns")
    found, version = client.list(DIJOBS, "ns", timeout=60.0)
    assert ([each["metadata"]["name"] for each in found], version) == ([*"abcd"], "7")
