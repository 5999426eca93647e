"""Jobs of the Python client: what they return is what the commands print."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from di_cli.exit_codes import ExitCode
from di_orchestrator import jobs
from tests.fakes.api_server import StandIn
from tests.unit.cli.client.conftest import report
from tests.unit.cli.conftest import JOBS, PODS, Di
from tests.unit.cli.conftest import job as a_job
from tests.unit.cli.test_logs import IN_ORDER, of_two
from tests.waiting import DEADLINE

ROOT = Path(__file__).parents[4]
FOUR = [float(value) for value in (0, 10, 20, 30)]


class Training(threading.Thread):
    """A thread that reports each step as soon as the one before has been seen, to the end."""

    def __init__(self, di: Di, phase: str) -> None:
        super().__init__(daemon=True)
        self._di, self._phase = di, phase
        self.seen = threading.Semaphore(0)

    @override
    def run(self) -> None:
        for step in (1, 2, 3):
            self.seen.acquire(timeout=DEADLINE)
            report(self._di, step, step * 10.0, self._phase if step == 3 else "Running")


@pytest.mark.proves(
    "from-python.md#curves",
    "from-python.md#a-job/job-curves",
    "from-python.md#a-job/job-watch",
    "from-python.md#a-job/job-name-*",
)
def test_curves_have_each_report_that_was_seen(di: Di) -> None:
    report(di, 0, 0.0)
    training = Training(di, "Succeeded")
    training.start()
    job = jobs.get("train")
    for each in job.watch():
        assert each is job
        training.seen.release()
    curves = job.curves()
    assert (job.phase, job.is_over, job.progress) == ("Succeeded", True, 0.3)
    assert list(curves["return"]) == list(curves["mean_return"]) == FOUR
    assert curves["return"].steps == [0.0, 1.0, 2.0, 3.0]
    assert curves["return"][-1] == 30.0
    assert curves["Return"][1:3] == curves["return"][1:3] == FOUR[1:3]
    assert curves["loss.policy"].times[1].isoformat() == "2026-03-01T11:00:01+00:00"
    with pytest.raises(KeyError, match="entropy: is not reported; the job has reported"):
        curves["entropy"]


@pytest.mark.proves("from-python.md#notebooks")
def test_a_notebook_shows_a_table_and_a_picture(di: Di) -> None:
    for step in range(4):
        report(di, step, step * 10.0)
        if step == 0:
            job = jobs.get("train")
        curves = job.curves()
    picture = curves._repr_html_()
    assert picture.count("<svg") == 2
    assert "mean_return: 30 (from 0 to 30, step 0 to 3)" in picture.partition("</figcaption>")[0]
    assert curves["loss.policy"]._repr_html_().count("<svg") == 1
    table = job._repr_html_()
    assert "<th>phase</th>" in table
    assert "<td>train</td><td>Running</td>" in table
    assert jobs.list()._repr_html_() == table
    assert "no curve has two values yet" in jobs.get("train").curves()._repr_html_()


def test_names_and_lines_of_a_job_are_escaped_in_html(di: Di) -> None:
    di.world.put(f"{JOBS}/train", a_job("train", "<script>"))
    di.pod("train", "learner", 0, 0)
    di.world.logs["train-learner-0"] = ["2026-03-01T11:00:00Z <script>"]
    job = jobs.get("train")
    for shown in (job._repr_html_(), job.logs()._repr_html_()):
        assert "<script>" not in shown
        assert "&lt;script&gt;" in shown


def test_the_history_completes_the_curves(di: Di, monkeypatch: pytest.MonkeyPatch) -> None:
    report(di, 3, 30.0, "Succeeded")
    samples = [
        {"at": f"2026-03-01T11:00:0{step}Z", "values": {"step": step, "mean_return": step * 10.0}}
        for step in range(4)
    ]
    token = "/api/v1/namespaces/rl/serviceaccounts/default/token"
    with StandIn() as history:
        history.put("/v1/jobs/rl/train/series", {"metadata": {}, "samples": samples})
        di.world.put(token, {"metadata": {}, "status": {"token": "t"}})
        monkeypatch.setenv("DI_HISTORY_URL", history.url)
        assert list(jobs.get("train").curves()["return"]) == FOUR
        assert history.requests[-1][1] == "/v1/jobs/rl/train/series?uid=uid-train"


@pytest.mark.proves("from-python.md#errors/*", "from-python.md#a-job/job-wait-*")
def test_waiting_raises_what_the_command_reports(di: Di) -> None:
    report(di, 1, 1.0, "Failed")
    said = di("wait", "train")
    with pytest.raises(jobs.EndedOtherwise) as failed:
        jobs.get("train").wait()
    assert said.err == f"error: {failed.value}\n"
    assert (failed.value.code, said.code) == (ExitCode.ENDED_OTHERWISE, ExitCode.ENDED_OTHERWISE)
    with pytest.raises(jobs.TimedOut, match=r"is not phase=Running after 0\.1 s"):
        a_job_that("Pending", di).wait("phase=Running", timeout=0.1)
    with pytest.raises(jobs.BadCall, match="'Gone' is no phase"):
        jobs.get("train").wait("phase=Gone")


def a_job_that(phase: str, di: Di) -> jobs.Job:
    di.job("other", phase)
    return jobs.get("other")


@pytest.mark.parametrize("reason", ["Forbidden", "Unauthorized"])
def test_a_refusal_has_the_class_of_its_exit_code(di: Di, reason: str) -> None:
    code = {"Forbidden": 403, "Unauthorized": 401}[reason]
    refusal = {"code": code, "reason": reason, "message": "no"}
    di.world.refusals["GET", f"{JOBS}/train"] = refusal
    said = di("get", "train", "-n", "rl")
    with pytest.raises(jobs.NotAllowed) as raised:
        jobs.get("train", namespace="rl")
    assert said.err == f"error: {raised.value}\n"
    assert raised.value.code == said.code


def test_an_api_server_that_does_not_answer_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StandIn() as world:
        file = world.kubeconfig(tmp_path / "config")
    monkeypatch.setenv("KUBECONFIG", str(file))
    with pytest.raises(jobs.Unavailable, match="127"):
        jobs.list()


def test_an_absent_job_or_kubeconfig_is_not_found(
    di: Di, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(jobs.NotFound, match="cartpol"):
        jobs.get("cartpol")
    job = a_job_that("Running", di)
    di.world.remove(f"{JOBS}/other")
    with pytest.raises(jobs.NotFound, match="other"):
        job.why()
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(jobs.NotFound, match="the kubeconfig cannot be used"):
        jobs.list()


@pytest.mark.proves("from-python.md#a-job/job-why")
def test_why_is_the_text_of_the_command(di: Di) -> None:
    di.job("cartpole", "Pending")
    said = di("why", "cartpole")
    why = jobs.get("cartpole").why()
    assert f"{why}\n" == said.out
    assert why.summary == said.lines[0]
    assert why.cause
    assert why.summary in why._repr_html_().replace("&#x27;", "'")


@pytest.mark.proves("from-python.md#a-job/job-logs-*")
def test_logs_are_the_lines_of_the_command(di: Di) -> None:
    of_two(di)
    job = jobs.get("cartpole")
    found = job.logs()
    assert [line.replace("learner-0 ", "learner-0   ") for line in found] == IN_ORDER
    assert str(found).splitlines() == found
    assert job.logs(task="learner") == ["line 0", "line 2"]
    assert job.logs(rank=1, tail=1) == ["line 3"]
    wrongs: tuple[dict[str, Any], ...] = ({"task": "evaluator"}, {"container": "other"})
    for wrong in wrongs:
        words = [f"--{key}={value}" for key, value in wrong.items()]
        with pytest.raises(jobs.NotFound) as raised:
            job.logs(**wrong)
        assert di("logs", "cartpole", *words).err == f"error: {raised.value}\n"
    with pytest.raises(jobs.BadCall, match="tail=-1 is no number of lines"):
        job.logs(tail=-1)


@pytest.mark.proves("from-python.md#a-job/job-follow-*")
def test_follow_yields_lines_until_the_job_has_ended(di: Di) -> None:
    of_two(di)
    di.job("cartpole", "Succeeded")
    job = jobs.get("cartpole")
    assert sorted(job.follow(task="learner")) == [
        IN_ORDER[0].replace("   ", " "),
        "cartpole-learner-0  line 2",
    ]


def test_threads_that_follow_logs_end_when_they_are_no_longer_read(di: Di) -> None:
    of_two(di)
    di.job("cartpole", "Running")
    lines = jobs.get("cartpole").follow()
    next(lines)
    threads = [each for each in threading.enumerate() if each.name.startswith("follow ")]
    assert threads

    lines.close()
    di.job("cartpole", "Succeeded")  # ends the watches that are open
    for each in threads:
        each.join(60)
    assert not [each for each in threads if each.is_alive()]


@pytest.mark.proves("from-python.md#a-job/job-scale-*")
def test_scaling_takes_numbers_changes_and_names(di: Di) -> None:
    di.job()
    job = jobs.get("cartpole")
    assert job.scale(collector=4) == ["collector 2 -> 4"]
    assert job.scale(collector="-1") == ["collector 4 -> 3"]
    assert job.scale(2) == ["collector 3 -> 2"]
    with pytest.raises(jobs.BadCall, match="give COUNT, TASK=COUNT"):
        job.scale(collector="many")
    with pytest.raises(jobs.BadCall, match=r"scale\(\) has no number"):
        job.scale()
    with pytest.raises(jobs.JobsError, match="dijob/cartpole was not scaled"):
        job.scale(evaluator=1)


@pytest.mark.proves("from-python.md#a-job/job-push", "from-python.md#a-job/job-refresh")
@pytest.mark.usefixtures("light")
def test_changed_code_is_pushed(di: Di, folder: Path) -> None:
    job = jobs.submit("train.py")
    before = job.manifest["spec"]["code"]["sha256"]
    Path("train.py").write_text("print('second line')\n")
    assert job.push() == ["train.py"]
    after = job.refresh().manifest["spec"]["code"]
    assert after["sha256"] != before
    assert job.push() == []
    packed = di.world.objects[f"/api/v1/namespaces/rl/configmaps/{after['configMap']}"]
    assert base64.b64decode(packed["binaryData"]["bundle.tar.gz"])


@pytest.mark.proves(
    "from-python.md#a-job/job-suspend-*",
    "from-python.md#a-job/job-stop-*",
    "from-python.md#a-job/job-delete-*",
)
def test_a_job_is_suspended_stopped_resumed_and_deleted(di: Di) -> None:
    di.job()
    pod = di.pod("cartpole", "learner", 0, 0)
    job = jobs.get("cartpole")
    assert job.suspend().manifest["spec"]["suspend"] is True
    with pytest.raises(jobs.TimedOut, match=r"still has pods after 0\.1 s"):
        job.stop(timeout=0.1)
    di.world.remove(f"{PODS}/{pod}")
    assert job.stop().manifest["spec"]["suspend"] is True
    assert job.resume().manifest["spec"]["suspend"] is False
    job.delete()
    with pytest.raises(jobs.NotFound):
        job.refresh()


@pytest.mark.proves("from-python.md#clusters-and-namespaces")
def test_jobs_of_all_namespaces_act_in_their_own(di: Di) -> None:
    di.job("b")
    other = f"{JOBS}/a".replace("/rl/", "/other/")
    found = a_job("a", "Running")
    di.world.put(other, {**found, "metadata": {**found["metadata"], "namespace": "other"}})
    both = jobs.list(all_namespaces=True)
    assert repr(both) == "[<job other/a: Running>, <job rl/b: Running>]"
    assert "<th>namespace</th>" in both._repr_html_()
    both[0].suspend()
    assert di.world.objects[other]["spec"]["suspend"] is True


def test_a_client_is_reused_after_its_end(di: Di) -> None:
    di.job()
    with jobs.Client() as client:
        assert client.get("cartpole").phase == "Running"
    assert [each.name for each in client.list()] == ["cartpole"]


def test_an_asynchronous_program_waits_for_several_jobs_at_once(di: Di) -> None:
    for name in ("first", "second"):
        di.job(name, "Running")

    async def both() -> list[str]:
        found = [jobs.get(name) for name in ("first", "second")]
        waits = [asyncio.create_task(asyncio.to_thread(job.wait, timeout=60)) for job in found]
        # Neither wait blocks the loop, nor the other one.
        await asyncio.sleep(0)
        for name in ("second", "first"):
            path = f"{JOBS}/{name}"
            di.world.put(path, {**di.world.objects[path], "status": {"phase": "Succeeded"}})
            await waits[0 if name == "first" else 1]
        return [job.phase for job in found]

    assert asyncio.run(both()) == ["Succeeded", "Succeeded"]


def test_without_the_command_the_import_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['di_cli'] = None\n"
        "import di_orchestrator\n"
        "try:\n    from di_orchestrator import jobs\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip().endswith("pip install './sdk[client]' in a clone of the repository")


@pytest.mark.proves("from-python.md#six-lines")
@pytest.mark.usefixtures("light")
def test_the_six_lines_of_the_page_run(
    di: Di, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs/how-to/from-python.md").read_text()
    block = page.partition("```python\n")[2].partition("```")[0]
    assert len([line for line in block.splitlines() if line]) <= 6
    training = Training(di, "Succeeded")
    waiting = jobs.Job.wait

    def wait(job: jobs.Job) -> jobs.Job:
        for _ in range(3):
            training.seen.release()
        training.start()
        return waiting(job)

    monkeypatch.setattr(jobs.Job, "wait", wait)
    exec(compile(block, "block", "exec"), {})  # what the page has
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "Succeeded 30.0"
    assert out[1].startswith("train has succeeded")
