"""`di run` as a process: its output, its exit code, and that it leaves no process behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
import yaml

from di_api.names import SERVER_PORT
from di_cli import main as outside
from di_cli.exit_codes import ExitCode
from di_kube.config import load_config
from di_local import runs, watchdog
from di_local.api.objects import Object
from di_local.main import main
from tests.programs import Program
from tests.unit.local.machine import FOR_EVER, job, task
from tests.waiting import START_SECONDS, wait_until

_CODE_OF_INTERRUPT = 130


class Command:
    """Runs of one test."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path
        self.state = tmp_path / "di-orchestrator" / "runs"
        self._environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "COLUMNS": "200"}

    def manifest(self, job: Object) -> Path:
        path = self.path / "job.yaml"
        head = {"apiVersion": "diengine.opendilab.org/v2alpha1", "kind": "DIJob"}
        path.write_text(yaml.safe_dump(head | job))
        return path

    def start(self, *arguments: str | Path) -> Program:
        return Program(
            [Path(sys.executable).with_name("di"), "run", *map(str, arguments)],
            cwd=self.path,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str | Path) -> tuple[int, str]:
        process = self.start(*arguments)
        said, _ = process.communicate(timeout=START_SECONDS)
        return process.returncode, said

    def the_run(self) -> runs.Run:
        return wait_until(lambda: list(runs.runs(self.state)), what="a run")[0]

    def processes(self) -> list[int]:
        """The ids of the programs' processes."""
        return list(watchdog.marked(self.the_run().name))


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


@pytest.mark.proves(
    "local.md#jobs-on-one-machine/0",
    "local.md#what-is-as-in-a-cluster-and-what-is-not/di-server-url",
)
def test_a_job_that_scales_itself_and_reports_succeeds(command: Command) -> None:
    program = """
import json, os, time, urllib.request

def call(method, body):
    request = urllib.request.Request(
        f"{os.environ['DI_SERVER_URL']}/v2alpha1/job/{os.environ['DI_JOB_ID']}/{body.pop('to')}",
        method=method, data=json.dumps(body).encode(),
        headers={"Authorization": "Bearer " + open(os.environ["DI_SERVER_TOKEN_FILE"]).read()})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return json.load(opener.open(request))["data"]

call("POST", {"to": "replicas", "task": "collector", "replicas": 1})
call("POST", {"to": "profilings", "data": {"step": 7}})
print("asked for one more")
"""
    learner = task(program)
    code, said = command.run(
        "-f", command.manifest(job(learner, task(FOR_EVER, "collector", maxReplicas=3)))
    )
    assert code == 0, said
    assert "collector 1 -> 2" in said
    assert "asked for one more" in said
    assert "Succeeded in" in said


@pytest.mark.proves(
    "local.md#what-is-as-in-a-cluster-and-what-is-not/di-server-url",
)
def test_another_user_of_the_machine_reaches_no_run(command: Command) -> None:
    """Every user can have the address of a pod; only the run's own processes have a token."""
    path = command.manifest(job(task(FOR_EVER), task(FOR_EVER, "collector", maxReplicas=3)))
    with command.start(path) as process:
        assert process.stdout is not None
        assert any("2/2 ready" in line for line in process.stdout)
        run = command.the_run()
        host = str(urlsplit(run.url).hostname)

        def status(source: str, method: str, **headers: str) -> int:
            connection = HTTPConnection(host, SERVER_PORT, timeout=60, source_address=(source, 0))
            body = b'{"task": "collector", "replicas": 1}' if method == "POST" else None
            connection.request(method, "/v2alpha1/job/default.tiny/replicas", body, headers)
            found = connection.getresponse().status
            connection.close()
            return found

        for source in ("127.0.0.1", *(f"{host[:-1]}{number}" for number in range(10, 14))):
            assert (status(source, "GET"), status(source, "POST")) == (401, 401), source
        own = load_config(str(run.kubeconfig)).authorization() or ""
        assert status("127.0.0.1", "GET", Authorization=own) == 200
        tokens = list(run.directory.glob("pods/**/token"))
        assert tokens
        for each in (run.directory, run.kubeconfig, *tokens):
            assert each.stat().st_mode & 0o077 == 0
        process.send_signal(signal.SIGINT)
        process.stdout.read()


@pytest.mark.proves("sdk.md#data-shards")
def test_the_pods_of_a_run_share_the_records_of_a_data_set(command: Command) -> None:
    program = """
import di_orchestrator as di

with di.shards("prompts", size=12, shard_size=2, epochs=2, shuffle=True) as shards:
    for shard in shards:
        for record in shard:
            print(f"epoch {shard.epoch} record {record}.", flush=True)
"""
    learner = task(program, replicas=3)
    learner["template"]["spec"]["containers"][0]["command"] = [sys.executable, "-c", program]
    code, said = command.run("-f", command.manifest(job(learner)))
    assert code == 0, said
    found = re.findall(r"epoch (\d+) record (\d+)\.", said)
    every = [(str(epoch), str(record)) for epoch in range(2) for record in range(12)]
    assert sorted(found) == sorted(every)


@pytest.mark.parametrize("kind", ["sync", "asyncio"])
def test_a_program_follows_its_peers_as_they_come_and_go(command: Command, kind: str) -> None:
    """By requests that wait at the di-server of the run, not by polling."""
    program = """
import asyncio
import di_orchestrator as di
from di_orchestrator import aio
from di_orchestrator.server import api

api.POLL_SECONDS = 86_400.0

class Story:
    counts = []
    def tell(self, peers):
        # Scaled up once the collector runs, and down once both do.
        if len(peers) in self.counts[-1:]:
            return False
        self.counts.append(len(peers))
        if len(peers) == 2 or (len(peers) == 1 and 2 not in self.counts):
            di.scale("collector", to=3 - len(peers))
        return self.counts[-2:] == [2, 1]

async def follow():
    story = Story()
    async for peers in aio.client().watch_peers("collector"):
        if story.tell(peers):
            return

if KIND == "asyncio":
    asyncio.run(follow())
else:
    story = Story()
    any(map(story.tell, di.watch_peers("collector")))
print("followed", Story.counts)
""".replace("KIND", repr(kind))
    learner, collector = task(program), task(FOR_EVER, "collector", maxReplicas=3)
    learner["template"]["spec"]["containers"][0]["command"] = [sys.executable, "-c", program]
    code, said = command.run("-f", command.manifest(job(learner, collector)))
    assert code == 0, said
    assert "1, 2, 1]" in said


@pytest.mark.proves(
    "local.md#what-is-as-in-a-cluster-and-what-is-not/names-in-answers-of-di-server-such-as",
    "local.md#what-is-as-in-a-cluster-and-what-is-not/jobs-with-a-coordinator",
)
def test_a_coordinator_reaches_its_collectors_by_name(command: Command) -> None:
    coordinator = """
import socket, time
import di_orchestrator as di

(address,) = di.coordinator().add(collectors=1).collectors
name, _, port = address.partition(":")
while True:
    try:
        with socket.create_connection((name, int(port))) as peer:
            print("heard", peer.recv(64).decode())
        break
    except OSError:
        time.sleep(0.05)
"""
    collector = """
import os, socket
server = socket.create_server(("", int(os.environ["COLLECTOR_PORT"])))
while True:
    peer, _ = server.accept()
    with peer:
        peer.sendall(os.environ["KUBERNETES_POD_NAME"].encode())
"""
    roles = {}
    for role, program in (("coordinator", coordinator), ("collector", collector)):
        words = [sys.executable, "-c", program]
        container = {"name": "di-container", "image": "none", "command": words}
        spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
        roles[role] = {"template": {"spec": spec}}
    path = command.path / "job.yaml"
    head = {"apiVersion": "diengine.opendilab.org/v1alpha1", "kind": "DIJob"}
    path.write_text(yaml.safe_dump({**head, "metadata": {"name": "tiny"}, "spec": roles}))
    code, said = command.run("-f", path)
    assert code == 0, said
    assert "tiny: 1 coordinator, as processes here" in said
    assert "collector 0 -> 1" in said
    assert "heard tiny-collector-" in said


@pytest.mark.proves("local.md#jobs-on-one-machine/1", "local.md#where-things-are/control-plane-log")
def test_a_failed_job_shows_its_log_tail_and_returns_1(command: Command) -> None:
    code, said = command.run(command.manifest(job(task("raise SystemExit('out of ideas')"))))
    assert code == 1
    assert "out of ideas" in said
    assert "Failed after" in said
    (log,) = command.state.rglob("control-plane.log")
    assert {"di_operator", "di_server"} <= set(re.findall(r"di_[a-z]+", log.read_text()))


def test_a_program_is_a_job_with_the_pods_of_its_flags(command: Command) -> None:
    program = command.path / "train.py"
    program.write_text("import os, sys; print(os.environ['DI_TASK_NAME'], *sys.argv[1:])")
    code, said = command.run("train.py", "--collectors", "2", "-f", "--", "fast")
    assert code == 0, said
    assert "train: 1 learner, 2 collectors, as processes here" in said
    assert "learner fast" in said


@pytest.mark.proves("local.md#jobs-on-one-machine/2")
def test_an_unsupported_job_is_refused_with_path_and_reason(
    command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(command.path))
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    path = command.manifest(job(task(["no-such-command"], pod={"volumes": volumes})))
    assert main(["run", str(path)]) == 2
    said = capsys.readouterr().out
    where = "spec.tasks[0].template.spec"
    assert f"{where}.volumes[0].persistentVolumeClaim" in said
    assert "--volume data=DIRECTORY" in said
    assert f"{where}.containers[0]: 'no-such-command' is no command" in said
    assert not command.state.exists()


def test_an_invalid_job_is_refused_with_the_webhooks_message(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(command.manifest(job(task("pass", replicas=-1))))]) == 2
    assert "spec.tasks[0].replicas" in capsys.readouterr().out


@pytest.mark.proves(
    "local.md#jobs-on-one-machine/130", "local.md#where-things-are/pods-pod-uid-container-log"
)
def test_ctrl_c_ends_all_pods_and_keeps_their_logs(command: Command) -> None:
    polite = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('good bye', flush=True), sys.exit(0)))\n"
        "print('i am up', flush=True); signal.pause()"
    )
    with command.start("-f", command.manifest(job(task(polite)))) as process:
        assert process.stdout is not None
        assert any("i am up" in line for line in process.stdout)
        run = command.the_run()
        assert run.kubeconfig.stat().st_mode & 0o077 == 0
        with pytest.raises(HTTPError) as refused:
            urlopen(f"{run.url}/api/v1/pods")
        refused.value.close()
        assert refused.value.code == 401
        log = "/api/v1/namespaces/default/pods/tiny-learner-0/log"
        when, _, words = _asked(run, f"{log}?tailLines=1&timestamps=true").partition(" ")
        assert when.endswith("Z")
        assert words == "i am up\n"
        with pytest.raises(HTTPError) as no_such_one:
            _asked(run, f"{log}?container=../other")
        no_such_one.value.close()
        assert no_such_one.value.code == 400
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == _CODE_OF_INTERRUPT
    assert "good bye" in rest
    assert command.processes() == []
    assert not run.kubeconfig.exists()
    assert "good bye" in next(run.directory.glob("pods/*/*/*.log")).read_text()


@pytest.mark.proves("local.md#where-things-are/run-json")
def test_a_second_terminal_finds_the_run_by_the_jobs_name(
    command: Command, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its first phase to after its end, also where no cluster is known."""
    monkeypatch.setenv("XDG_STATE_HOME", str(command.path))
    monkeypatch.setenv("KUBECONFIG", str(command.path / "none"))

    def di(*words: str) -> tuple[int, list[str]]:
        capfd.readouterr()
        code = outside.run(words)
        return code, capfd.readouterr().out.splitlines()

    gate = command.path / "gate"
    os.mkfifo(gate)
    learner = task(f"print('i am up', flush=True); open({str(gate)!r}).read(); print('good bye')")
    path = command.manifest(job(learner, task(FOR_EVER, "collector", maxReplicas=3)))
    with command.start(path) as process:
        assert process.stdout is not None
        assert any("2/2 ready" in line for line in process.stdout)
        assert di("wait", "tiny", "--for", "phase=Running")[0] == 0
        # Its process runs before its program has said anything.
        said_first = (0, ["tiny-learner-0  i am up"])
        wait_until(lambda: di("logs", "tiny", "--rank", "0") == said_first)
        assert di("scale", "tiny", "collector=+1")[1] == ["dijob/tiny scaled: collector 1 -> 2"]
        assert any("3/3 ready" in line for line in process.stdout)
        assert di("why", "tiny")[0] == 0
        assert [line.split()[0] for line in di("list")[1]] == ["NAME", "tiny"]
        # It ends with the run, after all output.
        with Program(
            [Path(sys.executable).with_name("di"), "logs", "tiny", "-f", "--task", "learner"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as following:
            assert following.stdout is not None
            assert following.stdout.readline() == "tiny-learner-0  i am up\n"
            gate.write_text("go")
            said, noted = following.communicate(timeout=START_SECONDS)
        process.stdout.read()
    assert process.returncode == 0
    assert (following.returncode, said) == (0, "tiny-learner-0  good bye\n")
    assert noted.splitlines()[-1].endswith(f"logs: {command.the_run().directory}")
    assert di("get", "tiny")[0] == ExitCode.NOT_FOUND


def _asked(run: runs.Run, path: str) -> str:
    config = load_config(str(run.kubeconfig))
    headers = {"Authorization": config.authorization() or ""}
    with urlopen(Request(f"{config.server}{path}", headers=headers)) as answer:
        said: bytes = answer.read()
        return said.decode()


def test_a_second_ctrl_c_does_not_wait(command: Command) -> None:
    stubborn = (
        "import signal; signal.signal(signal.SIGTERM, lambda *_: print('no', flush=True))\n"
        "print('i am up', flush=True)\nwhile True: signal.pause()"
    )
    patient = task(stubborn, pod={"terminationGracePeriodSeconds": 600})
    with command.start("-f", command.manifest(job(patient))) as process:
        assert process.stdout is not None
        assert any("i am up" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        assert any("no" in line.split() for line in process.stdout)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == _CODE_OF_INTERRUPT
    assert command.processes() == []


def test_a_run_that_is_killed_leaves_no_process_behind(command: Command) -> None:
    # The child's child has left the session, and would outlive all that ends by groups.
    program = (
        "import subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', {FOR_EVER!r}], start_new_session=True)\n"
        f"print('i am up', flush=True); {FOR_EVER}"
    )
    with command.start("-f", command.manifest(job(task(program)))) as process:
        assert process.stdout is not None
        assert any("i am up" in line for line in process.stdout)
        assert len(command.processes()) == 2
        process.kill()
    wait_until(lambda: not command.processes(), what="no process")
    wait_until(lambda: not command.the_run().kubeconfig.exists(), what="no token")
