"""`jobs.submit`: what it takes, and that it makes what `di submit` makes."""

from __future__ import annotations

import base64
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import yaml

from di_cli.client.functions import program_of
from di_cli.client.options import DEFAULTS, ClusterOptions, LocalOptions
from di_cli.code.bundle import contents
from di_orchestrator import jobs
from tests.unit.cli.code.test_submitting import stored
from tests.unit.cli.conftest import Di
from tests.unit.cli.test_changing import MANIFEST, manifest

__all__ = ["manifest"]

pytestmark = pytest.mark.usefixtures("light")
np = None
"""A name of this module, which no pod has."""


def both(di: Di, words: list[str], submit: Callable[[], jobs.Job]) -> None:
    """Compare the stored objects of a command with those of a call."""
    assert di("submit", *words).code == 0
    kinds = ("dijobs", "configmaps")
    of_command = [_without_version(stored(di, kind)) for kind in kinds]
    di.world.objects.clear()
    found = submit()
    assert [_without_version(stored(di, kind)) for kind in kinds] == of_command
    assert repr(found) == "<job rl/train: new>"


def _without_version(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}
    return {**obj, "metadata": metadata}


@pytest.mark.proves("from-python.md#what-can-be-submitted/a-file")
def test_a_file_makes_what_the_command_makes(di: Di, folder: Path) -> None:
    (folder / "requirements.txt").write_text("numpy\n")
    options = ["--collectors", "4", "--image", "python:3.12", "--gpus", "1"]
    words = ["train.py", *options, "--with", "requirements.txt", "--", "--lr", "0.0003", "--fast"]
    both(
        di,
        words,
        lambda: jobs.submit(
            "train.py",
            args={"lr": 3e-4, "fast": True, "slow": False, "seed": None},
            collectors=4,
            image="python:3.12",
            gpus=1,
            requirements="requirements.txt",
        ),
    )


@pytest.mark.proves("from-python.md#what-can-be-submitted/a-folder")
def test_a_folder_makes_what_the_command_makes(di: Di, folder: Path) -> None:
    (folder / "model.py").write_text("")
    words = [str(folder), "--entry", "train.py", "--name", "train", "--", "--sizes", "64", "64"]
    both(
        di,
        words,
        lambda: jobs.submit(folder, entry="train.py", name="train", args={"sizes": [64, 64]}),
    )


def train(steps: int, name: str = "a") -> None:
    import json  # noqa: PLC0415  # as the pods have no other import

    def text() -> str:
        return json.dumps([steps, name])

    print(text())


@pytest.mark.proves("from-python.md#what-can-be-submitted/a-function")
def test_a_function_is_a_program_with_its_arguments(di: Di, tmp_path: Path) -> None:
    job = jobs.submit(train, args={"steps": 3, "name": 'b"'}, collectors=1)
    assert job.name == "train"
    files = contents(base64.b64decode(stored(di, "configmaps")["binaryData"]["bundle.tar.gz"]))
    program = tmp_path / "train.py"
    program.write_bytes(files["train.py"])
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == '[3, "b\\""]\n'
    tasks = job.manifest["spec"]["tasks"]
    command = tasks[0]["template"]["spec"]["containers"][0]["command"]
    assert (command, len(tasks)) == (["python3", "train.py"], 2)


def uses_its_module() -> None:
    print(np, MANIFEST)


def has_an_annotation(steps: Any) -> None:
    print(steps)


def yields() -> Iterator[int]:
    yield 1


def counter() -> Callable[[], None]:
    number = 0

    def count() -> None:
        nonlocal number
        number += 1

    return count


def greeter() -> Callable[[], None]:
    def greet() -> None:
        print("""a
  b
        c""")

    return greet


def test_the_texts_of_an_indented_function_stay() -> None:
    program = program_of(greeter(), {})
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "a\n  b\n        c\n"


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (uses_its_module, {}, "uses_its_module uses MANIFEST, np, which only its module"),
        (has_an_annotation, {"steps": 1}, "has_an_annotation uses Any, which only its module"),
        (train, {"steps": object()}, "args['steps'] of train must be a number, text, list or dict"),
        (train, {}, "train() cannot be called with args={}: missing a required argument"),
        (train, ["3"], "args of a function are a dict of its parameters"),
        (lambda: None, {}, "<lambda>"),
        (
            yields,
            {},
            "yields must be a plain function, which a call runs to its end\n  it is a gen",
        ),
        ("a".join, {}, "join must be a plain function"),
        (counter(), {}, "the source of count is not available\n  no binding for nonlocal 'number'"),
    ],
)
def test_a_function_that_cannot_run_alone_is_refused(
    di: Di, function: Any, arguments: Any, message: str
) -> None:
    with pytest.raises(jobs.BadCall) as refused:
        jobs.submit(function, args=arguments)
    assert message in str(refused.value)
    assert not di.world.objects


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lr": {"a": 1}}, "args['lr'] must be a number or text\n  {'a': 1}"),
        ({"sizes": [1, None]}, "args['sizes'] must be a number or text\n  None"),
        (["--lr", object], "args[1] must be a number or text"),
        (5, "args=5: must be a dict, a list or text"),
        ('--name "a', "args='--name \"a': No closing quotation"),
    ],
)
def test_arguments_that_are_no_words_are_refused(
    di: Di, folder: Path, arguments: Any, message: str
) -> None:
    with pytest.raises(jobs.BadCall) as refused:
        jobs.submit(str(folder / "train.py"), args=arguments)
    assert message in str(refused.value)
    assert not di.world.objects


@pytest.mark.proves("from-python.md#what-can-be-submitted/a-manifest")
def test_a_manifest_is_submitted_from_a_file_or_a_dict(di: Di, manifest: str) -> None:
    body = yaml.safe_load(MANIFEST)
    for given in (manifest, Path(manifest), body):
        di.world.objects.clear()
        job = jobs.submit(given, replicas={"actors": 4}, image={"actors": "c"}, name="two")
        actors = stored(di)["spec"]["tasks"][1]
        assert (job.name, actors["replicas"]) == ("two", 4)
        assert actors["template"]["spec"]["containers"][0]["image"] == "c"
    assert body == yaml.safe_load(MANIFEST)


def test_a_job_lives_in_the_namespace_of_its_manifest(di: Di) -> None:
    body = yaml.safe_load(MANIFEST)
    body["metadata"]["namespace"] = "other"
    job = jobs.submit(body)
    assert job.namespace == "other"
    job.suspend()
    assert di.world.requests[-1][1].endswith("/namespaces/other/dijobs/cartpole")


def test_options_of_programs_are_refused_for_a_manifest(di: Di, manifest: str) -> None:
    with pytest.raises(jobs.BadCall, match="are for a program, folder or function"):
        jobs.submit(manifest, collectors=4)
    with pytest.raises(jobs.BadCall, match="artifacts is for a program, folder or function"):
        jobs.submit(manifest, artifacts="shared")
    with pytest.raises(jobs.BadCall, match="the job has no task nobody"):
        jobs.submit(manifest, replicas={"nobody": 1})
    with pytest.raises(jobs.BadCall, match=r"there is no file nowhere\.yaml"):
        jobs.submit("nowhere.yaml")
    with pytest.raises(jobs.BadCall, match=r"there is no file or folder nowhere\.py"):
        jobs.submit("nowhere.py")


def test_a_refusal_names_each_field(di: Di, manifest: str) -> None:
    causes = [{"field": "spec.tasks[0]", "message": "is wrong"}]
    body = {"code": 422, "reason": "Invalid", "message": "m", "details": {"causes": causes}}
    di.world.refusals["POST", "/apis/diengine.opendilab.org/v2alpha1/namespaces/rl/dijobs"] = body
    said = di("submit", manifest)
    with pytest.raises(jobs.JobsError) as refused:
        jobs.submit(manifest)
    assert "spec.tasks[0]: is wrong" in str(refused.value)
    assert f"error: {refused.value}\n" == said.err


def test_help_and_completion_of_submit_show_every_option() -> None:
    for function, options in (
        (jobs.submit, ClusterOptions),
        (jobs.Client.submit, ClusterOptions),
        (jobs.LocalClient.submit, LocalOptions),
    ):
        shown = inspect.signature(function).parameters
        assert {name: shown[name].default for name in get_type_hints(options)} == {
            name: DEFAULTS.get(name) for name in get_type_hints(options)
        }
        assert "options" not in shown


def test_an_unknown_option_of_submit_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'learner'"):
        jobs.submit("train.py", learner=2)  # type: ignore[call-arg]  # a user's mistake


def test_a_job_on_this_machine_has_no_template() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'template'"):
        jobs.local().submit("job.yaml", template="gpu")  # type: ignore[call-arg]  # same
