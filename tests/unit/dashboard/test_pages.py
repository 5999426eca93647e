"""The pages over HTTP: their contents, access and changes."""

from __future__ import annotations

import copy
import re
from functools import partial
from pathlib import Path

import pytest
import requests

from di_cli.access.kubeconfig import read_access
from di_dashboard.main import serving
from tests.fakes.api_server import StandIn
from tests.unit.cli.conftest import JOBS, PODS, job, pod
from tests.unit.dashboard.conftest import Page
from tests.waiting import ANSWER_SECONDS, wait_until

PATHS = (
    "/",
    "/cluster",
    "/jobs/rl/grpo-7b",
    "/jobs/rl/grpo-7b/yaml",
    "/jobs/rl/grpo-7b/logs",
    "/jobs/rl/grpo-7b/scale",
    "/compare?job=rl/grpo-7b&job=rl/half",
    "/compare.csv?job=rl/grpo-7b&job=rl/half",
    "/stream?topic=jobs",
)


# ---------------------------------------------------------------- access
@pytest.mark.parametrize("path", [*PATHS, "/static/style.css"])
def test_without_the_token_nothing_is_shown(page: Page, path: str) -> None:
    answer = requests.get(f"{page.root}{path}", timeout=60)
    assert answer.status_code == 401
    assert "grpo-7b" not in answer.text.replace(path, "")
    wrong = requests.get(f"{page.root}/?token=guess", timeout=60)
    assert (wrong.status_code, wrong.cookies.get_dict()) == (401, {})


def test_the_token_leaves_the_address_and_stays_in_a_cookie(page: Page) -> None:
    first = page.session.get(page.served.url, allow_redirects=False, timeout=60)
    assert (first.status_code, first.headers["Location"]) == (302, "/")
    assert re.search(r"HttpOnly.*SameSite=Lax", first.headers["Set-Cookie"])
    assert page.get("/").status_code == 200
    other = page.session.get(
        page.served.url.replace("/?", "//elsewhere.example/?"), allow_redirects=False, timeout=60
    )
    assert other.headers["Location"] == "/elsewhere.example/"


def test_another_host_name_is_refused(page: Page) -> None:
    page.enter()
    assert page.get("/", headers={"Host": "rebound.example"}).status_code == 403


def test_every_answer_forbids_scripts_in_pages_and_other_hosts(page: Page) -> None:
    page.enter()
    for path in PATHS[:-1]:
        answer = page.get(path)
        policy = answer.headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert not re.search(r"<script(?![^>]*(src=|application/json))", answer.text)
        assert not re.search(r"\son\w+=|\sstyle=|(src|href)=\"(https?:)?//", answer.text)


# ---------------------------------------------------------------- contents
def test_jobs_are_listed_as_di_list_has_them(page: Page) -> None:
    text = page.enter().text
    assert "in about" not in text.split("cartpole")[0]
    for word in ("grpo-7b", "Failed", "OOMLimit", "QuotaExceeded", "62 %", "why?"):
        assert word in text
    found = page.get("/?phase=Failed").text
    assert "cartpole" in found
    assert "/jobs/rl/grpo-7b" not in found
    assert "None of the 3 jobs fits" in page.get("/?q=nothing").text


@pytest.mark.proves("dashboard.md#one-job")
def test_a_jobs_page_starts_with_the_cause_and_has_the_log_tail(page: Page, world: StandIn) -> None:
    page.enter()
    text = page.get("/jobs/rl/cartpole").text
    assert text.index('class="sentence"') < text.index("Over time")
    for word in ("memory", "MemoryError", "What to do", "137 (OOMKilled)"):
        assert word in text
    reads = [path for method, path, _ in world.requests if "/log?" in path]
    page.get("/jobs/rl/cartpole")
    again = [path for method, path, _ in world.requests if "/log?" in path]
    assert reads == again, "what was read of a pod that has not changed is remembered"


@pytest.mark.proves("dashboard.md#one-job")
def test_a_jobs_page_links_to_its_run_in_a_tracker(page: Page, world: StandIn) -> None:
    url = "https://wandb.example.org/team/run/3"
    world.put(f"{JOBS}/grpo-7b", job("grpo-7b", "Running", profilings={"trackingURL": url}))
    world.put(f"{JOBS}/half", job("half", "Running", profilings={"trackingURL": 'https://x"y'}))
    page.enter()
    assert f'<a href="{url}" rel="noopener noreferrer">wandb.example.org</a>' in (
        page.get("/jobs/rl/grpo-7b").text
    )
    assert "Tracking" not in page.get("/jobs/rl/half").text


def test_the_table_of_pods_shows_what_they_use(page: Page, world: StandIn) -> None:
    usage = [{"usage": {"cpu": "3850m", "memory": "9Gi"}}]
    metrics = "/apis/metrics.k8s.io/v1beta1/namespaces/rl/pods/grpo-7b-learner-0"
    labels = {"diengine/job": "grpo-7b"}
    world.put(
        metrics,
        {"metadata": {"name": "grpo-7b-learner-0", "labels": labels}, "containers": usage},
    )
    gpus = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/rl/pods/*/DCGM_FI_DEV_GPU_UTIL"
    measured = {"describedObject": {"name": "grpo-7b-learner-0"}, "value": "87"}
    world.put(gpus, {"metadata": {"name": "all"}, "items": [measured]})
    learner = pod("grpo-7b", "learner", 0, 0)
    learner["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "4", "memory": "16Gi"}
    world.put(f"{PODS}/grpo-7b-learner-0", learner)
    page.enter()
    wait_until(lambda: "16384Mi" in page.get("/jobs/rl/grpo-7b").text)
    table = page.get("/jobs/rl/grpo-7b").text.partition("Memory used")[2]
    assert '<td data-label="GPUs used" class="num">87%</td>' in table
    assert ">3.85 / 4.00<" in table
    assert ">9216Mi / 16384Mi<" in table


def test_a_jobs_curves_are_downloaded_as_csv(page: Page, world: StandIn) -> None:
    page.enter()
    first = world.objects[f"{JOBS}/grpo-7b"]

    def has(step: int) -> bool:
        return f",{step}.0" in page.get("/jobs/rl/grpo-7b/curves.csv").text

    for step, loss in ((1, 0.5), (2, 0.25)):
        report = {"loss": loss, "episode_return": 7.0, "reportedAt": f"2026-03-01T11:59:0{step}Z"}
        status = {**first["status"], "profilings": report, "progress": {"step": step}}
        world.put(f"{JOBS}/grpo-7b", {**first, "status": status})
        wait_until(partial(has, step))
    answer = page.get("/jobs/rl/grpo-7b/curves.csv")
    rows = [line.split(",") for line in answer.text.splitlines()]
    assert rows[0][0] == "time"
    found = dict(zip(rows[0], rows[-1], strict=True))
    assert found["time"].startswith("2026-03-01T1")
    assert (found["loss"], found["episode_return"], found["step"]) == ("0.25", "7.0", "2.0")
    assert answer.headers["Content-Type"].startswith("text/csv")
    assert page.get("/jobs/rl/nobody/curves.csv").status_code == 404


def test_a_jobs_page_has_its_data_shards(page: Page, world: StandIn) -> None:
    shards = {"prompts": {"done": 12, "total": 30, "epochs": 3, "epoch": 1}}
    world.put(f"{JOBS}/sharded", job("sharded", "Running", shards=shards))
    page.enter()
    wait_until(lambda: page.get("/jobs/rl/sharded").status_code == 200)
    text = page.get("/jobs/rl/sharded").text
    assert "<dt>Shards prompts</dt><dd>12 of 30 done, epoch 2 of 3</dd>" in text


def test_names_are_escaped(page: Page, world: StandIn) -> None:
    nasty = "</script><script>alert(1)</script>"
    body = job("nasty", "Running", profilings={nasty: 1.0})
    body["metadata"]["labels"] = {"a": nasty}
    world.put(f"{JOBS}/nasty", body)
    page.enter()
    wait_until(lambda: page.get("/jobs/rl/nasty").status_code == 200)
    assert "<script>alert" not in page.get("/jobs/rl/nasty").text
    assert "<script>alert" not in page.get("/?label=" + nasty).text


def test_an_unknown_job_is_not_found(page: Page) -> None:
    page.enter()
    answer = page.get("/jobs/rl/nobody")
    assert answer.status_code == 404
    assert "no job nobody in namespace rl" in answer.text


def test_the_raw_manifest_is_plain_text(page: Page) -> None:
    page.enter()
    raw = page.get("/jobs/rl/grpo-7b/yaml?raw")
    assert raw.headers["Content-Type"].startswith("text/plain")
    assert "maxReplicas: 4" in raw.text


def test_logs_are_side_by_side_and_searched_without_scripts(page: Page) -> None:
    page.enter()
    text = page.get("/jobs/rl/grpo-7b/logs?pod=grpo-7b-learner-0&pod=grpo-7b-collector-1").text
    assert "step 0" in text
    assert "step 2" in text
    assert "step 1" not in text
    found = page.get("/jobs/rl/grpo-7b/logs?pod=grpo-7b-learner-0&q=nowhere").text
    assert "step 0" not in found


def test_of_a_long_log_the_end_is_shown_and_searched(page: Page, world: StandIn) -> None:
    page.enter()
    path = "/jobs/rl/grpo-7b/logs?pod=grpo-7b-learner-0"
    assert "--save FOLDER" not in page.get(path).text
    lines = [f"2026-03-01T11:00:00Z line-{i}-" for i in range(6000)]
    world.logs["grpo-7b-learner-0"] = lines
    shown = page.get(path).text
    assert "line-5999-" in shown
    assert "line-5699-" not in shown
    assert "The last 300 lines; <code>di logs grpo-7b -n rl --save FOLDER</code>" in shown
    found = page.get(f"{path}&q=line-5699-").text
    assert "<span>line-5699-</span>" in found
    assert "The last 5000 lines were searched;" in page.get(f"{path}&q=line-7-").text


def test_the_container_of_a_log_can_be_chosen(page: Page, world: StandIn) -> None:
    page.enter()
    assert "Container <select" not in page.get("/jobs/rl/grpo-7b/logs").text
    name = "grpo-7b-learner-0"
    body = copy.deepcopy(world.objects[f"{PODS}/{name}"])
    body["spec"]["initContainers"] = [{"name": "fetch"}]
    world.put(f"{PODS}/{name}", body)
    world.logs[f"{name}/fetch"] = ["2026-03-01T10:00:00Z fetched"]
    wait_until(lambda: "<option>fetch</option>" in page.get("/jobs/rl/grpo-7b/logs").text)
    both = f"pod={name}&pod=grpo-7b-collector-1&container=fetch"
    text = page.get(f"/jobs/rl/grpo-7b/logs?{both}").text
    assert "fetched" in text
    assert "step 0" not in text
    assert "No log yet: this pod has no container fetch" in text
    path = f"/jobs/rl/grpo-7b/logs/stream?{both}&since=2026-03-01T09:00:00Z&since="
    with page.get(path, stream=True) as answer:
        data = next(line for line in answer.iter_lines() if line.startswith(b"data:"))
    assert data == f'data: [["{name}", "2026-03-01T10:00:00Z", "fetched"]]'.encode()


def test_logs_are_streamed_from_the_last_line_that_was_shown(page: Page, world: StandIn) -> None:
    page.enter()
    world.logs["grpo-7b-learner-0"].append("2026-03-01T11:59:59Z new")
    path = "/jobs/rl/grpo-7b/logs/stream?pod=grpo-7b-learner-0&since=2026-03-01T11:59:50Z"
    with page.get(path, stream=True) as answer:
        data = next(line for line in answer.iter_lines() if line.startswith(b"data:"))
    assert data == b'data: [["grpo-7b-learner-0", "2026-03-01T11:59:59Z", "new"]]'


def test_a_page_is_notified_of_its_jobs_changes(page: Page, world: StandIn) -> None:
    page.enter()
    with page.get("/stream?topic=job rl/grpo-7b", stream=True) as answer:
        lines = answer.iter_lines()
        assert next(lines) == b"retry: 2000"
        world.put(f"{JOBS}/half", job("half", "Failed"))
        world.put(f"{JOBS}/grpo-7b", job("grpo-7b", "Succeeded"))
        assert b"event: changed" in (next(lines), next(lines), next(lines))
    assert "Succeeded" in page.get("/jobs/rl/grpo-7b").text


def test_what_may_not_be_read_is_said(page: Page, world: StandIn) -> None:
    page.enter()
    assert "may not read" not in page.get("/cluster").text


# ---------------------------------------------------------------- acting
def form(text: str) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', text))


def changes(world: StandIn) -> list[tuple[str, str]]:
    return [(method, path.split("?")[0]) for method, path, _ in world.requests if method != "GET"]


def test_limits_are_changed_after_a_confirmation(page: Page, world: StandIn) -> None:
    page.enter()
    path = "/jobs/rl/grpo-7b/limits"
    assert "collector (has 2, from 1 to 4)" in page.get(path).text
    asked = page.get(f"{path}?task=collector&least=3&most=6").text
    assert "minReplicas none -&gt; 3, maxReplicas 4 -&gt; 6: its replicas 2 -&gt; 3" in asked
    assert "above maxReplicas" in page.get(f"{path}?task=collector&least=9&most=6").text
    answer = page.post(path, **form(asked))
    assert "grpo-7b has other limits: collector minReplicas none -&gt; 3" in answer.text
    (task,) = world.objects[f"{JOBS}/grpo-7b"]["spec"]["tasks"][1:]
    assert (task["minReplicas"], task["maxReplicas"], task["replicas"]) == (3, 6, 3)


@pytest.mark.proves("dashboard.md#changing-something")
def test_scaling_happens_after_a_confirmation(page: Page, world: StandIn) -> None:
    page.enter()
    asked = page.get("/jobs/rl/grpo-7b/scale?task=collector&replicas=%2B2").text
    assert "collector 2 -&gt; 4: 2 replicas more" in asked
    assert changes(world) == []
    answer = page.post("/jobs/rl/grpo-7b/scale", **form(asked))
    assert "grpo-7b scaled: collector 2 -&gt; 4" in answer.text
    assert world.objects[f"{JOBS}/grpo-7b"]["spec"]["tasks"][1]["replicas"] == 4


def test_a_replica_count_beyond_its_bound_is_refused(page: Page, world: StandIn) -> None:
    page.enter()
    assert "at most 4 replicas" in page.get("/jobs/rl/grpo-7b/scale?task=collector&replicas=9").text
    assert "no number of replicas" in page.get("/jobs/rl/grpo-7b/scale?task=&replicas=x").text
    uid = form(page.get("/jobs/rl/grpo-7b/suspend").text)
    answer = page.post("/jobs/rl/grpo-7b/scale", **uid, task="collector", replicas="9")
    assert (answer.status_code, changes(world)) == (409, [])
    assert "at most 4 replicas" in answer.text


@pytest.mark.proves("dashboard.md#changing-something")
def test_a_job_is_suspended_resumed_and_deleted(page: Page, world: StandIn) -> None:
    page.enter()
    asked = page.get("/jobs/rl/grpo-7b/suspend").text
    assert "3 pods of grpo-7b get SIGTERM" in asked
    assert "grpo-7b suspended" in page.post("/jobs/rl/grpo-7b/suspend", **form(asked)).text
    assert world.objects[f"{JOBS}/grpo-7b"]["spec"]["suspend"] is True
    wait_until(lambda: "do-resume" in page.get("/jobs/rl/grpo-7b").text)
    asked = page.get("/jobs/rl/grpo-7b/resume").text
    assert "grpo-7b resumed" in page.post("/jobs/rl/grpo-7b/resume", **form(asked)).text
    asked = page.get("/jobs/rl/grpo-7b/delete").text
    assert "cannot be taken back" in asked
    assert "grpo-7b deleted" in page.post("/jobs/rl/grpo-7b/delete", **form(asked)).text
    assert f"{JOBS}/grpo-7b" not in world.objects


def test_a_form_of_another_page_changes_nothing(page: Page, world: StandIn) -> None:
    page.enter()
    fields = form(page.get("/jobs/rl/grpo-7b/delete").text)
    assert page.post("/jobs/rl/grpo-7b/delete", **{**fields, "csrf": "x"}).status_code == 403
    url = f"{page.root}/jobs/rl/grpo-7b/delete"
    answer = page.session.post(
        url, data=fields, headers={"Origin": "http://evil.example"}, timeout=60
    )
    assert (answer.status_code, changes(world)) == (403, [])


def test_a_newer_job_of_the_same_name_is_not_changed(page: Page, world: StandIn) -> None:
    page.enter()
    fields = {**form(page.get("/jobs/rl/grpo-7b/delete").text), "uid": "of-the-one-before"}
    answer = page.post("/jobs/rl/grpo-7b/delete", **fields)
    assert (answer.status_code, changes(world)) == (409, [])
    assert "another job by now" in answer.text


def test_a_refusal_shows_the_api_servers_message(page: Page, world: StandIn) -> None:
    page.enter()
    fields = form(page.get("/jobs/rl/grpo-7b/suspend").text)
    words = 'dijobs "grpo-7b" is forbidden: User "ann" cannot patch resource "dijobs"'
    world.refusals["PATCH", f"{JOBS}/grpo-7b"] = {
        "code": 403,
        "reason": "Forbidden",
        "message": words,
    }
    answer = page.post("/jobs/rl/grpo-7b/suspend", **fields)
    assert answer.status_code == 409
    assert "cannot patch resource" in answer.text


def test_a_read_only_page_changes_nothing(reader: Page, world: StandIn) -> None:
    assert "read only" in reader.enter().text
    assert "do-delete" not in reader.get("/jobs/rl/grpo-7b").text
    assert reader.get("/jobs/rl/grpo-7b/delete").status_code == 403
    assert reader.post("/jobs/rl/grpo-7b/delete").status_code == 403
    assert changes(world) == []


def test_an_api_server_without_nodes_is_not_unreachable(tmp_path: Path) -> None:
    with StandIn() as world:
        message = "the server could not find the requested resource"
        refusal = {"code": 404, "reason": "NotFound", "message": message}
        world.refusals["GET", "/api/v1/nodes"] = refusal
        access = read_access(file=world.kubeconfig(tmp_path / "config"))
        with serving(access, namespace="rl") as served:
            assert served.cluster_cache.wait_until_complete(ANSWER_SECONDS)
            assert served.cluster_cache.unread == {"nodes": message}
            assert not served.cluster_cache.is_away
