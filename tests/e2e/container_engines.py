"""Container engines of the distribution, with stores of their own, and `di run` in them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from di_cluster.builds.images import Image, ImageStore
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings
from tests.failures.sources import shown_log
from tests.waiting import START_SECONDS, wait_until
from tools.prepare.debian import DOCKER, PODMAN

SECONDS: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """How `di run` is called with an engine, and the image that is there."""

    name: str
    environ: Mapping[str, str]
    image: str

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
        return [sys.executable, "-m", "di_local", "run", "--engine", self.name, *words]

    def containers(self) -> list[str]:
        """The names of all containers, running or not."""
        return self.ask("ps", "--all", "--format", "{{.Names}}").split()

    def ask(self, *words: str) -> str:
        """What the engine itself says."""
        found = subprocess.run(
            [self.name, *words],
            env=dict(self.environ),
            capture_output=True,
            text=True,
            check=True,
            timeout=SECONDS,
        )
        return found.stdout


@contextmanager
def podman(folder: Path, image: Image) -> Iterator[Engine]:
    """Podman, which finds the images of the cache where they are."""
    environ = _environ(
        folder,
        CONTAINERS_CONF=str(folder / "containers.conf"),
        CONTAINERS_STORAGE_CONF=str(folder / "storage.conf"),
    )
    PODMAN.ensure()
    # A machine may forbid to raise limits, and have both hierarchies of control groups.
    Path(environ["CONTAINERS_CONF"]).write_text(
        '[containers]\ndefault_ulimits = []\n[engine]\nruntime = "runc"\n'
    )
    Path(environ["CONTAINERS_STORAGE_CONF"]).write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/store"\nrunroot = "{folder}/run"\n'
        f'[storage.options]\nadditionalimagestores = ["{_cache() / "store"}"]\n'
    )
    engine = Engine(name="podman", environ=environ, image=image.reference)
    try:
        yield engine
    finally:
        engine.ask("rm", "--all", "--force")


@contextmanager
def docker(folder: Path, image: Image) -> Iterator[Engine]:
    """A Docker daemon of its own, without a network of containers, which loads the image."""
    socket = f"unix://{folder}/docker.sock"
    DOCKER.ensure()
    engine = Engine(
        name="docker", environ=_environ(folder, DOCKER_HOST=socket), image=image.reference
    )
    log = folder / "dockerd.log"
    with log.open("wb") as output:
        daemon = subprocess.Popen(
            [
                *("dockerd", "--host", socket, "--pidfile", folder / "docker.pid"),
                *("--data-root", folder / "data", "--exec-root", folder / "exec"),
                *("--bridge", "none", "--iptables=false", "--ip6tables=false"),
            ],
            env=engine.environ,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        with shown_log(log):
            wait_until(
                lambda: _answers(engine), START_SECONDS, what=f"the Docker daemon, see {log}"
            )
            store = ImageStore(_cache(), reporter=Reporter(None))
            engine.ask("load", "--quiet", "--input", str(store.archive(image)))
            yield engine
        if left := engine.containers():
            engine.ask("rm", "--force", *left)
    finally:
        daemon.terminate()
        daemon.wait(SECONDS)
        # It leaves the network of its containers, this machine's own, mounted.
        # A file, of which pathlib does not tell.
        if os.path.ismount(network := folder / "exec/netns/default"):
            subprocess.run(["umount", network], check=True, timeout=SECONDS)


ENGINES: Final[Mapping[str, Callable[[Path, Image], AbstractContextManager[Engine]]]] = {
    "podman": podman,
    "docker": docker,
}


def _environ(folder: Path, **variables: str) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(folder / "state"), **variables}


def _cache() -> Path:
    return Settings.from_environment(os.environ).cache / "images"


def _answers(engine: Engine) -> bool:
    try:
        engine.ask("version")
    except subprocess.CalledProcessError:
        return False
    return True
