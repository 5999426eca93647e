"""What an image is built of is known, so that it is not built of the same again."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from di_cluster.builds.fingerprint import fingerprint
from di_cluster.builds.images import ImageStore, Source, base_reference
from di_cluster.errors import ClusterError, CommandFailed
from di_cluster.reporter import Reporter
from di_cluster.workfolder import lock_file

DOCKERFILE = """\
# A comment.
ARG BASE_IMAGE=python:3.13-slim
FROM ${BASE_IMAGE} AS builder
# Another one.
COPY --chmod=755 app \\
  more.txt /app/
RUN compile /app \\
 && rm -r /tmp/x
FROM builder AS stripped
RUN strip /app
FROM ${BASE_IMAGE}
COPY --from=stripped /app /app
ENTRYPOINT ["app"]
"""
ARGUMENTS = {"BASE_IMAGE": "localhost/base:1"}


@pytest.fixture
def context(tmp_path: Path) -> Path:
    (tmp_path / "app" / "package").mkdir(parents=True)
    (tmp_path / "app" / "package" / "main.py").write_text("print()")
    (tmp_path / "app" / "link").symlink_to("package")
    (tmp_path / "more.txt").write_text("more")
    (tmp_path / "other.txt").write_text("not copied")
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    (tmp_path / ".dockerignore").write_text("**/unseen\n*\n!app\n**/__pycache__\n**/*.pyc\n")
    return tmp_path


def of(context: Path, arguments: dict[str, str] | None = None) -> str | None:
    return fingerprint(context, context / "Dockerfile", arguments or ARGUMENTS)


def _touch(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("new")


def _lead(link: Path, where: str) -> None:
    link.unlink()
    link.symlink_to(where)


CHANGES: dict[str, Callable[[Path], object]] = {
    "content": lambda root: (root / "app/package/main.py").write_text("print(1)"),
    "permissions": lambda root: (root / "app/package/main.py").chmod(0o755),
    "name": lambda root: (root / "app/package/main.py").rename(root / "app/package/m.py"),
    "place": lambda root: (root / "app/package/main.py").rename(root / "app/main.py"),
    "an empty folder": lambda root: (root / "app/empty").mkdir(),
    "where a link leads": lambda root: _lead(root / "app/link", "elsewhere"),
    "a file that is copied alone": lambda root: (root / "more.txt").write_text("less"),
    "the Dockerfile": lambda root: (root / "Dockerfile").write_text(DOCKERFILE + "USER 1\n"),
    # What comes after it may be let in again.
    "one left out before others are let in": lambda root: _touch(root / "app/unseen"),
}
NO_CHANGES: dict[str, Callable[[Path], object]] = {
    "what is not copied": lambda root: (root / "other.txt").write_text("changed"),
    "a folder left out": lambda root: _touch(root / "app/__pycache__/main.py"),
    "a file left out": lambda root: _touch(root / "app/main.pyc"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_a_copied_file_changes_the_fingerprint(
    context: Path, change: Callable[[Path], object]
) -> None:
    before = of(context)
    assert before is not None
    assert of(context) == before
    change(context)
    assert of(context) not in (None, before)


def test_build_arguments_change_the_fingerprint(context: Path) -> None:
    assert of(context, {"BASE_IMAGE": "localhost/base:2"}) != of(context)


@pytest.mark.parametrize("change", NO_CHANGES.values(), ids=NO_CHANGES)
def test_an_ignored_file_does_not_change_the_fingerprint(
    context: Path, change: Callable[[Path], object]
) -> None:
    before = of(context)
    change(context)
    assert of(context) == before


def test_a_containerignore_file_is_preferred(context: Path) -> None:
    (context / ".containerignore").write_text("")
    before = of(context)
    _touch(context / "app/main.pyc")
    assert of(context) != before


@pytest.mark.parametrize(
    "line",
    [
        "COPY *.txt /app/",
        "COPY $WHERE /app/",
        'COPY ["app", "/app"]',
        "COPY <<EOF /app/x",
        "COPY missing /app/",
        "ADD https://example.org/x /x",
        "FROM python:3.13-slim",
        "FROM later",
        "RUN --mount=type=bind,source=app,target=/x true",
        "# escape=`",
    ],
)
def test_a_dockerfile_with_unknown_inputs_has_no_fingerprint(context: Path, line: str) -> None:
    (context / "Dockerfile").write_text(f"{line}\n{DOCKERFILE}")
    assert of(context) is None


class Buildah:
    """In place of the programs; an image has another id each time that it is built."""

    def __init__(self) -> None:
        self.builds = self.asked_for_python = 0
        self.names: dict[str, str] = {}
        """The id of the image that has each name."""
        self.ids: set[str] = set()

    def __call__(self, argv: Sequence[str | Path], **_: object) -> str:
        words = [str(each) for each in argv]
        if words[0] == "apt-cache":
            self.asked_for_python += 1
            return "Version: 3.11.2-1\n"
        match words[7:]:
            case ["bud", *_, reference, _]:
                self.builds += 1
                self.ids.add(str(self.builds))
                self.names[reference] = str(self.builds)
            case ["tag", image, reference]:
                self.names[reference] = image
            case ["push", *_, to]:
                Path(to.split(":")[1]).touch()
            case ["images", "-q", "--no-trunc", reference]:
                return f"sha256:{self.names[reference]}\n"
            case ["images", "--no-trunc", "--format", "{{.ID}}"]:
                return "".join(f"sha256:{each}\n" for each in self.ids)
            case ["images", "--format", _]:
                return base_reference("3.11")
            case ["images", *_, image] if image in self.ids:
                names = [name for name, one in self.names.items() if one == image]
                return "\n".join(names or ["<none>:<none>"])
            case _:
                raise CommandFailed(
                    command="buildah", reason="exit code 125", output="image not known"
                )
        return ""


@pytest.fixture
def buildah(monkeypatch: pytest.MonkeyPatch) -> Buildah:
    found = Buildah()
    monkeypatch.setattr("di_cluster.builds.images.run", found)
    return found


def test_an_image_is_built_once_for_the_same_inputs(context: Path, buildah: Buildah) -> None:
    said = io.StringIO()

    def build() -> str:
        store = ImageStore(context / "cache", reporter=Reporter(said))
        return store.build(context, tag="di-x:dev").image_id

    assert [build(), build()] == ["1", "1"]
    assert "image localhost/di-x:dev is built of the same" in said.getvalue()
    (context / "more.txt").write_text("less")
    assert [build(), build()] == ["2", "2"]
    # Another program has removed the image.
    buildah.ids.remove("2")
    assert [build(), build()] == ["3", "3"]
    for record in (context / "cache/built").iterdir():
        record.write_text("{")
    assert build() == "4"
    (context / "Dockerfile").write_text(f"{DOCKERFILE}ADD x /x\n")
    assert [build(), build()] == ["5", "6"]


def test_two_trees_that_build_one_name_keep_their_images(context: Path, buildah: Buildah) -> None:
    store = ImageStore(context / "cache", reporter=Reporter(None))
    for _ in range(2):
        for text, image in (("more", "1"), ("less", "2")):
            (context / "more.txt").write_text(text)
            assert store.build(context, tag="di-x:dev").image_id == image
            assert store.find("di-x:dev").image_id == image
    assert buildah.builds == 2


def test_what_is_built_waits_for_no_other_build(
    context: Path, buildah: Buildah, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another checkout may hold the lock for half an hour."""
    store = ImageStore(context / "cache", reporter=Reporter(None))
    image = store.build(context, tag="di-x:dev")
    archive = store.archive(image)
    monkeypatch.setattr("di_cluster.builds.images._LOCK_SECONDS", 0)
    with lock_file(context / "cache/.lock", seconds=0):
        assert store.build(context, tag="di-x:dev") == image
        assert store.archive(image) == archive
        (context / "more.txt").write_text("less")
        with pytest.raises(ClusterError, match=r"holds .* for over 0 s"):
            store.build(context, tag="di-x:dev")


def test_an_image_is_missing_until_it_is_built_and_archived(
    context: Path, buildah: Buildah
) -> None:
    store = ImageStore(context / "cache", reporter=Reporter(None))
    source = Source(context=context, tag="di-x:dev", dockerfile=context / "Dockerfile")
    assert store.missing([source]) == [source]
    image = store.build(context, tag=source.tag)
    assert store.missing([source]) == [source]
    store.archive(image)
    assert store.missing([source]) == []
    buildah.ids.remove(image.image_id)
    assert store.missing([source]) == [source]
    buildah.ids.add(image.image_id)
    (context / "more.txt").write_text("less")
    assert store.missing([source]) == [source]


def test_the_package_sources_are_asked_for_python_when_they_have_changed(
    context: Path, buildah: Buildah, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = context / "lists"
    lists.mkdir()
    monkeypatch.setattr("di_cluster.builds.images._APT_SOURCES", (lists,))
    source = Source(context=context, tag="di-x:dev", dockerfile=context / "Dockerfile")
    store = ImageStore(context / "cache", reporter=Reporter(None))
    store.missing([source])
    store.missing([source])
    assert buildah.asked_for_python == 1
    os.utime(lists, (1, 1))
    store.missing([source])
    assert buildah.asked_for_python == 2
