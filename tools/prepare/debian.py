"""Programs of Debian packages that tests run."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from di_cluster.builds.packages import install
from di_cluster.preflight import require_root


@dataclass(frozen=True, slots=True, kw_only=True)
class Packages:
    """Packages that bring programs.

    Attributes:
        programs: names that are looked for in PATH, and patterns of paths; the packages are
            installed if one of the programs is missing.
        names: the packages.
    """

    programs: tuple[str, ...]
    names: tuple[str, ...]

    def found(self) -> list[Path]:
        """The installed programs, in their order; empty if one is missing."""
        found = [_found(program) for program in self.programs]
        return [path for paths in found for path in paths] if all(found) else []

    def ensure(self) -> None:
        """Install the packages if they are missing.

        Raises:
            ClusterError: this process is not root, or apt-get fails.
        """
        ensure([self])


# The width of texts on the page depends on the font.
CHROMIUM: Final = Packages(
    programs=("/usr/bin/chromium", "/usr/bin/chromedriver"),
    names=("chromium", "chromium-driver", "fonts-dejavu-core"),
)
POSTGRES: Final = Packages(programs=("/usr/lib/postgresql/*/bin/initdb",), names=("postgresql",))
PODMAN: Final = Packages(programs=("podman", "runc"), names=("podman", "runc"))
DOCKER: Final = Packages(programs=("dockerd", "docker"), names=("docker.io",))


def ensure(wanted: Iterable[Packages]) -> None:
    """Install those of the packages that are missing, in one call of apt-get.

    Raises:
        ClusterError: this process is not root, or apt-get fails.
    """
    names = [name for each in wanted if not each.found() for name in each.names]
    if names:
        require_root()
        install(names)


def _found(program: str) -> list[Path]:
    if program.startswith("/"):
        return sorted(Path("/").glob(program[1:]))
    found = shutil.which(program)
    return [Path(found)] if found else []
