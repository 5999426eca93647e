"""`jobs.local()`: jobs of `di run` from Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from di_cli.exit_codes import ExitCode
from di_cli.main import run
from di_local import watchdog
from di_orchestrator import jobs
from tests.waiting import START_SECONDS, wait_until

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
import di_orchestrator as di

print("arguments", *sys.argv[1:], flush=True)
if di.job().task == "learner":
    with di.training(total_steps=3) as run:
        for step in (1, 2, 3):
            run.report(step, episodeReturn=step * 10.0)
else:
    di.leaving().wait()
"""
FOR_EVER = "import time\nprint('here', flush=True)\nwhile True: time.sleep(60)\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("DI_HISTORY_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.proves("from-python.md#on-this-machine", "local.md#where-things-are/job-json")
def test_a_job_of_this_machine_runs_to_its_curve(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "train.py").write_text(PROGRAM)
    page = (ROOT / "docs/how-to/from-python.md").read_text()
    blocks = [each.partition("```")[0] for each in page.split("```python\n")[1:]]
    (block,) = (each for each in blocks if "jobs.local()" in each)
    names: dict[str, Any] = {}
    exec(compile(block, "block", "exec"), names)
    assert capsys.readouterr().out == "Succeeded 30.0\n"
    job = names["job"]
    assert (job.phase, job.is_over, job.name) == ("Succeeded", True, "train")
    assert job.curves()["return"][-1] == 30.0
    assert job.logs(task="learner") == ["arguments"]
    assert job.why().summary.startswith("train has succeeded")
    wait_until(lambda: not list(watchdog.marked(job.directory.name)), what="the end of the run")
    # As above, from the directory of the run.
    found = jobs.local().get("train")
    assert (found.phase, found.curves()["return"][-1]) == ("Succeeded", 30.0)
    assert found.wait() is found
    assert found.logs(task="learner", tail=1) == ["arguments"]
    assert found.logs(container="other") == []
    with pytest.raises(jobs.BadCall, match="by task and container alone"):
        found.logs(rank=0)
    assert found.why().summary.startswith("train has succeeded")
    assert [each.phase for each in found.watch()] == ["Succeeded"]
    assert "<td>train</td><td>Succeeded</td>" in jobs.local().list()._repr_html_()
    with pytest.raises(jobs.EndedOtherwise, match="is Succeeded, and will not be phase=Running"):
        found.wait("phase=Running")


def fails(code: int) -> None:
    import sys  # noqa: PLC0415  # as the process has no other import

    print("it fails")
    sys.exit(code)


def test_a_function_runs_here_and_its_failure_is_raised() -> None:
    job = jobs.local().submit(fails, args={"code": 3}, collectors=0)
    with pytest.raises(jobs.EndedOtherwise, match="dijob/fails is Failed"):
        job.wait(timeout=START_SECONDS)
    assert "3" in str(job.why())
    assert "it fails" in job.logs()
    with pytest.raises(jobs.BadCall, match="nothing is pushed"):
        job.push()


def test_a_job_of_this_machine_is_scaled_and_deleted(folder: Path) -> None:
    (folder / "train.py").write_text(FOR_EVER)
    job = jobs.local().submit("train.py", collectors=1).wait("phase=Running", timeout=START_SECONDS)
    with pytest.raises(jobs.NotFound, match="dijob/train has no pods of task evaluator"):
        job.logs(task="evaluator")
    assert job.scale(collector=2) == ["collector 1 -> 2"]
    job.wait("phase=Running", timeout=START_SECONDS)
    assert next(job.follow(task="learner")) == "train-learner-0  here"
    job.delete(wait=True, timeout=START_SECONDS)
    assert job.is_over
    assert not list(watchdog.marked(job.directory.name))
    assert job.refresh().phase == jobs.local().get("train").phase == "Ended"
    assert "was ended before the job succeeded or failed" in str(job.why())
    with pytest.raises(jobs.EndedOtherwise, match="dijob/train is Ended"):
        job.wait()


def test_a_job_whose_run_was_killed_has_ended(folder: Path) -> None:
    (folder / "train.py").write_text(FOR_EVER)
    job = jobs.local().submit("train.py").wait("phase=Running", timeout=START_SECONDS)
    assert job._process is not None
    job._process.kill()
    wait_until(lambda: job.is_over, what="the run to be over")
    assert job.refresh().phase == "Ended"
    assert "<td>train</td><td>Ended</td>" in jobs.local().list()._repr_html_()


def test_a_run_ends_with_the_process_that_started_it(folder: Path) -> None:
    (folder / "train.py").write_text(FOR_EVER)
    program = (
        "from di_orchestrator import jobs\n"
        "print(jobs.local().submit('train.py').wait('phase=Running').directory.name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=os.environ,
    )
    assert not list(watchdog.marked(done.stdout.strip()))


@pytest.mark.proves("from-python.md#on-this-machine")
def test_a_manifest_as_a_dict_runs_here_with_changes(folder: Path) -> None:
    (folder / "train.py").write_text("import os\nprint(os.environ['DI_RANK'], open('here').read())")
    (folder / "here").write_text("found")
    container = {"name": "di-container", "image": "none", "command": ["python3", "train.py"]}
    task = {"type": "learner", "template": {"spec": {"containers": [container]}}}
    body = {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJob",
        "metadata": {"name": "own"},
        "spec": {"tasks": [task]},
    }
    job = jobs.local().submit(body, replicas={"learner": 2}, name="two").wait()
    assert (job.name, job.phase) == ("two", "Succeeded")
    assert [line.split()[1:] for line in job.logs()] == [["0", "found"], ["1", "found"]]
    # The programs of a file start in its folder, with changes as well.
    (folder / "jobs").mkdir()
    for name in ("train.py", "here"):
        (folder / name).rename(folder / "jobs" / name)
    (folder / "jobs/job.json").write_text(json.dumps(body))
    assert jobs.local().submit("jobs/job.json", name="three").wait().logs() == ["0 found"]


@pytest.mark.proves("own-code.md#a-manifest-to-keep")
def test_a_kept_manifest_runs_here_with_code_in_several_config_maps(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = folder / "source"
    source.mkdir()
    (source / "data.bin").write_bytes(os.urandom(3 << 20))
    (source / "train.py").write_text("print(len(open('data.bin', 'rb').read()))")
    words = ("submit", str(source), "--entry", "train.py", "--name", "kept")
    assert run([*words, "--dry-run", "client"]) == ExitCode.DONE
    kept = folder / "kept.yaml"
    kept.write_text(capsys.readouterr().out)
    assert kept.read_text().count("kind: ConfigMap") > 2
    job = jobs.local().submit("kept.yaml").wait()
    assert job.logs(container="di-container") == [str(3 << 20)]


def test_why_names_the_import_that_a_program_lacks(folder: Path) -> None:
    (folder / "train.py").write_text("import nosuchmodule\n")
    job = jobs.local().submit("train.py")
    with pytest.raises(jobs.EndedOtherwise):
        job.wait()
    why = job.why()
    assert why.summary == (
        "train failed: the program of train-learner-0 failed (exit code 1): "
        "ModuleNotFoundError: No module named 'nosuchmodule'"
    )
    assert "nosuchmodule" in why.remedy


def test_what_cannot_run_here_is_refused_with_its_reason(folder: Path) -> None:
    (folder / "job.yaml").write_text("kind: Pod\nmetadata: {name: a}\n")
    with pytest.raises(jobs.BadCall, match="nothing was submitted") as refused:
        jobs.local().submit("job.yaml")
    assert "job.yaml: document 1 is a Pod, and no DIJob" in str(refused.value)
    with pytest.raises(jobs.JobsError, match="there is no such file"):
        jobs.local().submit("nowhere.py")
    with pytest.raises(jobs.BadCall, match="nothing was submitted"):
        jobs.local().submit({"kind": "DIJob"})
    with pytest.raises(jobs.BadCall, match="are for a program, folder or function"):
        jobs.local().submit({"kind": "DIJob"}, collectors=2)
    with pytest.raises(jobs.NotFound, match="no job train has run on this machine"):
        jobs.local().get("train")


def _sweep(program: str) -> dict[str, Any]:
    container = {"name": "di-container", "image": "none", "command": ["python3", program]}
    task = {"type": "learner", "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DISweep",
        "metadata": {"name": "tiny"},
        "spec": {
            "objective": {"metric": "episodeReturn"},
            "sampler": "Grid",
            "parameters": [{"name": "p", "environment": "P", "values": [1, 3, 2]}],
            "template": {"spec": {"backoffLimit": 0, "tasks": [task]}},
        },
    }


@pytest.mark.proves("from-python.md#sweeps")
def test_a_sweep_runs_on_this_machine(folder: Path) -> None:
    (folder / "train.py").write_text(
        "import os\nimport di_orchestrator as di\n"
        "with di.training(total_steps=1) as run:\n"
        "    run.report(1, episodeReturn=float(os.environ['P']))\n"
    )
    sweep = jobs.local().sweep(_sweep("train.py"), parallelism=3)
    assert (sweep.name, sweep.best, sweep.trials) == ("tiny", None, [])
    sweep.wait(START_SECONDS)
    assert sweep.is_over
    assert sweep.best == {"trial": "tiny-1", "value": 3.0, "parameters": {"p": 3}}
    assert [each["value"] for each in sweep.trials] == [1.0, 3.0, 2.0]


@pytest.mark.proves("from-python.md#sweeps")
def test_a_sweep_of_this_machine_is_refused_or_stopped(folder: Path) -> None:
    (folder / "wait.py").write_text(FOR_EVER)
    with pytest.raises(jobs.JobsError, match="the sweep breaks rules"):
        jobs.local().sweep({**_sweep("wait.py"), "spec": {}})
    (folder / "sweep.yaml").write_text(json.dumps(_sweep("wait.py")))
    sweep = jobs.local().sweep("sweep.yaml")
    with pytest.raises(jobs.TimedOut, match="sweep tiny is not over"):
        sweep.wait(0.01)
    assert sweep.stop().is_over
    assert sweep.best is None
