"""Experiment trackers and Optuna in an environment of their own: each brings half of PyPI."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import Final

from di_cluster.commands import run
from di_cluster.settings import Settings
from di_cluster.workfolder import lock_file

PACKAGES: Final = (
    "mlflow==3.17.2",
    "optuna==5.0.0",
    "tensorboard==2.21.0",
    "tensorboardX==2.6.5",
    "wandb==0.31.0",
)
_SECONDS: Final = 900


def python() -> Path:
    """The Python of the environment; it is made if it is missing.

    Raises:
        ClusterError: the packages cannot be installed.
    """
    if not is_ready():
        make()
    return _folder() / "bin" / "python"


def is_ready() -> bool:
    """Whether nothing has to be installed."""
    return (_folder() / "ready").exists()


def make() -> None:
    """Install the packages.

    Raises:
        ClusterError: uv cannot install them.
    """
    folder = _folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with lock_file(folder.with_name(f".{folder.name}"), seconds=_SECONDS):
        if is_ready():
            return  # another process has made it while this one waited
        shutil.rmtree(folder, ignore_errors=True)
        uv = Path(sys.executable).with_name("uv")
        run([uv, "venv", "--quiet", "--python", sys.executable, folder], seconds=_SECONDS)
        to = ["--python", str(folder / "bin" / "python")]
        run([uv, "pip", "install", "--quiet", *to, *PACKAGES], seconds=_SECONDS)
        (folder / "ready").touch()


def _folder() -> Path:
    version = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    key = hashlib.sha256(" ".join((version, *PACKAGES)).encode()).hexdigest()[:12]
    return Settings.from_environment(os.environ).cache / "trackers" / key
