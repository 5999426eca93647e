"""The page for many as its own process, over the real API server: each sees what they may."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
import requests

from di_dashboard.shared.rejected_tokens import AT_ONCE
from di_dashboard.shared.sign_in import FORWARDED_TOKEN
from di_kube.config import KubeConfig
from di_kube.resources import DIJOBS
from di_kube.sync import SyncKubeClient
from tests.failures.sources import shown_log
from tests.integration.conftest import ApiServer, fresh_namespace
from tests.integration.di_server import session_from
from tests.integration.operator_testbed import job, task
from tests.integration.service_accounts import new_account, token_of
from tests.ports import held_ports
from tests.waiting import START_SECONDS, wait_until

pytestmark = pytest.mark.usefixtures("crd")
_SEES = [
    {"apiGroups": ["diengine.opendilab.org"], "resources": ["dijobs"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["list", "watch"]},
]
_ACTS = [
    {
        "apiGroups": ["diengine.opendilab.org"],
        "resources": ["dijobs"],
        "verbs": ["get", "list", "watch", "patch"],
    }
]
_CSRF = re.compile(r'name="csrf" value="([0-9a-f]+)"')


@dataclass(frozen=True, slots=True)
class Shared:
    """A page that runs, and two namespaces with a job each."""

    port: int
    health_port: int
    kube: SyncKubeClient
    mine: str
    theirs: str

    def ask(
        self,
        path: str,
        token: str | None,
        *,
        data: Mapping[str, str] | None = None,
        namespace: str = "",
    ) -> requests.Response:
        """Ask as a single sign-on would for somebody."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        cookies = {"di-dashboard-namespace": namespace} if namespace else {}
        return requests.request(
            "POST" if data is not None else "GET",
            f"http://127.0.0.1:{self.port}{path}",
            headers=headers,
            cookies=cookies,
            data=data,
            timeout=60,
            allow_redirects=False,
        )

    def account(self, name: str, rules: list[dict[str, Any]]) -> str:
        """A token of a service account with these rights in `mine`."""
        new_account(self.kube, self.mine, name, rules)
        return token_of(self.kube, self.mine, name)


@pytest.fixture(scope="module")
def shared(
    api_server: ApiServer, kube_config: KubeConfig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shared]:
    folder: Path = tmp_path_factory.mktemp("shared")
    assert kube_config.ca_pem is not None
    (folder / "ca.crt").write_bytes(kube_config.ca_pem)
    with held_ports(2) as (port, health_port):
        command = [
            *(sys.executable, "-m", "di_dashboard.shared.main", "--bind", f"127.0.0.1:{port}"),
            *("--health-bind", f"localhost:{health_port}"),
            *("--api-server", kube_config.server, "--api-ca", str(folder / "ca.crt")),
        ]
        # Nothing of this machine's user may reach it.
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        with (
            fresh_namespace(kube_config) as mine,
            fresh_namespace(kube_config) as theirs,
            SyncKubeClient(config=kube_config) as kube,
            (folder / "log").open("w") as log,
            shown_log(folder / "log", "di-dashboard"),
            subprocess.Popen(command, env=environment, stdout=log, stderr=log) as process,
        ):
            kube.create(DIJOBS, job("mine", task("learn")), mine)
            kube.create(DIJOBS, job("theirs", task("learn")), theirs)
            found = Shared(port, health_port, kube, mine, theirs)

            def is_well() -> bool:
                assert process.poll() is None, (folder / "log").read_text()
                try:
                    return found.ask("/healthz", None).status_code == 200
                except requests.RequestException:
                    return False

            try:
                wait_until(is_well, START_SECONDS, what=f"the page, see {folder}")
                yield found
            finally:
                process.terminate()
                process.wait(60)


def shows(shared: Shared, token: str, text: str) -> None:
    """Wait until the list of jobs has a text."""
    wait_until(lambda: text in shared.ask("/", token).text, what=f"{text} to be shown")


def test_without_a_token_nothing_is_shown(shared: Shared) -> None:
    for path in ("/", f"/jobs/{shared.mine}/mine", "/cluster", "/stream?topic=jobs", "/namespace"):
        answer = shared.ask(path, None)
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert "No token came" in answer.text
        assert "mine" not in answer.text.replace("/mine", "")


def test_a_token_that_is_none_is_refused(shared: Shared) -> None:
    answer = shared.ask("/", "made-up")
    assert answer.status_code == 401
    assert "none of this cluster" in answer.text


@pytest.mark.proves(
    "metrics.md#dashboard/di-dashboard-refusals-total", "metrics.md#dashboard/di-dashboard-watches"
)
def test_what_it_does_is_counted_and_names_nobody(shared: Shared) -> None:
    def measured() -> str:
        return requests.get(f"http://127.0.0.1:{shared.health_port}/metrics", timeout=60).text

    def refused(text: str) -> float:
        found = re.search(r'^di_dashboard_refusals_total{reason="token"} (.*)$', text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    before = refused(measured())
    shared.ask("/", "made-up-as-well")
    shows(shared, shared.account("counted", _SEES), "/mine")
    # Metrics are a second old at most.
    wait_until(lambda: refused(measured()) > before)
    text = measured()
    watches = re.search(r"^di_dashboard_watches (.*)$", text, re.MULTILINE)
    assert watches is not None
    assert float(watches[1]) >= 1
    assert "counted" not in text
    assert shared.mine not in text


@pytest.mark.proves("dashboard.md#for-many-in-the-cluster")
def test_each_sees_the_jobs_that_they_may_list(shared: Shared) -> None:
    token = shared.account("sees", _SEES)
    shows(shared, token, "/mine")
    page = shared.ask("/", token)
    assert "/theirs" not in page.text
    assert f"system:serviceaccount:{shared.mine}:sees" in page.text
    assert "Content-Security-Policy" in page.headers
    assert shared.ask(f"/jobs/{shared.theirs}/theirs", token).status_code == 404
    answer = shared.ask("/", token, namespace=shared.theirs)
    assert answer.status_code == 403
    assert f"You may not list the jobs of {shared.theirs}" in answer.text
    # Where oauth2-proxy puts it.
    forwarded = requests.get(
        f"http://127.0.0.1:{shared.port}/", headers={FORWARDED_TOKEN: token}, timeout=60
    )
    assert "/mine" in forwarded.text


def test_who_may_list_no_jobs_is_asked_for_a_namespace(shared: Shared) -> None:
    token = shared.account("nothing", [])
    answer = shared.ask("/", token)
    assert "Which namespace?" in answer.text
    chosen = shared.ask(f"/namespace?namespace={shared.mine}", token)
    assert chosen.status_code == 302
    assert f"di-dashboard-namespace={shared.mine};" in chosen.headers["Set-Cookie"]
    assert shared.ask("/namespace?namespace=../x", token).status_code == 400
    assert "/mine" not in shared.ask("/", token, namespace=shared.mine).text


@pytest.mark.proves("dashboard.md#for-many-in-the-cluster")
def test_an_act_is_by_the_rights_of_who_acts(shared: Shared) -> None:
    looks, acts = shared.account("looks", _SEES), shared.account("acts", [*_SEES, *_ACTS])
    path = f"/jobs/{shared.mine}/mine/suspend"
    uid = shared.kube.get(DIJOBS, "mine", shared.mine)["metadata"]["uid"]

    def form(token: str) -> dict[str, str]:
        shows(shared, token, "/mine")
        found = _CSRF.search(shared.ask(path, token).text)
        assert found is not None
        return {"csrf": found[1], "uid": uid}

    refused = shared.ask(path, looks, data=form(looks))
    assert refused.status_code == 409
    assert "forbidden" in refused.text.lower() or "may not" in refused.text
    # The form of one is none of another.
    assert shared.ask(path, acts, data=form(looks)).status_code == 403
    assert shared.kube.get(DIJOBS, "mine", shared.mine)["spec"].get("suspend") is not True
    assert shared.ask(path, acts, data=form(acts)).status_code == 302
    assert shared.kube.get(DIJOBS, "mine", shared.mine)["spec"]["suspend"] is True


def test_a_stream_tells_of_changes(shared: Shared) -> None:
    token = shared.account("follows", _SEES)
    shows(shared, token, "/mine")
    with requests.get(
        f"http://127.0.0.1:{shared.port}/stream?topic=jobs",
        headers={"Authorization": f"Bearer {token}"},
        stream=True,
        timeout=60,
    ) as stream:
        lines = stream.iter_lines(decode_unicode=True)
        assert next(lines) == "retry: 2000"
        shared.kube.create(DIJOBS, job("later", task("learn")), shared.mine)
        assert any(line == "event: changed" for line in lines)
    shows(shared, token, "/later")


def test_settings_without_a_place_of_the_api_server_are_refused(
    kube_config: KubeConfig, tmp_path: Path
) -> None:
    assert kube_config.ca_pem is not None
    (tmp_path / "ca.crt").write_bytes(kube_config.ca_pem)
    command = [sys.executable, "-m", "di_dashboard.shared.main"]
    here = ("--api-server", kube_config.server)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for ca, more, words in (
        ("ca.crt", (), "--api-server has to be given"),
        ("none", here, "No such file"),
    ):
        ended = subprocess.run(
            [*command, "--api-ca", str(tmp_path / ca), *more],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert [ended.returncode, words in ended.stderr] == [2, True]


def test_the_token_is_nowhere_in_what_is_shown(shared: Shared) -> None:
    token = shared.account("hidden", _SEES)
    shows(shared, token, "/mine")
    for path in ("/", f"/jobs/{shared.mine}/mine", f"/jobs/{shared.mine}/mine/yaml"):
        assert token not in shared.ask(path, token).text


def test_made_up_tokens_of_an_address_are_not_looked_at_for_ever(shared: Shared) -> None:
    token = shared.account("stays", _SEES)
    shows(shared, token, "/mine")
    # An address of its own: others are not to be refused for it.
    with session_from("127.0.0.2") as session:

        def ask(token: str) -> requests.Response:
            return session.get(
                f"http://127.0.0.1:{shared.port}/",
                headers={"Authorization": f"Bearer {token}"},
                timeout=60,
            )

        made_up = (f"made-up-{number}" for number in count())
        refused = [ask(each) for each in islice(made_up, AT_ONCE)]
        assert {each.status_code for each in refused} == {401}
        with ThreadPoolExecutor(AT_ONCE) as pool:

            def too_many() -> list[requests.Response]:
                # One after the other they could be slower than one is forgiven.
                answers = [*pool.map(ask, islice(made_up, AT_ONCE))]
                return [each for each in answers if each.status_code == 429]

            answer = wait_until(too_many)[0]
        assert int(answer.headers["Retry-After"]) >= 1
        assert "looked at again in a moment" in answer.text
        assert ask(token).status_code == 200
    assert shared.ask("/", shared.account("comes", _SEES)).status_code == 200
