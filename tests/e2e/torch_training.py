"""A training of several processes by torchrun on a real node, which is killed and suspended."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import yaml

from di_cli.exit_codes import ExitCode
from di_cli.main import run
from di_cluster.errors import CommandFailed
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import pods_of
from tests.waiting import START_SECONDS, wait_until

INTERVAL: Final = 10
"""Steps between two checkpoints."""
PROCESSES: Final = 2
"""Of the group."""
PROGRAM: Final = f"""
import os, time
from pathlib import Path
import torch
import torch.distributed as dist
import di_orchestrator as di

dist.init_process_group("gloo")
rank, notes = dist.get_rank(), Path(os.environ["DI_CHECKPOINT_DIR"])
(notes / f"pid-{{rank}}").write_text(f"{{os.environ['HOSTNAME']}} {{os.getpid()}}")

def note(text):
    if rank == 0:
        with (notes / "steps").open("a") as opened:
            opened.write(f"{{text}}\\n")

def write(folder):
    torch.save(weights, folder / f"part-{{rank}}")

with di.training(total_steps=1_000_000) as run:
    saved = run.checkpoint.restore()
    weights = torch.zeros(1) if saved is None else torch.load(saved / f"part-{{rank}}")
    step = int(weights)
    note(f"begin {{step}}")
    while not run.stopping:
        total = torch.tensor([float(step)])
        dist.all_reduce(total)
        assert total.item() == step * dist.get_world_size(), "processes are at different steps"
        step, weights = step + 1, weights + 1
        time.sleep(0.05)
        run.report(step)
        note(f"step {{step}}")
        if step % {INTERVAL} == 0 or run.checkpoint.is_due:
            run.save(write, step=step, shards=True)
"""


class TorchTraining:
    """A job of two processes, in so many pods, that notes its steps beside its checkpoints."""

    def __init__(
        self, kubectl: Kubectl, namespace: str, *, name: str, image: str, pods: int
    ) -> None:
        self._kubectl = kubectl
        self._namespace = namespace
        self._name = name
        self._pods = pods
        self._folder = Path("/var/tmp") / f"{namespace}-{name}"
        self._begun = 0
        self._objects = self._manifest(image)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Create the job; delete it with its checkpoints at the end."""
        try:
            for each in self._objects:
                # A bundle is too large for the annotation of `kubectl apply`.
                self._kubectl("create", "--filename", "-", stdin=json.dumps(each))
            yield
        finally:
            self._kubectl(
                *("--namespace", self._namespace, "delete", "dijob", self._name),
                *("--ignore-not-found", "--cascade=foreground", "--timeout=300s"),
            )
            shutil.rmtree(self._folder, ignore_errors=True)

    def wait_for_steps(self) -> int:
        """Wait until the group that began last has saved; return the step that it began at."""

        def found() -> list[tuple[str, int]]:
            steps = self._steps()
            begins = [at for at, (word, _) in enumerate(steps) if word == "begin"]
            assert len(begins) > self._begun, "no new group has begun"
            own = steps[begins[-1] :]
            assert len(own) > 2 * INTERVAL
            assert "checkpointStep" in (self.status().get("profilings") or {})
            return own

        own = wait_until(found, START_SECONDS, what=f"group {self._begun + 1} of {self._name}")
        self._begun = sum(word == "begin" for word, _ in self._steps())
        return own[0][1]

    def before(self) -> int:
        """Return the last step of the group before this one."""
        steps = self._steps()
        begins = [at for at, (word, _) in enumerate(steps) if word == "begin"]
        return steps[begins[-1] - 1][1]

    def status(self) -> dict[str, Any]:
        """Return the status of the job."""
        found: dict[str, Any] = self._kubectl.get("dijob", self._name, namespace=self._namespace)
        return found["status"]  # type: ignore[no-any-return]

    def kill(self, rank: int) -> None:
        """Kill a process of the group with SIGKILL."""
        pod, process = (self._folder / f"pid-{rank}").read_text().split()
        # The end of the pod may take this command along.
        with suppress(CommandFailed):
            self._kubectl(
                *("--namespace", self._namespace, "exec", pod, "--container", "di-container"),
                *("--", "sh", "-c", f"kill -9 {process}"),
            )

    def suspend_and_resume(self) -> None:
        """Suspend the job, wait until it has no pods, and resume it."""
        self._suspend("true")
        wait_until(
            lambda: not pods_of(self._kubectl, self._name, namespace=self._namespace),
            what=f"no pods of {self._name}",
        )
        self._suspend("false")

    def befall(self, turn: int) -> tuple[int, int]:
        """Kill the group and suspend it; return how many steps each has lost.

        Raises:
            AssertionError: a kill has lost more than an interval, or a suspension any step, or
                something but a kill counted as a restart.
        """
        self.kill(turn % PROCESSES)
        begun = self.wait_for_steps()
        lost = self.before() - begun
        assert 0 <= lost <= INTERVAL, f"{lost} steps lost by a kill"
        self.suspend_and_resume()
        begun = self.wait_for_steps()
        stopped = self.before() - begun
        assert stopped == 0, f"{stopped} steps lost by a suspension"
        restarts = self.status().get("restarts", 0)
        assert restarts == turn + 1, f"{restarts} restarts after {turn + 1} kills"
        return lost, stopped

    def _steps(self) -> list[tuple[str, int]]:
        path = self._folder / "steps"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(word, int(step)) for word, _, step in (line.partition(" ") for line in lines)]

    def _suspend(self, value: str) -> None:
        patch = f'{{"spec":{{"suspend":{value}}}}}'
        self._kubectl(
            *("--namespace", self._namespace, "patch", "dijob", self._name),
            *("--type=merge", "--patch", patch),
        )

    def _manifest(self, image: str) -> list[dict[str, Any]]:
        """As `di submit` makes it, with a process group and a folder of the node."""
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "train.py"
            program.write_text(PROGRAM)
            said = io.StringIO()
            words = ("--name", self._name, "--learners", str(self._pods), "--image", image)
            with contextlib.redirect_stdout(said):
                code = run(["submit", str(program), *words, "--dry-run", "client", "-o", "yaml"])
            assert code == ExitCode.DONE
        found = [each for each in yaml.safe_load_all(said.getvalue()) if each]
        for each in found:
            each["metadata"]["namespace"] = self._namespace
            if each["kind"] == "DIJob":
                self._change(each["spec"], image)
        return found

    def _change(self, spec: dict[str, Any], image: str) -> None:
        spec["backoffLimit"] = 99
        folder = {"path": str(self._folder), "type": "DirectoryOrCreate"}
        spec["volumes"] = [{"name": "saved", "hostPath": folder}]
        spec["checkpoint"] = {"volume": "saved"}
        (learner,) = spec["tasks"]
        learner["processGroup"] = {
            "framework": "torch",
            "processesPerReplica": PROCESSES // self._pods,
        }
        pod = learner["template"]["spec"]
        # A folder of the node belongs to root.
        pod["initContainers"] = [
            *pod.get("initContainers", []),
            {
                "name": "open",
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", 'chmod 777 "$DI_CHECKPOINT_DIR"'],
                "securityContext": {"runAsUser": 0},
            },
        ]
        (container,) = pod["containers"]
        container["imagePullPolicy"] = "IfNotPresent"
        container["command"] = ["python3", "-m", "torch.distributed.run", "train.py"]
        container["resources"] = {"requests": {"cpu": "10m"}}
