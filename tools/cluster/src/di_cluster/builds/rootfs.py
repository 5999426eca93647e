"""A Debian root file system with Python, from the machine's own package sources.

For machines that reach no image registry. apt resolves the packages against an empty system, and
they are unpacked without running their installation scripts; what those would have done and a
Python program needs is done here.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from di_cluster.commands import run
from di_cluster.errors import ClusterError, CommandFailed

PACKAGES = (
    *("base-files", "base-passwd", "bash", "dash", "coreutils", "libc-bin", "sed", "grep"),
    *("findutils", "tar", "gzip", "mawk", "util-linux", "hostname", "netbase", "tzdata"),
    *("ca-certificates", "libgcc-s1", "libstdc++6", "procps"),
    *("python3", "python3-venv", "python3-pip"),
)
_MERGED = ("bin", "sbin", "lib", "lib64")
# Documentation, headers and static libraries are dead weight in an image.
_EXCLUDED = (
    *("./usr/include/*", "./usr/lib/gcc/*", "*.a", "./usr/share/doc/*", "./usr/share/man/*"),
    *("./usr/share/locale/*", "./usr/share/info/*", "./usr/share/lintian/*"),
    "./usr/share/bash-completion/*",
    # Perl's library, a third of the whole, comes along for installation scripts that never run
    # here; the interpreter and the modules of perl-base stay.
    *("./usr/lib/*/perl/*", "./usr/share/perl/*", "./usr/share/perl5/*", "*/libperl.so*"),
)
_LINKS = {
    "usr/bin/sh": "dash",
    "usr/bin/awk": "mawk",
    "usr/bin/python": "python3",
}
# Else every process compiles anew what it imports of Python's library: half a second of a
# processor, which takes a container with a tenth of one five.
_COMPILE = (
    *("python3", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"),
    *("-x", "/(test|tests|idlelib|lib2to3)/"),
)
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_SECONDS = 900
# Debian policy 5.6.1. Nothing that apt-get would take for an option or a version gets through.
_PACKAGE_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")


def parse_packages(text: str) -> tuple[str, ...]:
    """The names in a list of Debian packages, one a line, sorted; "#" starts a comment.

    Raises:
        ClusterError: a line is not the name of a package; the message has its number.
    """
    names = set()
    for number, line in enumerate(text.splitlines(), start=1):
        name = line.partition("#")[0].strip()
        if name and not _PACKAGE_NAME.fullmatch(name):
            raise ClusterError(f"line {number}: {name!r} is not the name of a Debian package")
        names.add(name)
    return tuple(sorted(names - {""}))


def recipe(extra_packages: Sequence[str] = ()) -> str:
    """Short digest of what goes into the file system; another recipe is another base image."""
    parts = ((*PACKAGES, *extra_packages), _MERGED, _EXCLUDED, sorted(_LINKS.items()), _COMPILE)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]


def build_rootfs(output: Path, *, downloads: Path, extra_packages: Sequence[str] = ()) -> None:
    """Write the root file system as a tar.

    Args:
        output: the tar file.
        downloads: folder where the .deb files are kept for the next time.
        extra_packages: further Debian packages.

    Raises:
        ClusterError: a package cannot be found or downloaded.
    """
    packages = [*PACKAGES, *extra_packages]
    try:
        archives = _download(packages, downloads.resolve())
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=output.parent, prefix=".rootfs-") as folder:
            root = Path(folder)
            root.chmod(0o755)
            _unpack(archives, root)
            _finish(root)
            _pack(root, output)
    except CommandFailed as error:
        raise ClusterError(f"the base image cannot be made\n{error}") from error


def _download(packages: Sequence[str], folder: Path) -> list[Path]:
    """Fetch the closure of the packages; returns their files in order of installation."""
    (folder / "partial").mkdir(parents=True, exist_ok=True)
    empty = folder / "status"
    empty.write_text("")
    apt = [
        "apt-get",
        # Absolute paths: apt takes a relative one below /var/cache/apt.
        *("-o", f"Dir::State::status={empty}"),
        *("-o", f"Dir::Cache::archives={folder}"),
        *("-o", "APT::Install-Recommends=false"),
        *("-o", "APT::Sandbox::User=root"),
        *("-o", "Debug::NoLocking=1"),
    ]
    download = [*apt, "-qq", "-y", "--download-only", "install", *packages]
    try:
        run(download, seconds=_SECONDS)
    except CommandFailed:
        run(["apt-get", "-qq", "update"], seconds=300)  # the lists are missing or too old
        run(download, seconds=_SECONDS)
    plan = run([*apt, "-s", "install", *packages], seconds=120)
    archives = []
    for line in plan.splitlines():
        if line.startswith("Inst "):
            words = line.split()
            name, version = words[1].split(":")[0], words[2].strip("()[]")
            found = sorted(folder.glob(f"{name}_{version.replace(':', '%3a')}_*.deb"))
            if not found:
                raise ClusterError(f"apt-get downloaded no file for {name} {version}")
            archives.append(found[0])
    return archives


def _unpack(archives: Sequence[Path], root: Path) -> None:
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    excluded = [f"--exclude={pattern}" for pattern in _EXCLUDED]
    for archive in archives:
        extract = ["tar", "-x", "-C", str(root), "--keep-directory-symlink", *excluded]
        with subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE
        ) as unpacking:
            done = subprocess.run(
                extract,
                stdin=unpacking.stdout,
                check=False,
                timeout=_SECONDS,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        if done.returncode != 0 or unpacking.returncode != 0:
            raise ClusterError(f"{archive} cannot be unpacked: {done.stdout}")


def _finish(root: Path) -> None:
    """Do what installation scripts would have done."""
    master = root / "usr/share/base-passwd"
    shutil.copyfile(master / "passwd.master", root / "etc/passwd")
    shutil.copyfile(master / "group.master", root / "etc/group")
    shadow = root / "etc/shadow"
    shadow.touch()
    shadow.chmod(0o600)
    # The machine's own authorities: behind a company's proxy Debian's alone would make every
    # download in a build fail with "self-signed certificate in certificate chain".
    certificates = root / "etc/ssl/certs"
    certificates.mkdir(parents=True, exist_ok=True)
    if _AUTHORITIES.is_file():
        shutil.copyfile(_AUTHORITIES, certificates / _AUTHORITIES.name)
    for link, target in _LINKS.items():
        (root / link).unlink(missing_ok=True)
        (root / link).symlink_to(target)
    for name in ("tmp", "proc", "sys", "dev", "run", "root"):
        (root / name).mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        marker.unlink()  # an image has no other user of its Python
    for library in root.glob("usr/lib/*/openblas-pthread"):
        # Its alternative for libblas.so.3 was never chosen.
        settings = root / "etc/ld.so.conf.d/openblas.conf"
        settings.write_text(f"/{library.relative_to(root)}\n")
    run(["ldconfig", "-r", root], seconds=120)
    for library in root.glob("usr/lib/python3.*"):
        run(["chroot", root, *_COMPILE, f"/{library.relative_to(root)}"], seconds=120)
    shutil.rmtree(root / "var/cache", ignore_errors=True)
    (root / "var/cache").mkdir(parents=True)


def _pack(root: Path, output: Path) -> None:
    run(
        [
            *("tar", "-c", "-C", root, "--sort=name", "--mtime=@0"),
            *("--owner=0", "--group=0", "--numeric-owner", "-f", output, "."),
        ],
        seconds=_SECONDS,
    )
