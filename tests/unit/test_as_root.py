"""Commands of the Makefile that need root, called by another user."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# It keeps the environment if asked to, but neither PATH nor HOME.
SUDO = """\
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/bin HOME=/root IS_ROOT=yes
if [ "$1" = --preserve-env ]; then shift; exec "$@"; fi
exec env -i PATH="$PATH" HOME="$HOME" IS_ROOT=yes "$@"
"""
PROGRAMS = {
    "sudo": SUDO,
    "id": '#!/bin/sh\n[ "$IS_ROOT" ] && echo 0 || echo 1000\n',
    "stat": "#!/bin/sh\necho $OWNER\n",
    "find": '#!/bin/sh\necho find "$@"\n',
}


def run(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command as the user of an unusual environment, in a repository of its own."""
    for name, text in PROGRAMS.items():
        program = folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    (folder / "tools").mkdir()
    shutil.copy(ROOT / "tools/as-root", folder / "tools/as-root")
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return subprocess.run(
        ["tools/as-root", *command],
        cwd=folder,
        env={"PATH": path, "HOME": "/home/ada", **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )


def test_root_has_the_environment_of_the_user(tmp_path: Path) -> None:
    variables = {"CLUSTER": "current", "KUBECONFIG": "/a b", "ANY_OTHER": "1", "OWNER": "0:0"}
    shown = run(tmp_path, "env", **variables).stdout.splitlines()
    assert {*shown} >= {f"{name}={value}" for name, value in variables.items()}
    assert {"HOME=/home/ada", "IS_ROOT=yes"} <= {*shown}
    assert f"PATH={tmp_path / 'bin'}:{os.environ['PATH']}" in shown


@pytest.mark.parametrize("code", [0, 3])
def test_what_root_wrote_belongs_to_the_owner_of_the_repository(code: int, tmp_path: Path) -> None:
    done = run(tmp_path, "sh", "-c", f"exit {code}", OWNER="1000:1001")
    assert done.returncode == code
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"find {tmp_path}/tools/.. -xdev -user 0 ")
    assert line.endswith("chown --no-dereference 1000:1001 {} +")


def test_a_repository_of_root_stays_so(tmp_path: Path) -> None:
    done = run(tmp_path, "true", OWNER="0:0", IS_ROOT="yes")
    assert (done.returncode, done.stdout) == (0, "")


def test_every_command_as_root_goes_the_same_way() -> None:
    texts = [(ROOT / name).read_text() for name in ("Makefile", "verify-generated")]
    assert [line for text in texts for line in text.splitlines() if "sudo " in line] == []
