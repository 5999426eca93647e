"""The page below a path: every link, form and cookie keeps to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
import requests

from di_cli.access.kubeconfig import read_access
from di_dashboard.main import serving
from tests.fakes.api_server import StandIn
from tests.unit.dashboard.conftest import Page
from tests.waiting import ANSWER_SECONDS

BELOW = "/tools/di/"
_ADDRESSES = re.compile(r'(?:href|src|action|data-stream)="([^"]*)"')

pytestmark = pytest.mark.proves("dashboard.md#below-a-path")


@pytest.fixture(params=[BELOW, BELOW.rstrip("/")])
def below(request: pytest.FixtureRequest, world: StandIn, tmp_path: Path) -> Iterator[Page]:
    access = read_access(file=world.kubeconfig(tmp_path / "config"))
    with serving(access, namespace="rl", path=request.param) as served:
        assert served.cluster_cache.wait_until_complete(ANSWER_SECONDS)
        found = Page(served)
        with found.session:
            yield found


def test_every_address_of_every_page_is_below_the_path(below: Page) -> None:
    first = below.enter()
    assert urlsplit(first.url).path == BELOW
    found, left = set[str](), {first.url}
    while left:
        url = left.pop()
        found.add(url)
        if "/stream" in url:
            continue
        answer = below.session.get(url, timeout=60)
        assert answer.status_code == 200, url
        if answer.headers["Content-Type"].startswith("text/html"):
            addresses = (urljoin(url, each) for each in _ADDRESSES.findall(answer.text))
            left |= {each.partition("#")[0] for each in addresses} - found
    paths = {urlsplit(url).path for url in found}
    assert {path for path in paths if not path.startswith(BELOW)} == set()
    assert {f"{BELOW}cluster", f"{BELOW}jobs/rl/grpo-7b/logs", f"{BELOW}static/live.js"} <= paths


def test_cookies_are_for_the_path_alone(below: Page) -> None:
    below.enter()
    assert {cookie.path for cookie in below.session.cookies} == {BELOW.rstrip("/")}


def test_a_form_leads_back_below_the_path(below: Page) -> None:
    below.enter()
    form = below.get(f"{BELOW}jobs/rl/grpo-7b/suspend").text
    done = below.session.post(
        f"{below.root}{BELOW}jobs/rl/grpo-7b/suspend",
        data=dict(re.findall(r'name="([^"]+)" value="([^"]*)"', form)),
        timeout=60,
        allow_redirects=False,
    )
    assert (done.status_code, done.headers["Location"]) == (302, f"{BELOW}jobs/rl/grpo-7b")


def test_whoever_forwards_may_take_the_path_away(below: Page) -> None:
    below.enter()
    cookies = below.session.cookies.get_dict()
    for path in ("/", "/jobs/rl/grpo-7b"):
        answer = requests.get(f"{below.root}{path}", cookies=cookies, timeout=60)
        assert answer.status_code == 200
        assert f'href="{BELOW}cluster"' in answer.text


def test_another_path_that_begins_alike_is_not_the_pages(below: Page) -> None:
    below.enter()
    cookies = below.session.cookies.get_dict()
    answer = requests.get(f"{below.root}/tools/diary", cookies=cookies, timeout=60)
    assert answer.status_code == 404
