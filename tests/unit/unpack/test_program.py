"""The program of the init container: what it writes, and what it refuses."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import subprocess
import sys
import tarfile
import tracemalloc
from collections.abc import Iterator, Mapping
from pathlib import Path
from zipfile import ZipFile

import pytest

from di_unpack import program
from di_unpack.program import BadBundle, unpack
from tests.unit.unpack.archives import hostile, member, packed, tar

GOOD = tar(member("train.py", b"print(1)\n"), member("lib/run.sh", b"#!\n", mode=0o755))


def digest(plain: bytes) -> str:
    return hashlib.sha256(plain).hexdigest()


def refusal(plain: bytes, folder: Path) -> str:
    with pytest.raises(BadBundle) as refused:
        unpack([packed(plain)], digest(plain), str(folder))
    assert not list(folder.iterdir())
    return str(refused.value)


def test_the_files_are_written_with_their_content_and_mode(tmp_path: Path) -> None:
    assert unpack([packed(GOOD)], digest(GOOD), str(tmp_path)) == 2
    assert {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()} == {
        "train.py",
        "lib/run.sh",
    }
    assert (tmp_path / "train.py").read_bytes() == b"print(1)\n"
    assert not os.access(tmp_path / "train.py", os.X_OK)
    assert os.access(tmp_path / "lib/run.sh", os.X_OK)
    # A second start of the container writes the same.
    assert unpack([packed(GOOD)], digest(GOOD), str(tmp_path)) == 2


def test_a_bundle_with_another_hash_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadBundle, match=r"spec\.code\.sha256 is 0000"):
        unpack([packed(GOOD)], "0" * 64, str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_thousand_hostile_archives_write_nothing(tmp_path: Path) -> None:
    refused = [refusal(plain, tmp_path) for _, plain in hostile(1000)]
    assert len(refused) == 1000


@pytest.mark.proves("own-code.md#what-a-pod-does/uncompressed-bytes")
def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    bomb = packed(bytes(program.MOST_BYTES + 1))
    assert len(bomb) < program.MOST_PACKED
    with pytest.raises(BadBundle, match="when uncompressed"):
        unpack([bomb], "0" * 64, str(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.proves("own-code.md#what-a-pod-does/files")
def test_more_names_than_allowed_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tar(*(member(str(number), b"") for number in range(program.MOST_FILES + 1)))
    assert refusal(plain, tmp_path) == "it has more than 10000 files"
    # A million names in all: reading stops at the limit.
    monkeypatch.setattr(program, "MOST_BYTES", 1 << 30)
    header = tar(member("a", b""))[:512]
    seen: list[object] = []
    monkeypatch.setattr(program, "check_place", lambda *given: seen.append(given))
    with pytest.raises(BadBundle, match="more than 10000 files"):
        program.members(io.BytesIO(header * 1_000_000 + bytes(1024)))
    assert len(seen) == program.MOST_FILES


@pytest.mark.proves("own-code.md#what-a-pod-does/bytes-in-a-path-and-in-each-part-of-it")
def test_names_are_as_long_as_documented(tmp_path: Path) -> None:
    fits = "/".join(["a" * 255] * 3 + ["b" * 254, "c"])
    assert len(fits) == 1024
    assert program.fault_of_name(f"{fits}") == ""
    assert program.fault_of_name(f"{fits}c") == "is longer than 1024 bytes"
    assert program.fault_of_name("a" * 256) == "has a part longer than 255 bytes"


@pytest.mark.proves("own-code.md#what-a-pod-does/compressed-bytes")
@pytest.mark.parametrize(
    ("bundle", "what"),
    [
        (b"", "its end is missing"),
        (b"text", "not compressed by gzip"),
        (packed(GOOD)[:-9], "its end is missing"),
        (packed(GOOD) + b"more", "data after its end"),
        (packed(b"text"), "no tar archive"),
        (packed(bytes(10240)), "it has no files"),
        (packed(GOOD[:514]), "is missing|no tar archive"),
    ],
)
def test_damaged_bundles_are_refused(bundle: bytes, what: str) -> None:
    def read(size: int) -> None:
        plain = io.BytesIO()
        program.unpacked((bundle[at : at + size] for at in range(0, len(bundle), size)), plain)
        program.members(plain)

    for size in (1, len(bundle) + 1):  # Whatever the parts are in which it is read.
        with pytest.raises(BadBundle, match=what):
            read(size)


@pytest.mark.proves("own-code.md#what-a-pod-does/compressed-bytes")
def test_reading_ends_at_the_limit_of_compressed_bytes(tmp_path: Path) -> None:
    assert program.MOST_PACKED == 100 << 20
    # Blocks without content, of which a stream can have any number.
    empty = bytes([0, 0, 0, 255, 255])
    head, read = packed(GOOD)[:10], 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        yield head
        while True:
            read += 5 << 18
            yield empty * (1 << 18)

    with pytest.raises(BadBundle, match="more than 104857600 bytes"):
        unpack(endless(), "0" * 64, str(tmp_path))
    assert read <= program.MOST_PACKED + (5 << 18)
    assert not list(tmp_path.iterdir())


def test_the_memory_does_not_grow_with_the_bundle(tmp_path: Path) -> None:
    plain = tar(member("zeros.bin", bytes(48 << 20)), member("random.bin", os.urandom(4 << 20)))
    bundle = tmp_path / "bundle"
    bundle.write_bytes(packed(plain))
    expected = digest(plain)
    del plain
    (tmp_path / "code").mkdir()
    tracemalloc.start()
    unpack(program.chunks(str(bundle), 1), expected, str(tmp_path / "code"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (tmp_path / "code/zeros.bin").stat().st_size == 48 << 20
    # A chunk of compressed zeros is a thousand times as long.
    assert peak < 36 << 20


@pytest.mark.proves("own-code.md#what-a-pod-does/parts")
def test_a_bundle_of_several_parts_is_joined_in_their_order(tmp_path: Path) -> None:
    bundle, whole = str(tmp_path / "bundle"), packed(GOOD)
    for number, part in enumerate((whole[:7], whole[7:20], whole[20:]), start=1):
        Path(bundle if number == 1 else f"{bundle}.{number}").write_bytes(part)
    assert b"".join(program.chunks(bundle, 3)) == whole
    with pytest.raises(BadBundle, match="its end is missing"):
        program.unpacked(program.chunks(bundle, 2), io.BytesIO())
    with pytest.raises(OSError, match=r"bundle\.4"):
        list(program.chunks(bundle, 4))
    with pytest.raises(BadBundle, match="more than 12 parts"):
        list(program.chunks(bundle, 13))


def test_sparse_members_are_refused(tmp_path: Path) -> None:
    sparse = member("a", b"x", pax_headers={"GNU.sparse.size": "9", "GNU.sparse.major": "0"})
    old = member("a", b"", type=tarfile.GNUTYPE_SPARSE)
    for plain in (tar(sparse), tar(old)):
        assert "no plain file" in refusal(plain, tmp_path)


def test_the_text_alone_unpacks_and_reports_its_refusal(tmp_path: Path) -> None:
    bundle, target = tmp_path / "bundle", tmp_path / "code"
    bundle.write_bytes(packed(GOOD))
    target.mkdir()
    variables = {program.BUNDLE: str(bundle), program.DIRECTORY: str(target)}

    def run(sha256: str) -> tuple[int, str]:
        process = launched(tmp_path, {**variables, program.SHA256: sha256})
        output, _ = process.communicate()
        return process.returncode, output

    whole = packed(GOOD)
    bundle.write_bytes(whole[:9])
    (tmp_path / "bundle.2").write_bytes(whole[9:])
    variables[program.COUNT] = "2"
    assert run(digest(GOOD)) == (0, f"di-code: 2 files in {target}\n")
    code, _ = run("0" * 64)
    message = (tmp_path / "report").read_text()
    assert code == 1
    assert message.startswith(f"code not unpacked: its SHA-256 is {digest(GOOD)}")


def launched(folder: Path, variables: Mapping[str, str], *command: str) -> subprocess.Popen[str]:
    """The program as a process, whose message about a failure is in `report`."""
    text = Path(program.__file__).read_text("utf-8")
    return subprocess.Popen(
        [sys.executable, "-c", text, *command],
        env={**os.environ, program.REPORT: str(folder / "report"), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def started(folder: Path, *command: str, sha256: str | None = None) -> subprocess.Popen[str]:
    (folder / "bundle").write_bytes(packed(GOOD))
    (folder / "code").mkdir()
    variables = {
        program.BUNDLE: str(folder / "bundle"),
        program.SHA256: sha256 or digest(GOOD),
        program.DIRECTORY: str(folder / "code"),
    }
    return launched(folder, variables, *command)


def test_the_command_replaces_the_process_when_the_files_are_there(tmp_path: Path) -> None:
    shown = f"import os; print(os.getpid(), os.listdir({str(tmp_path / 'code')!r}), [*os.environ])"
    process = started(tmp_path, sys.executable, "-c", shown)
    output, _ = process.communicate()
    (line,) = output.splitlines()
    assert line.startswith(f"{process.pid} [")
    assert "train.py" in line
    assert not [name for name in program.VARIABLES if name in line]


def test_the_command_is_not_started_without_its_code(tmp_path: Path) -> None:
    process = started(tmp_path, "echo", "started", sha256="0" * 64)
    output, errors = process.communicate()
    assert (process.returncode, output) == (1, "")
    assert "spec.code.sha256 is 0000" in errors


@pytest.mark.parametrize(("mode", "code"), [(None, 127), (0o644, 126)])
def test_a_command_that_cannot_be_started_has_the_exit_code_of_a_shell(
    tmp_path: Path, mode: int | None, code: int
) -> None:
    place = tmp_path / "absent"
    if mode is not None:
        place.write_text("")
        place.chmod(mode)
    process = started(tmp_path, str(place))
    _, errors = process.communicate()
    assert (process.returncode, "cannot start" in errors) == (code, True)


def test_sigterm_ends_the_process_before_its_command_starts(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    variables = {program.BUNDLE: str(pipe), program.SHA256: "", program.DIRECTORY: str(tmp_path)}
    # As process 1 of a container it would ignore SIGTERM without a handler.
    process = launched(tmp_path, variables, "echo")
    with pipe.open("wb"):
        process.terminate()
        output, _ = process.communicate()
    assert (process.returncode, output) == (128 + signal.SIGTERM, "")


def test_requirements_are_installed_beside_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[list[str], str]] = []

    def run(command: list[str], *, check: bool, env: dict[str, str], cwd: str) -> None:
        assert check
        assert Path(env["TMPDIR"]).is_dir()
        ran.append((command, cwd))

    monkeypatch.setattr("subprocess.run", run)
    program.install(str(tmp_path), "")
    assert not ran
    program.install(str(tmp_path), "a/requirements.txt")
    ((command, folder),) = ran
    file = f"{tmp_path}/a/requirements.txt"
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    assert command[-4:] == ["--target", f"{tmp_path}/.di-packages", "-r", file]
    assert (folder, list(tmp_path.iterdir())) == (f"{tmp_path}/a", [])


@pytest.mark.parametrize("has_cache", [True, False], ids=["cache", "none"])
def test_pip_has_a_cache_only_where_a_variable_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_cache: bool
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr("subprocess.run", lambda command, **_: ran.append(command))
    monkeypatch.delenv("PIP_CACHE_DIR", raising=False)
    if has_cache:
        monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "cache"))
    program.install(str(tmp_path), "requirements.txt")
    assert ("--no-cache-dir" in ran[0]) is not has_cache


@pytest.mark.proves("own-code.md#uv-in-place-of-pip")
@pytest.mark.parametrize(
    ("variables", "is_there", "first"),
    [
        (("UV_CACHE_DIR",), True, "uv"),
        (("UV_DEFAULT_INDEX",), True, "uv"),
        (("UV_CACHE_DIR",), False, "python"),
        ((), True, "python"),
        (("UV_CACHE_DIR", "PIP_INDEX_URL"), True, "python"),
    ],
)
def test_uv_installs_if_the_image_has_it_and_variables_are_for_it_alone(
    monkeypatch: pytest.MonkeyPatch, variables: tuple[str, ...], is_there: bool, first: str
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}" if is_there else None)
    command = program.installer(dict.fromkeys(variables, "a"))
    assert Path(command[0]).name.startswith(first)
    assert ("--no-cache" in command) is (first == "uv" and "UV_CACHE_DIR" not in variables)


@pytest.mark.parametrize("name", ["pip", "uv"])
def test_packages_come_from_a_folder_of_the_bundle_without_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name == "uv":
        for variable in [each for each in os.environ if each.startswith("PIP_")]:
            monkeypatch.delenv(variable)
        monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
        assert Path(program.installer(os.environ)[0]).name == "uv"
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    about = "Metadata-Version: 2.1\nName: small\nVersion: 1\n"
    wheel = "Wheel-Version: 1.0\nGenerator: a\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with ZipFile(wheels / "small-1-py3-none-any.whl", "w") as archive:
        archive.writestr("small.py", "VALUE = 7\n")
        archive.writestr("small-1.dist-info/METADATA", about)
        archive.writestr("small-1.dist-info/WHEEL", wheel)
        archive.writestr("small-1.dist-info/RECORD", "")
    (tmp_path / "requirements.txt").write_text("--no-index\n--find-links wheels\nsmall\n")
    program.install(str(tmp_path), "requirements.txt")
    assert (tmp_path / ".di-packages" / "small.py").read_text() == "VALUE = 7\n"


def test_fallback_packages_are_used_only_where_python_has_none(tmp_path: Path) -> None:
    names = (".di-fallback/json/a.py", ".di-fallback/lacking/a.py", ".di-fallback/own/a.py")
    plain = tar(*(member(name, b"fallback") for name in names), member(".di-packages/own/a.py"))
    for _ in range(2):
        unpack([packed(plain)], digest(plain), str(tmp_path))
        assert not (tmp_path / ".di-fallback" / "json").exists()
        program.complete(str(tmp_path))
        found = {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*.py")}
        assert found == {".di-packages/lacking/a.py", ".di-packages/own/a.py"}
        assert (tmp_path / ".di-packages/own/a.py").read_bytes() == b"x"
    program.complete(str(tmp_path))


@pytest.mark.parametrize("name", ["__main__", ".a", "a.b"])
def test_a_fallback_that_is_no_package_is_left_out(tmp_path: Path, name: str) -> None:
    plain = tar(member(f".di-fallback/{name}/x.py", b""), member("train.py", b""))
    unpack([packed(plain)], digest(plain), str(tmp_path))
    program.complete(str(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["train.py"]


def test_requirements_that_pip_refuses_end_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "bundle"
    bundle.write_bytes(packed(GOOD))

    def run(command: list[str], **_: object) -> None:
        raise subprocess.CalledProcessError(3, command)

    monkeypatch.setattr("subprocess.run", run)
    monkeypatch.setenv("DI_CODE_REPORT", str(tmp_path / "report"))
    monkeypatch.setenv("DI_CODE_BUNDLE", str(bundle))
    monkeypatch.setenv("DI_CODE_SHA256", digest(GOOD))
    monkeypatch.setenv("DI_CODE_DIRECTORY", str(tmp_path / "code"))
    monkeypatch.setenv("DI_CODE_REQUIREMENTS", "requirements.txt")
    (tmp_path / "code").mkdir()
    assert program.main() == 1
    report = (tmp_path / "report").read_text()
    assert report == "requirements not installed: pip ended with exit code 3"
