"""The gallery has every example with its command; the pages show jobs that are admitted."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from di_api.defaults import with_defaults
from di_api.validation import validate_job
from examples.demo.manifests import EXAMPLES, ROOT
from examples.gallery import APPLIED, DEMOS, HERE, LIBRARIES
from tools.documents import gallery


def test_every_example_has_a_command_and_a_description() -> None:
    examples = (*HERE, *LIBRARIES, *DEMOS, *APPLIED)
    folders = {file.parent.name for file in ROOT.glob("examples/*/*.yaml")}
    programs = {"plain", "gymnasium", *(example.file.parent.name for example in LIBRARIES)}
    assert {example.file.parent.name for example in examples} == folders | programs
    for example in examples:
        assert (ROOT / example.file).is_file()
        assert example.shows.endswith("."), example.file
    assert {example.command for example in DEMOS} == {f"make demo EXAMPLE={n}" for n in EXAMPLES}
    for example in LIBRARIES:
        assert (ROOT / example.file.parent / "requirements.txt").is_file()
    for example in APPLIED:
        assert example.command == f"kubectl apply -f {example.file}"
    commands = [example.command for example in examples]
    assert len(commands) == len(set(commands)) >= 12
    page = gallery.FILE.read_text()
    assert page == gallery.document(), "make generate writes it anew"
    assert [command for command in commands if f"| `{command}` |" not in page] == []


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("docs/how-to/programs/*.md")), ids=lambda page: page.stem
)
def test_jobs_on_the_program_pages_are_admitted(page: Path) -> None:
    for block in page.read_text().split("```yaml\n")[1:]:
        text = block.partition("```")[0]
        if text.startswith("apiVersion:"):
            job = yaml.safe_load(text)
            assert validate_job({**job, "spec": with_defaults(job["spec"])}) == []
