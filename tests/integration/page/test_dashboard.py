"""The page in a real browser, over the real API server: jobs are followed and changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from di_cli.access.kubeconfig import read_access
from di_dashboard.main import serving, way_in
from di_dashboard.session import HistoryPlace
from di_kube.config import KubeConfig
from di_kube.errors import NotFound
from di_kube.resources import DIJOBS, PODS, SERVICE_ACCOUNTS
from di_kube.sync import SyncKubeClient
from tests.browser.chromium import Browser, browser
from tests.integration.conftest import ApiServer
from tests.integration.history_process import HistoryProcess, running_history
from tests.integration.operator_testbed import Testbed, job, on_testbed, task, with_testbed
from tests.integration.service_accounts import new_account, token_of
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("crd")
_PHASES = """
    const titles = document.querySelectorAll("#timeline rect.span title");
    return [...titles].map((each) => each.textContent);
"""
_WATCH = """
    window.shown = [];
    const text = (id) => document.getElementById(id).innerText;
    document.addEventListener("di:taken", () => window.shown.push(text("head") + text("pods")));
"""
"""A test that looks now and then misses what is shown for a moment."""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@contextmanager
def shown(tab: Browser, kubeconfig: Path, namespace: str) -> Iterator[None]:
    """Serve the page of a namespace, and enter it."""
    with serving(read_access(file=kubeconfig), namespace=namespace) as served:
        tab.enter(served.url)
        yield
        assert tab.complaints() == []


def test_a_browser_enters_by_a_file_that_leads_to_the_page(
    api_server: ApiServer, namespace: str, tab: Browser
) -> None:
    """As `di dashboard` opens it: the cookie has to survive the way from a file."""
    with (
        serving(read_access(file=api_server.kubeconfig), namespace=namespace) as served,
        way_in(served.url) as page,
    ):
        tab.enter(page)
        tab.sees("#jobs", "There are no jobs")
        assert "token" not in tab.run("return location.href")


@with_testbed
async def test_a_job_is_followed_from_pending_to_its_end_without_a_reload(
    testbed: Testbed, api_server: ApiServer, namespace: str, tab: Browser
) -> None:
    with shown(tab, api_server.kubeconfig, namespace):
        await asyncio.to_thread(tab.sees, "#jobs", "There are no jobs")
        await testbed.submit(job("a", task("learn", ready_after="1"), task("help", 2)))
        await asyncio.to_thread(tab.sees, "#jobs", "Pending")
        await asyncio.to_thread(tab.open, f"/jobs/{namespace}/a")
        tab.run(_WATCH)

        def ran() -> bool:
            shown_meanwhile = tab.run("return window.shown")
            drawn = [text.split()[0] for text in tab.run(_PHASES)]
            all_run = ("Running" in each and "help 2 of 2" in each for each in shown_meanwhile)
            return "Running" in drawn and any(all_run)

        async def has_run_for_a_second() -> bool:
            # Times are of whole seconds: a phase within one of them is not drawn. They are those of
            # the API server, which the operator knows to a second or two.
            conditions = (await testbed.status("a"))["conditions"]
            (runs,) = (each for each in conditions if each["type"] == "Running")
            began = datetime.fromisoformat(runs["lastTransitionTime"])
            return datetime.now(UTC) - began >= timedelta(seconds=4)

        async with testbed.operator():
            await asyncio.to_thread(wait_until, ran, what="the page to show that all run")
            await testbed.until(has_run_for_a_second, "a second to pass")
            for pod in await testbed.pods("a"):
                await testbed.kubelet.finish(namespace, pod)
            await asyncio.to_thread(tab.sees, "#head", "Succeeded")
            await asyncio.to_thread(tab.sees, "#why", "a has succeeded")
        phases = tab.run(_PHASES)
        assert [text.split()[0] for text in phases][-2:] == ["Starting", "Running"]
        await asyncio.to_thread(tab.sees, "#events", "JobSucceeded")
        assert tab.run("return !!document.querySelector('#plot-0 canvas')")


@with_testbed
async def test_a_crash_is_seen_within_ten_seconds_with_its_cause(
    testbed: Testbed, api_server: ApiServer, namespace: str, tab: Browser
) -> None:
    async with testbed.operator():
        with shown(tab, api_server.kubeconfig, namespace):
            await testbed.submit(job("a", task("learn"), backoffLimit=0))
            await testbed.phase("a", "Running")
            await asyncio.to_thread(tab.open, f"/jobs/{namespace}/a")
            await asyncio.to_thread(tab.sees, "#head", "Running")
            await _crash(testbed, "a-learn-0")
            await asyncio.to_thread(tab.sees, "#pods", "137 (OOMKilled)")
            await asyncio.to_thread(tab.sees, "#why", "ran out of memory")
            await asyncio.to_thread(tab.sees, "#head", "Failed")
            await asyncio.to_thread(tab.open, "/")
            await asyncio.to_thread(tab.sees, "#jobs", "why?")


async def _crash(testbed: Testbed, name: str) -> None:
    pod = await testbed.client.get(PODS, name, testbed.namespace)
    ended = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-03-01T10:00:00Z"}
    status = {
        "phase": "Failed",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [
            {**each, "ready": False, "state": {"terminated": ended}}
            for each in pod["status"]["containerStatuses"]
        ],
    }
    await testbed.client.patch(
        PODS, name, {"status": status}, testbed.namespace, subresource="status"
    )


def test_each_action_is_asked_once_more_and_takes_effect(
    api_server: ApiServer, kube_config: KubeConfig, namespace: str, tab: Browser
) -> None:
    def confirmed(action: str, said: str) -> None:
        tab.click(f"#do-{action}")
        tab.sees("main", "?")
        tab.click("#confirm")
        tab.sees(".said", said)

    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            with shown(tab, api_server.kubeconfig, namespace):
                await testbed.submit(job("a", task("learn"), task("help", 1)))
                await testbed.phase("a", "Running")
                await asyncio.to_thread(tab.open, f"/jobs/{namespace}/a")
                await asyncio.to_thread(_scale, tab)
                await asyncio.to_thread(tab.sees, "#pods", "help 3 of 3")
                await asyncio.to_thread(tab.sees, "#head", "Running")
                await asyncio.to_thread(_limit, tab)
                limited = (await testbed.job("a"))["spec"]["tasks"][1]
                assert (limited["minReplicas"], limited["maxReplicas"]) == (2, 5)
                await asyncio.to_thread(confirmed, "suspend", "a suspended")
                await asyncio.to_thread(tab.sees, "#pods", "No pods")
                await asyncio.to_thread(confirmed, "resume", "a resumed")
                await asyncio.to_thread(tab.sees, "#head", "Running")
                await asyncio.to_thread(confirmed, "delete", "a deleted")
                await asyncio.to_thread(tab.sees, "#jobs", "There are no jobs")

                async def is_gone() -> bool:
                    try:
                        await testbed.job("a")
                    except NotFound:
                        return True
                    return False

                await testbed.until(is_gone, "the job to be gone")

    def _scale(tab: Browser) -> None:
        tab.click("#do-scale")
        tab.find("#task").send_keys("help")
        tab.find("#replicas").send_keys("+2")
        tab.click("main form button")
        tab.sees(".sentence", "help 1 -> 3: 2 replicas more")
        tab.click("#confirm")
        tab.sees(".said", "a scaled: help 1 -> 3")

    def _limit(tab: Browser) -> None:
        tab.click("#do-limits")
        tab.find("#task").send_keys("help")
        tab.find("#least").send_keys("2")
        tab.find("#most").send_keys("5")
        tab.click("main form button")
        tab.sees(".sentence", "maxReplicas none -> 5: its 3 replicas stay")
        tab.click("#confirm")
        tab.sees(".said", "a has other limits")

    on_testbed(kube_config, namespace, body)


def test_a_job_that_is_gone_is_a_page_of_the_history_with_who_asked(
    api_server: ApiServer, kube_config: KubeConfig, namespace: str, tab: Browser, tmp_path: Path
) -> None:
    async def body(testbed: Testbed, history: HistoryProcess) -> None:
        client = testbed.client
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "viewer"}}, namespace)
        place = HistoryPlace(server=f"http://127.0.0.1:{history.port}", account="viewer")
        access = read_access(file=api_server.kubeconfig)
        with serving(access, namespace=namespace, history=place) as served:
            tab.enter(served.url)
            async with testbed.operator():
                await testbed.submit(job("a", task("learn"), task("help", 1)))
                await testbed.phase("a", "Running")
                tasks = (await testbed.job("a"))["spec"]["tasks"]
                tasks[1]["replicas"] = 2
                await client.patch(
                    DIJOBS, "a", {"spec": {"tasks": tasks}}, namespace, field_manager="ann"
                )
                await testbed.phase("a", "Running")
                await asyncio.to_thread(tab.open, f"/jobs/{namespace}/a")
                await asyncio.to_thread(tab.sees, "#history", "From the history")
                await asyncio.to_thread(
                    wait_until, lambda: len(history.job(namespace, "a")["placements"]) == 3
                )
                await client.delete(DIJOBS, "a", namespace)

                def is_told() -> bool:
                    kinds = [each["kind"] for each in history.job(namespace, "a")["timeline"]]
                    return "deleted" in kinds

                await asyncio.to_thread(wait_until, is_told)
            await asyncio.to_thread(tab.open, "/ended", live=False)
            await asyncio.to_thread(tab.click, "tbody th a")
            await asyncio.to_thread(tab.sees, "#why", "a was deleted")
            tab.click("#happened-box summary")
            await asyncio.to_thread(tab.sees, "#happened", "help 1 -> 2, asked by ann")
            await asyncio.to_thread(tab.click, ".revisions a")
            await asyncio.to_thread(tab.sees, "#changes", "replicas: 2")
            await asyncio.to_thread(tab.open, "/cluster")
            await asyncio.to_thread(tab.sees, "#heat", "a")
            assert tab.complaints() == []

    database = f"sqlite:///{tmp_path}/history.db"
    with running_history(tmp_path, api_server.kubeconfig, database) as history:
        on_testbed(kube_config, namespace, lambda testbed: body(testbed, history))


@with_testbed
async def test_who_may_only_read_is_told_so_in_the_api_servers_words(
    testbed: Testbed,
    *,
    api_server: ApiServer,
    kube_config: KubeConfig,
    namespace: str,
    tab: Browser,
    tmp_path: Path,
) -> None:
    config = await asyncio.to_thread(_reader, kube_config, api_server, namespace, tmp_path)
    await testbed.submit(job("a", task("learn")))
    with serving(read_access(file=config), namespace=None) as served:
        tab.enter(served.url)
        await asyncio.to_thread(tab.sees, "#jobs", "a")
        assert namespace in tab.text(".place")
        await asyncio.to_thread(tab.open, "/cluster")
        await asyncio.to_thread(tab.sees, "#notes", "The nodes cannot be read")
        await asyncio.to_thread(tab.open, f"/jobs/{namespace}/a/suspend", live=False)
        await asyncio.to_thread(tab.click, "#confirm")
        await asyncio.to_thread(tab.sees, "[role=alert]", "Not done")
        assert not (await testbed.job("a"))["spec"].get("suspend")
    tab.complaints()


def _reader(kube_config: KubeConfig, api_server: ApiServer, namespace: str, folder: Path) -> Path:
    """Access of an account that may read jobs, pods and events of the namespace, and no more."""
    verbs = ["get", "list", "watch"]
    rules = [
        {"apiGroups": [DIJOBS.group], "resources": ["dijobs"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["pods", "events", "pods/log"], "verbs": verbs},
    ]
    with SyncKubeClient(config=kube_config) as kube:
        new_account(kube, namespace, "reader", rules)
        token = token_of(kube, namespace, "reader")
    config = yaml.safe_load(api_server.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    file = folder / "reader"
    file.write_text(yaml.safe_dump(config))
    return file
