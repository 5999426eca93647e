#!/usr/bin/env python3
"""kubectl di, as krew installs it: the first time it makes an environment beside itself, for the
Python that runs it, out of the wheels and the lock that lie there; then it is the command.

A program of its own: it imports nothing but the standard library.
"""

import fcntl
import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
OLDEST = (3, 11, 2)


def main() -> None:
    """Be the command."""
    if sys.version_info < OLDEST:
        sys.exit("kubectl di: it needs Python 3.11.2 or newer, and python3 is older")
    environment = HERE / f"env-{sys.version_info.major}.{sys.version_info.minor}"
    command = environment / "bin" / "kubectl-di"
    if not (environment / ".ready").exists():
        with (HERE / ".lock").open("w") as lock:
            # Of two that begin at once the other one finds it ready.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (environment / ".ready").exists():
                install(environment)
    os.execv(command, [str(command), *sys.argv[1:]])


def install(environment: Path) -> None:
    """Make the environment; ends the program with what to do if that fails."""
    print("kubectl di: installing what it needs, once", file=sys.stderr)
    pip = [str(environment / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    wheels = sorted(str(file) for file in (HERE / "wheels").glob("*.whl"))
    try:
        venv.create(environment, clear=True, with_pip=True)
        lock = str(HERE / "requirements.lock")
        subprocess.run([*pip, "--only-binary", ":all:", "--require-hashes", "-r", lock], check=True)
        subprocess.run([*pip, "--no-deps", "--no-index", *wheels], check=True)
    except (subprocess.CalledProcessError, OSError) as error:
        sys.exit(f"kubectl di: {error}\n  try: again; it needs Python's venv, and pip its index")
    (environment / ".ready").touch()


if __name__ == "__main__":
    main()
