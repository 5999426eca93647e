"""Environments of their own for packages that bring half of PyPI."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from di_cluster.commands import run
from di_cluster.settings import Settings
from di_cluster.workfolder import lock_file

_SECONDS: Final = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Packages at their versions, for the Python that runs this; made once for all checkouts.

    Attributes:
        name: of its folder in the cache.
        options: further options of `uv pip install`.
    """

    name: str
    packages: tuple[str, ...]
    options: tuple[str, ...] = ()

    def python(self) -> Path:
        """Return its Python; the environment is made if it is missing.

        Raises:
            ClusterError: uv cannot install the packages.
        """
        self.make()
        return self._python

    def is_ready(self) -> bool:
        """Whether nothing has to be installed."""
        return (self._folder / "ready").exists()

    def make(self) -> None:
        """Install the packages, if that was not done.

        Raises:
            ClusterError: uv cannot install them.
        """
        if self.is_ready():
            return
        folder = self._folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with lock_file(folder.with_name(f".{folder.name}"), seconds=_SECONDS):
            if self.is_ready():
                return  # another process has made it while this one waited
            shutil.rmtree(folder, ignore_errors=True)
            uv = Path(sys.executable).with_name("uv")
            run([uv, "venv", "--quiet", "--python", sys.executable, folder], seconds=_SECONDS)
            to = ["--python", str(self._python), *self.options]
            run([uv, "pip", "install", "--quiet", *to, *self.packages], seconds=_SECONDS)
            (folder / "ready").touch()

    @property
    def _python(self) -> Path:
        return self._folder / "bin" / "python3"

    @property
    def _folder(self) -> Path:
        version = ".".join(map(str, sys.version_info[:3]))
        key = hashlib.sha256(" ".join((version, *self.packages)).encode()).hexdigest()[:12]
        return Settings.from_environment(os.environ).cache / self.name / key


TRACKERS: Final = Environment(
    name="trackers",
    packages=(
        "mlflow==3.17.2",
        "optuna==5.0.0",
        "tensorboard==2.21.0",
        "tensorboardX==2.6.5",
        "wandb==0.31.0",
    ),
)
"""Experiment trackers, and Optuna."""

RL_LIBRARIES: Final = Environment(
    name="rl-libraries",
    packages=(
        "ray[rllib]==2.60.0",
        "requests==2.34.2",  # of di_orchestrator
        "stable-baselines3==2.9.2",
        "tensorboard==2.21.0",
        "torch==2.15.0",
        "transformers==5.24.0",
        "trl==1.16.0",
    ),
    options=("--only-binary", ":all:"),
)
"""Stable-Baselines3, TRL and RLlib. Their PyTorch is that of PyPI, which brings CUDA. With
UV_TORCH_BACKEND=cpu uv takes the smaller one of download.pytorch.org.
"""

DI_ENGINE: Final = Environment(
    name="di-engine", packages=("DI-engine==0.5.3",), options=("--no-deps",)
)
"""The files of DI-engine, without what they import."""
