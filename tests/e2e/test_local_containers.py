"""`di run` in containers of real engines, podman and Docker of the distribution."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from di_cluster.builds.images import Image
from tests.e2e.container_engines import ENGINES, Engine
from tests.e2e.jobs import job, task
from tests.programs import Program
from tests.waiting import wait_until

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module", params=list(ENGINES))
def machine(
    request: pytest.FixtureRequest,
    images: Mapping[str, Image],
) -> Iterator[Engine]:
    """Runs of a machine with one of the engines and the image of di-server of this source tree."""
    # Short: a socket's path has a hundred characters.
    with (
        tempfile.TemporaryDirectory(prefix="di-engine-") as folder,
        ENGINES[request.param](Path(folder), images["server"]) as engine,
    ):
        yield engine


@pytest.mark.proves("local.md#in-containers/programs-are")
def test_a_program_runs_in_containers_of_an_image(machine: Engine, tmp_path: Path) -> None:
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
    assert f"in containers of {machine.name}" in found.stdout
    # The first process of its container, of the image's own Python.
    assert re.search(r"train-learner-0 +1 /\S+ False", found.stdout), found.stdout
    assert (tmp_path / "said").read_text() == "train-collector-0"
    assert (tmp_path / "said").stat().st_uid == os.geteuid()
    assert machine.containers() == []


def test_a_manifest_runs_in_its_own_images_with_volumes_and_handlers(
    machine: Engine, tmp_path: Path
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


@pytest.mark.proves("local.md#in-containers/a-container-without-a-command-runs")
def test_an_image_runs_what_it_says_itself(machine: Engine, tmp_path: Path) -> None:
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


def test_containers_of_a_run_that_is_killed_are_removed(machine: Engine, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(3600)\n")
    with Program(
        machine.command(["train.py", "--image", machine.image]),
        cwd=tmp_path,
        env=dict(machine.environ),
        stdout=subprocess.DEVNULL,
    ) as run:
        wait_until(machine.containers)
        run.send_signal(signal.SIGKILL)
    wait_until(lambda: not machine.containers())


def test_an_image_that_cannot_be_pulled_is_refused(machine: Engine, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    found = machine(tmp_path, "train.py", "--image", "127.0.0.1:1/none:1")
    assert found.returncode == 2
    words = f"refused: {machine.name} has no image 127.0.0.1:1/none:1 and cannot pull it"
    assert words in found.stdout
