"""`di run` in containers of a real engine, podman of the distribution."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from di_cluster.images import Image
from di_cluster.settings import Settings
from tests.e2e.jobs import job, task
from tests.waiting import wait_until

SECONDS = 120


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, images: Mapping[str, Image]) -> Iterator[Run]:
    """Runs of a machine with podman, which finds the images of this source tree."""
    folder = tmp_path_factory.mktemp("podman")
    environ = {
        **os.environ,
        "DEBIAN_FRONTEND": "noninteractive",
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    _install(environ)
    # A machine may forbid to raise limits, and have both hierarchies of control groups.
    Path(environ["CONTAINERS_CONF"]).write_text(
        '[containers]\ndefault_ulimits = []\n[engine]\nruntime = "runc"\n'
    )
    store = Settings.from_environment(os.environ).cache / "images/store"
    Path(environ["CONTAINERS_STORAGE_CONF"]).write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/store"\nrunroot = "{folder}/run"\n'
        f'[storage.options]\nadditionalimagestores = ["{store}"]\n'
    )
    yield Run(environ, images["server"].reference)
    subprocess.run(
        ["podman", "rm", "--all", "--force"], env=environ, capture_output=True, check=True
    )


class Run:
    """How `di run` is called."""

    def __init__(self, environ: Mapping[str, str], image: str) -> None:
        self.environ = environ
        self.image = image

    def __call__(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(words),
            cwd=folder,
            env=dict(self.environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def command(self, words: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "di_local", "run", *words]

    def containers(self) -> list[str]:
        """The names of all containers, running or not."""
        words = ["podman", "ps", "--all", "--format", "{{.Names}}"]
        found = subprocess.run(
            words, env=dict(self.environ), capture_output=True, text=True, check=True
        )
        return found.stdout.split()


def test_a_program_runs_in_containers_of_an_image(machine: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, pathlib, socket, sys\n"
        "own = os.environ['DI_NODES'].split(',')\n"
        "if os.environ['DI_TASK_TYPE'] == 'learner':\n"
        "    with socket.create_server(('', 22270)) as server:\n"
        "        said = server.accept()[0].makefile().read()\n"
        "    pathlib.Path('said').write_text(said)\n"
        "    print(os.getpid(), sys.executable, 'DI_E2E_SECRET' in os.environ, flush=True)\n"
        "else:\n"
        "    while True:\n"
        "        try:\n"
        "            with socket.create_connection((own[0], 22270)) as there:\n"
        "                there.sendall(os.environ['HOSTNAME'].encode())\n"
        "            break\n"
        "        except ConnectionRefusedError:\n"
        "            pass\n"
    )
    found = machine(tmp_path, "train.py", "--collectors", "1", "--image", machine.image, "-f")
    assert found.returncode == 0, found.stdout
    assert "in containers of podman" in found.stdout
    # The first process of its container, of the image's own Python.
    assert re.search(r"train-learner-0 +1 /\S+ False", found.stdout), found.stdout
    assert (tmp_path / "said").read_text() == "train-collector-0"
    assert (tmp_path / "said").stat().st_uid == os.geteuid()
    assert machine.containers() == []


def test_a_manifest_runs_in_its_own_images_with_volumes_and_handlers(
    machine: Run, tmp_path: Path
) -> None:
    program = (
        "import os, pathlib\n"
        "print(pathlib.Path('/etc/job/words').read_text(), os.getcwd(), flush=True)\n"
        "pathlib.Path('/tmp/ready').touch()\n"
        "while not pathlib.Path('/shared/seen').exists(): pass\n"
        "pathlib.Path('/dev/termination-log').write_text('last words')\n"
        "raise SystemExit(3)\n"
    )
    learner = task("learner", image=machine.image, program=program)
    spec = learner["template"]["spec"]
    spec["volumes"] = [
        {"name": "words", "configMap": {"name": "words"}},
        {"name": "shared", "hostPath": {"path": str(tmp_path)}},
    ]
    container = spec["containers"][0]
    container["volumeMounts"] = [
        {"name": "words", "mountPath": "/etc/job"},
        {"name": "shared", "mountPath": "/shared"},
    ]
    container["workingDir"] = "/etc"
    # It can only succeed inside of the container.
    check = "import os, pathlib; os.stat('/tmp/ready'); pathlib.Path('/shared/seen').touch()"
    container["readinessProbe"] = {
        "exec": {"command": ["python3", "-c", check]},
        "periodSeconds": 1,
        "timeoutSeconds": 30,
    }
    words = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "words", "namespace": "default"},
        "data": {"words": "of the volume"},
    }
    manifest = job("own", namespace="default", tasks=[learner], backoffLimit=0)
    (tmp_path / "job.yaml").write_text(yaml.safe_dump_all([words, manifest]))
    found = machine(tmp_path, "job.yaml", "--containers")
    assert found.returncode == 1, found.stdout
    assert "of the volume /etc" in found.stdout
    assert "exit code 3" in found.stdout
    assert "last words" in found.stdout
    assert machine.containers() == []


def test_an_image_runs_what_it_says_itself(machine: Run, tmp_path: Path) -> None:
    learner = task("learner", image=machine.image, program="")
    container = learner["template"]["spec"]["containers"][0]
    del container["command"]
    container["args"] = ["--no-such-option"]
    manifest = job("entry", namespace="default", tasks=[learner], backoffLimit=0)
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(manifest))
    found = machine(tmp_path, "job.yaml", "--containers")
    assert found.returncode == 1, found.stdout
    # The entry point of di-server's image has refused it.
    assert "gunicorn" in found.stdout or "di-server" in found.stdout, found.stdout


def test_containers_of_a_run_that_is_killed_are_removed(machine: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(3600)\n")
    with subprocess.Popen(
        machine.command(["train.py", "--image", machine.image]),
        cwd=tmp_path,
        env=dict(machine.environ),
        stdout=subprocess.DEVNULL,
    ) as run:
        wait_until(machine.containers, SECONDS)
        run.send_signal(signal.SIGKILL)
    wait_until(lambda: not machine.containers(), SECONDS)


def test_an_image_that_cannot_be_pulled_is_refused(machine: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    found = machine(tmp_path, "train.py", "--image", "127.0.0.1:1/none:1")
    assert found.returncode == 2
    assert "refused: podman has no image 127.0.0.1:1/none:1 and cannot pull it" in found.stdout


def _install(environ: Mapping[str, str]) -> None:
    if shutil.which("podman") is not None:
        return
    for words in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "podman", "runc"],
    ):
        subprocess.run(words, env=dict(environ), capture_output=True, check=True)
