"""`di submit` of a program or a folder: the ConfigMap, the job, and their order."""

from __future__ import annotations

import base64
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from di_api.defaults import with_defaults
from di_api.validation import validate_job
from di_cli.code.bundle import PART, contents, packed_in
from di_cli.code.submission import outdated
from di_cli.exit_codes import ExitCode
from di_cli.views.describe import head
from di_cli.views.followed import state_of
from tests.unit.cli.conftest import JOBS, PODS, Di
from tests.unit.cli.conftest import pod as a_pod
from tests.unit.cli.installation import NOW

pytestmark = pytest.mark.usefixtures("light")
MAPS = "/api/v1/namespaces/rl/configmaps"


def writes(di: Di) -> list[str]:
    """Method and collection of each request that stores something."""
    return [
        f"{method} {path.partition('?')[0].split('/')[-1 if method == 'POST' else -2]}"
        for method, path, _ in di.world.requests
        if method != "GET" and "dryRun" not in path
    ]


def stored(di: Di, kind: str = "dijobs") -> dict[str, Any]:
    (found,) = (obj for path, obj in di.world.objects.items() if f"/{kind}/" in path)
    return found


@pytest.mark.proves("own-code.md#submit")
def test_a_program_is_submitted_with_its_files_and_options(di: Di, folder: Path) -> None:
    (folder / "requirements.txt").write_text("numpy\n")
    options = ["--collectors", "4", "--image", "python:3.12", "--gpus", "1"]
    said = di("submit", "train.py", *options, "--with", "requirements.txt", "--", "--lr", "3e-4")
    assert (said.code, said.out) == (0, "dijob/train submitted\n")
    assert said.err == "code: 2 files, 1 KiB\n"
    job, found = stored(di), stored(di, "configmaps")
    packed = base64.b64decode(found["binaryData"]["bundle.tar.gz"])
    assert set(contents(packed)) == {"train.py", "requirements.txt"}
    sha256 = job["spec"]["code"]["sha256"]
    name = f"train-code-{sha256[:12]}"
    assert found["metadata"]["name"] == name
    assert found["immutable"] is True
    assert job["spec"]["code"] == {
        "configMap": name,
        "sha256": sha256,
        "requirements": "requirements.txt",
    }
    learner, collector = job["spec"]["tasks"]
    container = {
        "name": "di-container",
        "image": "python:3.12",
        "command": ["python3", "train.py", "--lr", "3e-4"],
        "env": [{"name": "PYTHONUNBUFFERED", "value": "1"}],
    }
    assert collector["template"]["spec"]["containers"] == [container]
    limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    assert learner["template"]["spec"]["containers"] == [{**container, **limits}]
    # SIGTERM ends a program without a handler only if it is not process 1.
    assert learner["template"]["spec"]["shareProcessNamespace"] is True
    assert (learner["type"], learner["replicas"]) == ("learner", 1)
    assert (collector["type"], collector["replicas"]) == ("collector", 4)
    assert not validate_job(with_defaults(job))


def test_the_config_map_comes_first_and_gets_its_owner_last(di: Di, folder: Path) -> None:
    assert di("submit", "train.py").code == 0
    assert writes(di) == ["POST configmaps", "POST dijobs", "PATCH configmaps"]
    (owner,) = stored(di, "configmaps")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("DIJob", "train")


@pytest.mark.proves("own-code.md#size")
def test_a_large_folder_is_stored_in_several_config_maps(di: Di, folder: Path) -> None:
    data = os.urandom(2 * PART)
    (folder / "data.bin").write_bytes(data)
    assert di("submit", ".").code == 0
    code = stored(di)["spec"]["code"]
    first = code["configMap"]
    assert code["parts"] == 3
    maps = [di.world.objects[f"{MAPS}/{name}"] for name in (first, f"{first}.2", f"{first}.3")]
    assert contents(packed_in(maps))["data.bin"] == data
    assert all(each["metadata"]["ownerReferences"] for each in maps)
    assert not validate_job(with_defaults(stored(di)))
    (folder / "data.bin").unlink()
    di.world.objects[f"{JOBS}/cartpole"]["status"] = {}
    assert di("push", "cartpole").out == "dijob/cartpole restarts with new code: data.bin\n"
    code = stored(di)["spec"]["code"]
    assert "parts" not in code or code["parts"] is None
    # The bundle before stays for a rollback.
    assert f"{MAPS}/{first}.3" in di.world.objects


@pytest.mark.parametrize("missing", [1, 2])
def test_a_kept_manifest_has_all_parts_of_its_code(di: Di, folder: Path, missing: int) -> None:
    (folder / "data.bin").write_bytes(os.urandom(PART))
    text = di("submit", ".", "--dry-run", "client").out
    job, *maps = yaml.safe_load_all(text)
    assert len(maps) == 2
    kept = folder / "kept.yaml"
    kept.write_text(yaml.safe_dump_all([job, maps[2 - missing]]))
    said = di("submit", "kept.yaml")
    assert (said.code, "has no bundle with the hash" in said.err) == (1, True)
    kept.write_text(text)
    assert di("submit", "kept.yaml", "--name", "two").code == 0
    assert stored(di)["spec"]["code"]["parts"] == 2


def test_bundles_are_forgotten_with_all_their_parts() -> None:
    def found(number: int, part: int) -> dict[str, Any]:
        name = f"j-code-{number:012x}" + (f".{part}" if part > 1 else "")
        about = {"ownerReferences": [{"uid": "u"}], "creationTimestamp": f"2026-01-0{number}"}
        return {"metadata": {"name": name, **about}}

    small = [found(number, 1) for number in range(1, 9)]
    assert outdated(small, "j-code-000000000008", "u") == [
        "j-code-000000000002",
        "j-code-000000000001",
    ]
    # Together the earlier ones have no more than one bundle can have, but for the latest.
    large = [found(number, part) for number in (1, 2, 3) for part in range(1, 8)]
    assert outdated(large, "j-code-000000000003", "u") == [
        each["metadata"]["name"] for each in large[:7]
    ]
    assert outdated(large, "j-code-000000000003", "other") == []


def test_a_refused_job_leaves_no_config_map(di: Di, folder: Path) -> None:
    message = "spec.tasks[0].replicas: must be 1 or more"
    di.world.refusals["POST", JOBS] = {"code": 422, "reason": "Invalid", "message": message}
    said = di("submit", "train.py")
    assert said.code != 0
    assert "must be 1 or more" in said.err
    assert not di.world.objects


def test_a_refused_config_map_is_named_and_no_job_is_made(di: Di, folder: Path) -> None:
    message = 'configmaps "x" is forbidden: exceeded quota: team'
    di.world.refusals["POST", MAPS] = {"code": 403, "reason": "Forbidden", "message": message}
    said = di("submit", "train.py")
    assert said.code != 0
    assert "ConfigMap rl/train-code-" in said.err
    assert not di.world.objects


@pytest.mark.parametrize("crash", [1, 2, 3])
def test_a_second_try_repairs_what_a_crash_left(
    di: Di, folder: Path, monkeypatch: pytest.MonkeyPatch, crash: int
) -> None:
    done: list[str] = []
    with monkeypatch.context() as patch:
        for verb in ("create", "patch"):
            patch.setattr(f"di_kube.verbs.Verbs.{verb}", _crashing(verb, done, crash))
        assert di("submit", "train.py").code == ExitCode.INTERRUPTED
    assert len(done) == crash
    said = di("submit", "train.py")
    # With the job the first try was complete but for the owner.
    assert said.code == (1 if crash == 3 else 0)
    assert stored(di, "configmaps")["metadata"]["ownerReferences"]
    assert stored(di)["metadata"]["name"] == "train"


def _crashing(verb: str, done: list[str], count: int) -> Any:
    from di_kube.verbs import Verbs  # noqa: PLC0415

    real = getattr(Verbs, verb)

    def call(self: Any, resource: Any, *given: Any, **named: Any) -> Any:
        if len(done) == count:
            raise KeyboardInterrupt
        done.append(verb)
        return real(self, resource, *given, **named)

    return call


def test_a_job_with_the_name_of_another_is_refused_with_a_remedy(di: Di, folder: Path) -> None:
    di.job("train")
    said = di("submit", "train.py")
    assert said.err.splitlines()[1:] == [
        "error: dijob/train exists already",
        "  nothing was submitted",
        "  try: di push train",
    ]
    assert writes(di) == []


@pytest.mark.proves("own-code.md#bundles-of-a-job")
def test_a_config_map_of_an_earlier_job_is_not_used_again(di: Di, folder: Path) -> None:
    assert di("submit", "train.py").code == 0
    name = stored(di, "configmaps")["metadata"]["name"]
    owner = {"kind": "DIJob", "name": "train", "uid": "uid-earlier"}
    old = stored(di, "configmaps")
    di.world.put(
        f"{MAPS}/{name}", {**old, "metadata": {**old["metadata"], "ownerReferences": [owner]}}
    )
    di.world.remove(f"{JOBS}/train")
    assert di("submit", "train.py").code == 0
    assert stored(di)["spec"]["code"]["configMap"] == f"{name}-1"
    assert f"{MAPS}/{name}-1" in di.world.objects


@pytest.mark.proves("own-code.md#folders")
def test_a_folder_starts_its_entry(di: Di, folder: Path) -> None:
    (folder / "lib").mkdir()
    (folder / "lib" / "run.sh").write_text("#!/bin/sh\n")
    assert di("submit", ".").code == 0
    job = stored(di)
    assert job["metadata"]["name"] == "cartpole"
    assert (
        job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["image"] == "python:3.13-slim"
    )
    di.world.objects.clear()
    assert di("submit", ".", "--entry", "lib/run.sh", "--name", "other").code == 0
    (container,) = stored(di)["spec"]["tasks"][0]["template"]["spec"]["containers"]
    assert container["command"] == ["./lib/run.sh"]


@pytest.mark.parametrize(
    ("words", "path"), [("shared", "/results"), ("shared:/out", "/out")], ids=["usual", "given"]
)
def test_a_program_gets_a_claim_for_the_artifacts_of_its_pods(
    di: Di, folder: Path, words: str, path: str
) -> None:
    assert di("submit", "train.py", "--artifacts", words).code == 0
    claim = {"persistentVolumeClaim": "shared"}
    assert stored(di)["spec"]["artifacts"] == [{"name": "results", "path": path, **claim}]


def test_a_tracked_program_is_started_by_the_package(di: Di, folder: Path) -> None:
    assert di("submit", "train.py", "--track", "--", "--lr", "1").code == 0
    (container,) = stored(di)["spec"]["tasks"][0]["template"]["spec"]["containers"]
    started = ["python3", "-m", "di_orchestrator.tracking", "train.py", "--lr", "1"]
    assert container["command"] == started


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["nothing.py"], "there is no file or folder nothing.py"),
        (["."], "which file of . starts the program is not clear"),
        ([".", "--entry", "none.py"], "--entry none.py: is not among the files of ."),
        (["train.py", "--entry", "a.py"], "--entry a.py: is for a folder"),
        ([".", "--entry", "train.py", "--with", "r.txt"], "--with r.txt: is not among the files"),
        (["train.py", "--with", "r.txt"], "there is no file r.txt"),
        (["train.py", "--replicas", "x=2"], "nothing was submitted"),
        (["train.py", "--replicas", "x"], "nothing was submitted"),
        (["cartpole", "--gpus", "1"], "--with, --artifacts, --track, --gpus, --learners,"),
        (["cartpole", "--artifacts", "a"], "--with, --artifacts, --track, --gpus, --learners,"),
        (["cartpole", "--track"], "--with, --artifacts, --track, --gpus, --learners,"),
        (
            [".", "--entry", "run.sh", "--track"],
            "--track is for Python programs, and run.sh is none",
        ),
    ],
)
def test_wrong_options_are_refused_before_anything_is_sent(
    di: Di, folder: Path, words: list[str], what: str
) -> None:
    for name in ("second.py", "run.sh"):
        (folder / name).touch()
    said = di("submit", *words)
    assert f"error: {what}" in said.err
    assert (said.code != 0, di.world.requests) == (True, [])


def test_messages_name_what_is_left_out(
    di: Di, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        (folder / f"{number}.key").touch()
    (folder / "out").symlink_to("/etc/hostname")
    monkeypatch.setattr("di_cli.actions.program.packages", dict)
    said = di("submit", ".")
    assert said.err.splitlines() == [
        "code: 1 file, 1 KiB",
        "left out, because they may be secrets: 0.key, 1.key, 2.key, 3.key, 4.key and 2 more",
        "left out, because they are no files of the folder: out",
        "the package di-orchestrator is not installed here, so the image has to have it: pip "
        "install ./sdk in a clone of the repository",
    ]


def test_a_program_that_imports_its_neighbours_is_told_of_the_folder(di: Di, folder: Path) -> None:
    (folder / "train.py").write_text("import model\n")
    (folder / "model.py").touch()
    assert di("submit", "train.py").err.startswith(
        "train.py imports model, which is beside it and not taken: "
        "di submit . --entry train.py takes the folder\n"
    )


@pytest.mark.proves("own-code.md#a-manifest-to-keep")
@pytest.mark.parametrize("output", ["yaml", "json"])
def test_the_manifest_is_printed_without_a_cluster(di: Di, folder: Path, output: str) -> None:
    said = di("submit", "train.py", "--dry-run", "client", "-o", output)
    found = list(yaml.safe_load_all(said.out))
    job, config_map = found if output == "yaml" else found[0]["items"]
    assert (job["kind"], config_map["kind"]) == ("DIJob", "ConfigMap")
    assert job["spec"]["code"]["configMap"] == config_map["metadata"]["name"]
    assert di.world.requests == []


@pytest.mark.proves("own-code.md#a-manifest-to-keep")
@pytest.mark.parametrize("output", ["yaml", "json"])
def test_a_kept_manifest_is_submitted_with_its_code(di: Di, folder: Path, output: str) -> None:
    kept = folder / "kept.yaml"
    kept.write_text(di("submit", "train.py", "--dry-run", "client", "-o", output).out)
    (folder / "train.py").write_text("print('changed')\n")
    assert di("submit", "kept.yaml", "--dry-run", "server").code == 0
    assert writes(di) == []
    assert di("submit", "kept.yaml", "--name", "two").out == "dijob/two submitted\n"
    assert writes(di) == ["POST configmaps", "POST dijobs", "PATCH configmaps"]
    job, found = stored(di), stored(di, "configmaps")
    assert job["spec"]["code"]["configMap"] == found["metadata"]["name"]
    assert found["metadata"]["labels"] == {"diengine/code-of": "two"}
    assert found["metadata"]["annotations"]["diengine/code-source"] == "train.py"
    (owner,) = found["metadata"]["ownerReferences"]
    assert owner["name"] == "two"
    packed = base64.b64decode(found["binaryData"]["bundle.tar.gz"])
    assert contents(packed)["train.py"] == b"print('first line')\n"


def test_kept_code_that_does_not_fit_its_job_is_refused(di: Di, folder: Path) -> None:
    job, config_map = yaml.safe_load_all(di("submit", "train.py", "--dry-run", "client").out)
    kept = folder / "kept.yaml"
    for wrong, message in (
        ([{**job, "spec": {**job["spec"], "code": None}}, config_map], "no DIJob there has"),
        ([job, {**config_map, "binaryData": {}}], "has no bundle with the hash"),
        ([job, {"kind": "ConfigMap", "metadata": {}}], "is a ConfigMap, and no DIJob"),
    ):
        kept.write_text(yaml.safe_dump_all(wrong))
        said = di("submit", "kept.yaml")
        assert (said.code, message in said.err) == (ExitCode.FAILED, True)
    assert writes(di) == []


def test_a_manifest_is_printed_with_its_changes(di: Di, folder: Path) -> None:
    said = di("submit", "cartpole", "--image", "mine", "--dry-run", "client")
    (job,) = yaml.safe_load_all(said.out)
    images = {t["template"]["spec"]["containers"][0]["image"] for t in job["spec"]["tasks"]}
    assert (images, di.world.requests) == ({"mine"}, [])


def test_a_dry_run_at_the_server_stores_nothing(di: Di, folder: Path) -> None:
    said = di("submit", "train.py", "--dry-run", "server")
    assert said.out == "dijob/train would be taken (dry run)\n"
    assert not di.world.objects


def _ends(di: Di, phase: str) -> None:
    """End the job when it is there, as the operator does."""
    while f"{JOBS}/train" not in di.world.objects:
        with di.world.changed:
            di.world.changed.wait(0.1)
    job = di.world.objects[f"{JOBS}/train"]
    pod = f"{PODS}/train-learner-0"
    running = {"name": "di-container", "state": {"running": {}}}
    found = a_pod("train", "learner", 0, 0, containerStatuses=[running])
    di.world.logs["train-learner-0"] = ["2026-03-01T11:00:00Z first line"]
    di.world.put(pod, found)
    progress = {"step": 62, "totalSteps": 100}
    for state in ("Running", phase):
        status = {"phase": state, "replicas": 1, "readyReplicas": 1, "progress": progress}
        di.world.put(f"{JOBS}/train", {**job, "status": status})


@pytest.mark.proves("own-code.md#follow")
@pytest.mark.parametrize(
    ("phase", "code"), [("Succeeded", ExitCode.DONE), ("Failed", ExitCode.ENDED_OTHERWISE)]
)
def test_a_followed_job_gives_its_lines_and_the_way_it_ended(
    di: Di, folder: Path, phase: str, code: ExitCode
) -> None:
    ends = threading.Thread(target=_ends, args=(di, phase))
    ends.start()
    said = di("submit", "train.py", "--follow")
    ends.join()
    assert said.code == code
    assert said.lines == ["dijob/train submitted", "train-learner-0  first line"]
    assert f"dijob/train: {phase}  1/1 ready  60 %" in said.err.splitlines()
    assert f"dijob/train is {phase}" in said.err


def test_ctrl_c_leaves_a_followed_job_alone(
    di: Di, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("di_cli.logs.followed.Followed.lines", interrupted)
    said = di("submit", "train.py", "--follow")
    assert said.code == ExitCode.INTERRUPTED
    assert "dijob/train goes on; di logs train -f follows it again" in said.err
    assert not [method for method, _, _ in di.world.requests if method == "DELETE"]


def test_only_one_job_that_is_stored_can_be_followed(di: Di, folder: Path) -> None:
    said = di("submit", "train.py", "--follow", "--dry-run", "client")
    assert "error: --follow goes without --dry-run" in said.err
    assert "error: --follow is for one job" in di("submit", "ray", "jax", "--follow").err
    assert di.world.requests == []


def test_the_state_of_a_followed_job_is_short() -> None:
    assert state_of({}) == ""
    assert state_of({"status": {"phase": "Pending", "replicas": 0}}) == "Pending"
    progress = {"step": 99, "totalSteps": 100}
    running = {"phase": "Running", "replicas": 4, "readyReplicas": 3, "progress": progress}
    assert state_of({"status": running}) == "Running  3/4 ready  90 %"


def test_a_described_job_shows_its_code_and_its_commit() -> None:
    job: dict[str, Any] = {"metadata": {"name": "train"}, "spec": {}}
    assert not [line for line in head(job, NOW) if line.startswith("Code")]
    job["spec"] = {"code": {"configMap": "a", "sha256": "0" * 64}}
    assert "Code" in " ".join(head(job, NOW))
    job["spec"]["code"]["revision"] = "abc-dirty"
    (line,) = (line for line in head(job, NOW) if line.startswith("Code"))
    assert line.split(maxsplit=1)[1] == "000000000000, git abc-dirty"
