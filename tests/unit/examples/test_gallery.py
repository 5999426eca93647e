"""The gallery has every example; those that need no cluster run by the command that it gives."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile

import pytest
import yaml

from di_api.defaults import with_defaults
from di_api.validation import validate_job
from examples.demo.manifests import EXAMPLES, ROOT
from examples.gallery import APPLIED, DEMOS, HERE
from tools.documents import gallery

BIN = Path(sys.executable).parent
ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if not key.startswith("DI_")},
    # A pod runs the python3 that is there.
    **{"PATH": f"{BIN}:{os.environ['PATH']}", "COLUMNS": "200"},
}


def test_what_needs_no_cluster_runs_by_its_command(tmp_path: Path) -> None:
    """All of them side by side, as most of them wait."""
    environment = {**ENVIRONMENT, "XDG_STATE_HOME": str(tmp_path)}
    started = []
    for example in HERE:
        said = TemporaryFile("w+")  # noqa: SIM115  closed below
        process = subprocess.Popen(
            shlex.split(example.command), cwd=ROOT, env=environment, stdout=said, stderr=said
        )
        started.append((example, process, said))
    ended = []
    for example, process, said in started:
        with said:
            code = process.wait(timeout=240)
            said.seek(0)
            ended.append((example, code, said.read()))
    for example, code, shown in ended:
        assert code == (example.ends != "Succeeded"), shown
        assert re.search(rf"  {example.ends}\b", shown), shown


@pytest.mark.parametrize(
    ("program", "said"),
    [("plain", " after 300 steps"), ("gymnasium", " steps of the environment")],
)
def test_a_program_of_one_file_runs_by_itself(program: str, said: str) -> None:
    done = subprocess.run(
        ["python3", f"examples/{program}/train.py"],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert said in done.stdout


def test_every_example_has_its_command_and_says_what_it_shows() -> None:
    examples = (*HERE, *DEMOS, *APPLIED)
    folders = {file.parent.name for file in ROOT.glob("examples/*/*.yaml")}
    assert {example.file.parent.name for example in examples} == {*folders, "plain", "gymnasium"}
    for example in examples:
        assert (ROOT / example.file).is_file()
        assert example.shows.endswith("."), example.file
    assert {example.command for example in DEMOS} == {f"make demo EXAMPLE={n}" for n in EXAMPLES}
    for example in APPLIED:
        assert example.command == f"kubectl apply -f {example.file}"
    commands = [example.command for example in examples]
    assert len(commands) == len(set(commands)) >= 12
    page = gallery.FILE.read_text()
    assert page == gallery.document(), "make generate writes it anew"
    assert [command for command in commands if f"| `{command}` |" not in page] == []


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("docs/programs/*.md")), ids=lambda page: page.stem
)
def test_a_job_on_the_page_of_a_kind_of_program_would_be_admitted(page: Path) -> None:
    for block in page.read_text().split("```yaml\n")[1:]:
        text = block.partition("```")[0]
        if text.startswith("apiVersion:"):
            job = yaml.safe_load(text)
            assert validate_job({**job, "spec": with_defaults(job["spec"])}) == []
