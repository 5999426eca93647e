"""Which Python an environment gets."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

BOOTSTRAP: Final = Path(__file__).resolve().parents[2] / "bootstrap"
_TOOLS = ("bash", "chmod", "cp", "dirname", "env", "grep", "id", "mkdir", "rm", "sed", "sh", "sort")
_PYTHON: Final = """\
#!/bin/sh
case "$*" in
  *python_version*) echo {version} ;;
  *ensurepip*) exit {no_venv:d} ;;
  "-m venv "*)
    mkdir -p "$3/bin" && : >"$3/pyvenv.cfg"
    cp "$0" "$3/bin/python" && cp "$0" "$3/bin/pip" ;;
esac
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class Machine:
    """A PATH with nothing but a few tools, and the Pythons that a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = folder / "venv"
        tools = folder / "tools"
        tools.mkdir()
        for name in _TOOLS:
            found = shutil.which(name)
            assert found, name
            (tools / name).symlink_to(found)
        program(tools / "sudo", '#!/bin/sh\nexec "$@"\n')

    def python(self, path: str, version: str, *, no_venv: bool = False) -> None:
        program(self.folder / path, _PYTHON.format(version=version, no_venv=no_venv))

    def make(self, role: str, code: int = 0, **variables: str) -> str:
        """Run bootstrap; returns its output, of both kinds."""
        done = subprocess.run(
            [BOOTSTRAP, self.environment, role],
            env={"PATH": f"{self.folder}/bin{os.pathsep}{self.folder}/tools", **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def made(self, version: str, note: str = "") -> str:
        return f"making {self.environment} with Python {version}{note}\n"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


NOT_NEWEST = " (the published images run 3.13; this machine has none with venv)"
NOT_OLDEST = " (the oldest that is promised is 3.11.2; this machine has none with venv)"


@pytest.mark.parametrize(
    ("there", "newest", "oldest"),
    [
        (["3.13.4"], "3.13.4", "3.13.4"),
        (["3.11.2", "3.12.1", "3.13.0", "3.14.0"], "3.13.0", "3.11.2"),
        (["3.11.2"], "3.11.2", "3.11.2"),
        (["3.11.7", "3.12.1", "3.14.0"], "3.12.1", "3.11.7"),
        (["3.10.13", "3.14.1"], "3.14.1", "3.14.1"),
        (["3.9.18", "3.11.1", "3.11.10"], "3.11.10", "3.11.10"),
    ],
    ids=", ".join,
)
def test_an_environment_gets_the_closest_promised_version(
    machine: Machine, there: list[str], newest: str, oldest: str
) -> None:
    for version in there:
        machine.python(f"bin/python{version.rpartition('.')[0]}", version)
    note = "" if newest.startswith("3.13.") else NOT_NEWEST
    assert machine.make("newest") == machine.made(newest, note)
    shutil.rmtree(machine.environment)
    note = "" if oldest == "3.11.2" else NOT_OLDEST
    assert machine.make("oldest") == machine.made(oldest, note)


def test_unusable_pythons_are_passed_over_for_those_of_pyenv(machine: Machine) -> None:
    program(machine.folder / "bin/python3.13", "#!/bin/sh\nexit 127\n")
    machine.python("bin/python3.12", "3.12.1", no_venv=True)
    machine.python("bin/python3", "3.11.7")
    assert machine.make("newest") == machine.made("3.11.7", NOT_NEWEST)
    shutil.rmtree(machine.environment)
    program(machine.folder / "bin/pyenv", f"#!/bin/sh\necho {machine.folder}/pyenv\n")
    machine.python("pyenv/versions/3.13.0/bin/python3", "3.13.0")
    assert machine.make("newest") == machine.made("3.13.0")


def test_an_environment_is_replaced_when_its_python_is_another_or_gone(machine: Machine) -> None:
    machine.python("bin/python3.12", "3.12.1")
    machine.make("newest")
    (machine.environment / ".ready").touch()
    assert machine.make("newest") == ""
    assert (machine.environment / ".ready").exists()
    machine.python("bin/python3.13", "3.13.0")
    assert machine.make("newest") == (
        f"replacing {machine.environment} with Python 3.12.1\n" + machine.made("3.13.0")
    )
    assert not (machine.environment / ".ready").exists()
    (machine.environment / "bin/python").unlink()
    assert machine.make("newest").endswith(machine.made("3.13.0"))


def test_a_folder_that_is_no_environment_is_not_removed(machine: Machine) -> None:
    machine.python("bin/python3.13", "3.13.0")
    machine.environment.mkdir()
    (machine.environment / "kept").touch()
    machine.make("newest")
    assert (machine.environment / "kept").exists()


def test_python_by_hand_is_for_the_newest_only_and_not_too_old(machine: Machine) -> None:
    machine.python("bin/python3.11", "3.11.2")
    machine.python("bin/python3.13", "3.13.0")
    machine.python("own/python", "3.12.1")
    own = f"{machine.folder}/own/python"
    chosen = " (the published images run 3.13; PYTHON chose this one)"
    assert machine.make("newest", PYTHON=own) == machine.made("3.12.1", chosen)
    shutil.rmtree(machine.environment)
    assert machine.make("oldest", PYTHON=own) == machine.made("3.11.2")
    shutil.rmtree(machine.environment)
    machine.python("own/python", "3.11.1")
    refused = f"PYTHON={own}: it does not run, is older than 3.11.2, or has no venv\n"
    assert machine.make("newest", code=1, PYTHON=own) == refused


def test_a_machine_without_python_or_apt_gets_a_message(machine: Machine) -> None:
    machine.python("bin/python3", "3.10.13")
    for role in ("newest", "oldest"):
        assert machine.make(role, code=1) == (
            "Python 3.11.2 or newer with venv is needed; install it with your package manager.\n"
        )


def debian(machine: Machine, candidate: str) -> None:
    """A machine whose apt has this version, as `python3` and by its full name."""
    machine.python("offered", candidate.partition("-")[0])
    program(
        machine.folder / "bin/apt-get",
        f"#!/bin/sh\n[ $1 = update ] || cp {machine.folder}/offered {machine.folder}/bin/python3\n",
    )
    program(
        machine.folder / "bin/apt-cache",
        # More than a pipe holds, as the real one may find its reader gone.
        f"#!/bin/sh\necho 'python:'; echo '  Candidate: {candidate}'\n"
        "for a in 1 2 3 4 5 6 7 8 9; do echo '  Version table:' \"$(printf %9999s)\"; done\n",
    )


def test_debian_installs_the_oldest_promised_version_beside_another(machine: Machine) -> None:
    debian(machine, "3.11.2-6+deb12u6")
    machine.python("bin/python3.13", "3.13.0")
    assert machine.make("newest") == machine.made("3.13.0")
    shutil.rmtree(machine.environment)
    assert machine.make("oldest") == (
        "installing python3.11 python3.11-venv\n" + machine.made("3.11.2")
    )


def test_a_later_debian_installs_a_python_only_where_none_is_usable(machine: Machine) -> None:
    debian(machine, "3.12.3-1")
    machine.python("bin/python3.13", "3.13.0")
    assert machine.make("oldest") == machine.made("3.13.0", NOT_OLDEST)
    shutil.rmtree(machine.environment)
    (machine.folder / "bin/python3.13").unlink()
    machine.python("bin/python3", "3.12.3", no_venv=True)
    assert machine.make("newest") == (
        "installing python3 python3-venv\n" + machine.made("3.12.3", NOT_NEWEST)
    )
