"""Installation of our packages from this clone, in an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


def environment(folder: Path) -> Path:
    """The Python of a new environment that has all third-party packages of this one."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python3*/site-packages")
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if not each.name.startswith(("di_", "_di_", "__editable__")) and each.suffix != ".pth":
            if each.suffix == ".dist-info":
                shutil.copytree(each, packages / each.name)  # uv overlooks links
            else:
                (packages / each.name).symlink_to(each)
    return folder / "bin/python"


def run(home: Path, *command: str | Path, folder: Path = ROOT, **variables: str) -> str:
    """Run a command without the settings of this machine, by default in the clone."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "UV_"))}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**kept, "HOME": str(home), "PIP_CONFIG_FILE": os.devnull, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
