"""The program that unpacks `spec.code` in a pod; see docs/how-to/own-code.md.

It runs in the task's image, in an init container, or before the program in the program's container.
Its arguments are the command of the program then. It needs Python 3.8 or newer, and imports only
the standard library.

It reads a tar archive that gzip has compressed, checks its hash, and writes its files below one
directory. A bundle is untrusted: no file is written before every member has been checked, and any
fault refuses the whole bundle. A file exists with its whole content or not at all.

The uncompressed archive is a file of the directory meanwhile: memory does not grow with a bundle,
and another client of its volume cannot change what has been checked.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import unicodedata
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:  # The import of typing takes time in each pod.
    from collections.abc import Iterable, Iterator, Mapping
    from typing import BinaryIO

    Member = tuple[str, int, int, bool]

BUNDLE = "DI_CODE_BUNDLE"
"""Variable with the path of the bundle."""
SHA256 = "DI_CODE_SHA256"
"""Variable with the hash of the uncompressed bundle."""
DIRECTORY = "DI_CODE_DIRECTORY"
"""Variable with the directory to write to, which exists."""
REQUIREMENTS = "DI_CODE_REQUIREMENTS"
"""Variable with the file of requirements, relative to the directory; absent: none."""
COUNT = "DI_CODE_PARTS"
"""Variable with the number of files that have the bundle, one after another; absent: one."""
CACHE = "PIP_CACHE_DIR"
"""Variable of pip with the directory of its cache; absent: no cache."""
UV_CACHE = "UV_CACHE_DIR"
"""The same of uv."""
REPORT = "DI_CODE_REPORT"
"""Variable with the file that gets the reason of a refusal; absent: the kubelet's default."""
VARIABLES = (BUNDLE, SHA256, DIRECTORY, REQUIREMENTS, COUNT, REPORT)
"""Variables that are for this program alone."""
TERMINATION_LOG = "/dev/termination-log"
PACKAGES = ".di-packages"
"""Directory of Python packages, below the directory of the code."""
FALLBACK = ".di-fallback"
"""Directory of Python packages that pods use only if the image and the requirements lack them."""
PARTS = ".di-part"
"""Directory of files that are not yet whole, below the directory of the code."""

MOST_PARTS = 12
MOST_PACKED = 100 << 20
"""Bytes of a bundle."""
MOST_BYTES = 256 << 20
"""Bytes of an uncompressed bundle."""
CHUNK = 1 << 14
"""Compressed bytes that are read at once; they have at most some thousand times as many
uncompressed ones."""
MOST_FILES = 10_000
LONGEST_NAME = 1_024
LONGEST_PART = 255
"""Bytes of a path, and of a name in it."""
EXECUTABLE = 0o100
NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit codes of a shell for a command that it cannot start."""


class BadBundle(Exception):
    """A bundle that is refused."""


def main() -> int:
    """Unpack the bundle that the variables name, then become the command in the arguments; without
    one return the exit code.
    """
    command = sys.argv[1:]
    if command:
        # The kernel ignores SIGTERM for process 1 without a handler, and the program would start
        # although its pod is ending. `exec` resets the handler.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        directory = os.environ[DIRECTORY]
        packed = chunks(os.environ[BUNDLE], int(os.environ.get(COUNT, "1")))
        count = unpack(packed, os.environ[SHA256], directory)
        install(directory, os.environ.get(REQUIREMENTS, ""))
        complete(directory)
    except (BadBundle, OSError) as error:
        return _failed(f"code not unpacked: {error}")
    except subprocess.CalledProcessError as error:
        name = "uv" if os.path.basename(error.cmd[0]) == "uv" else "pip"
        return _failed(
            f"requirements not installed: {name} ended with exit code {error.returncode}"
        )
    if command:
        return replace_process(command, os.environ)
    print(f"di-code: {count} files in {directory}", flush=True)
    return 0


def replace_process(command: list[str], environment: Mapping[str, str]) -> int:
    """Become a command, without the variables of this program; return an exit code only if it
    cannot be started.
    """
    others = {name: value for name, value in environment.items() if name not in VARIABLES}
    try:
        os.execvpe(command[0], command, others)
    except OSError as error:
        _failed(f"cannot start {shown(command[0])}: {error.strerror}")
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE


def chunks(path: str, parts: int) -> Iterator[bytes]:
    """Yield the bytes of a bundle in a file and those with `.2`, `.3` and so on behind its name.

    Raises:
        BadBundle: it is too long, or has too many parts.
        OSError: a file cannot be read.
    """
    if parts > MOST_PARTS:
        raise BadBundle(f"it has more than {MOST_PARTS} parts")
    for number in range(1, parts + 1):
        with open(path if number == 1 else f"{path}.{number}", "rb") as opened:
            yield from iter(lambda: opened.read(CHUNK), b"")


def unpack(packed: Iterable[bytes], sha256: str, directory: str) -> int:
    """Write the files of a bundle below a directory; return their number.

    Raises:
        BadBundle: the bundle is refused, and no file was written.
        OSError: a file cannot be written.
    """
    parts = os.path.join(directory, PARTS)
    shutil.rmtree(parts, ignore_errors=True)
    os.makedirs(parts)
    try:
        with open(os.path.join(parts, "archive"), "w+b") as plain:
            found = unpacked(packed, plain)
            if found != sha256:
                raise BadBundle(f"its SHA-256 is {found}, and spec.code.sha256 is {sha256}")
            files = members(plain)
            made = {directory}
            for number, (name, place, size, is_executable) in enumerate(needed(files)):
                part = os.path.join(parts, str(number))
                with open(part, "wb") as opened:
                    copy(plain, place, size, opened)
                os.chmod(part, 0o755 if is_executable else 0o644)
                target = os.path.join(directory, *name.split("/"))
                above = os.path.dirname(target)
                if above not in made:
                    os.makedirs(above, exist_ok=True)
                    made.add(above)
                os.replace(part, target)
    finally:
        shutil.rmtree(parts)
    return len(files)


def unpacked(packed: Iterable[bytes], plain: BinaryIO) -> str:
    """Write the tar archive in a bundle to a file; return its SHA-256. Raises BadBundle."""
    reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
    digest, length, size = hashlib.sha256(), 0, 0
    try:
        for chunk in packed:
            length += len(chunk)
            if length > MOST_PACKED:
                raise BadBundle(f"it has more than {MOST_PACKED} bytes")
            if reader.eof:
                raise BadBundle("it has data after its end")
            found = reader.decompress(chunk, MOST_BYTES + 1 - size)
            size += len(found)
            if size > MOST_BYTES:
                raise BadBundle(f"it has more than {MOST_BYTES} bytes when uncompressed")
            digest.update(found)
            plain.write(found)
    except zlib.error as error:
        raise BadBundle(f"it is not compressed by gzip: {error}") from error
    if not reader.eof:
        raise BadBundle("its end is missing")
    if reader.unused_data:
        raise BadBundle("it has data after its end")
    return digest.hexdigest()


def members(plain: BinaryIO) -> list[Member]:
    """Return the files of a tar archive: path, place and size of the content, and whether it is
    executable.

    Raises BadBundle for a member other than a plain file with its own place.
    """
    found: list[Member] = []
    places: dict[str, str] = {}
    end = plain.seek(0, os.SEEK_END)
    plain.seek(0)
    try:
        with tarfile.open(fileobj=plain, mode="r:") as archive:
            for member in archive:
                if len(found) >= MOST_FILES:
                    raise BadBundle(f"it has more than {MOST_FILES} files")
                if member.type != tarfile.REGTYPE or member.issparse():
                    raise BadBundle(f"{shown(member.name)} is no plain file")
                check_place(member.name, places)
                place, size = member.offset_data, member.size
                if size < 0 or place + size > end:
                    raise BadBundle(f"the end of {shown(member.name)} is missing")
                found.append((member.name, place, size, bool(member.mode & EXECUTABLE)))
    except (tarfile.TarError, ValueError, EOFError, OverflowError, RecursionError) as error:
        raise BadBundle(f"it is no tar archive: {error}") from error
    if not found:
        raise BadBundle("it has no files")
    return found


def needed(files: list[Member]) -> list[Member]:
    """Return the files without the fallback packages that the image has.

    Their files would be most of a small bundle, and the creation of a file takes most of the time.
    """
    found: dict[str, bool] = {}

    def is_needed(name: str) -> bool:
        first, _, rest = name.partition("/")
        package = rest.partition("/")[0]
        if first != FALLBACK or not package:
            return True
        if package not in found:
            found[package] = is_known(package)
        return not found[package]

    return [each for each in files if is_needed(each[0])]


def is_known(package: str) -> bool:
    """Return whether Python finds a package, such as one of the image, or can never find it."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return True


def copy(plain: BinaryIO, place: int, size: int, target: BinaryIO) -> None:
    """Copy the content of a member of a tar archive to a file."""
    plain.seek(place)
    while size:
        content = plain.read(min(size, 1 << 20))
        if not content:
            raise BadBundle("its end is missing")
        target.write(content)
        size -= len(content)


def check_place(name: str, places: dict[str, str]) -> None:
    """Add the path of a file, and its directories with a slash at the end, to the known places.

    Raises BadBundle for a path that is unsafe, or equal to a known one except for its case.
    """
    fault = fault_of_name(name)
    if fault:
        raise BadBundle(f"{shown(name)} {fault}")
    parts = name.split("/")
    if parts[0] == PARTS:
        raise BadBundle(f"{shown(name)} is a place of this program")
    for depth in range(1, len(parts)):
        above = "/".join(parts[:depth])
        known = places.setdefault(folded(above), above + "/")
        if known != above + "/":
            raise BadBundle(f"{shown(name)} and {shown(known)} have one place")
    known = places.setdefault(folded(name), "")
    if known:
        raise BadBundle(f"{shown(name)} and {shown(known)} have one place")
    places[folded(name)] = name


def folded(name: str) -> str:
    """Return a path as a file system compares it that ignores case and Unicode forms."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def fault_of_name(name: str) -> str:
    """Return what is wrong with the path of a file; empty if nothing is."""
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        return "is not UTF-8"
    if len(encoded) > LONGEST_NAME:
        return f"is longer than {LONGEST_NAME} bytes"
    if any(ord(letter) < 32 or letter in "\\\x7f" for letter in name):
        return "has a backslash or a control character"
    for part in name.split("/"):
        if part in ("", ".", ".."):
            return "is absolute, or has an empty part, . or .."
        if len(part.encode()) > LONGEST_PART:
            return f"has a part longer than {LONGEST_PART} bytes"
    return ""


def install(directory: str, requirements: str) -> None:
    """Install a file of requirements beside the code; nothing if there is none.

    Raises subprocess.CalledProcessError.
    """
    if not requirements:
        return
    temporary = os.path.join(directory, PARTS)
    os.makedirs(temporary, exist_ok=True)
    command = [*installer(os.environ), "--target", os.path.join(directory, PACKAGES)]
    file = os.path.join(directory, *requirements.split("/"))
    environment = {**os.environ, "TMPDIR": temporary, "HOME": temporary}
    # The working directory is that of the file, for paths in it.
    subprocess.run([*command, "-r", file], check=True, env=environment, cwd=os.path.dirname(file))
    shutil.rmtree(temporary, ignore_errors=True)


def installer(environment: Mapping[str, str]) -> list[str]:
    """Return the command that installs packages: that of uv if the image has it and variables are
    for it alone, else that of pip.

    uv reads neither variables nor files of pip, so it would not use the index that they name.
    """
    uv = shutil.which("uv")
    is_for = {name.partition("_")[0] for name in environment if "_" in name}
    # The default place of a cache is in HOME, which ends with the pod.
    if uv and "UV" in is_for and "PIP" not in is_for:
        no_cache = [] if UV_CACHE in environment else ["--no-cache"]
        return [uv, "pip", "install", "--python", sys.executable, *no_cache]
    no_cache = [] if CACHE in environment else ["--no-cache-dir"]
    pip = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    return [*pip, *no_cache]


def complete(directory: str) -> None:
    """Add the fallback packages that Python does not find otherwise."""
    fallback = os.path.join(directory, FALLBACK)
    packages = os.path.join(directory, PACKAGES)
    if not os.path.isdir(fallback):
        return
    os.makedirs(packages, exist_ok=True)
    for name in sorted(os.listdir(fallback)):
        place = os.path.join(packages, name)
        if not os.path.exists(place) and not is_known(name):
            os.replace(os.path.join(fallback, name), place)
    shutil.rmtree(fallback)


def shown(name: str) -> str:
    """Return the name of a member as a message can show it."""
    text = ascii(name)
    return text if len(text) <= 100 else text[:100] + "..."


def _failed(message: str) -> int:
    print(f"di-code: {message}", file=sys.stderr, flush=True)
    try:
        with open(os.environ.get(REPORT, TERMINATION_LOG), "w", encoding="utf-8") as opened:
            opened.write(message)
    except OSError:
        pass
    return 1


if __name__ == "__main__":
    sys.exit(main())
