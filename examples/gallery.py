"""The examples and the one command that runs each: the source of docs/how-to/gallery.md.

What an example shows is said in its file, in the first sentence of the comment or docstring there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from examples.demo.manifests import EXAMPLES, ROOT


@dataclass(frozen=True, kw_only=True)
class Example:
    """A program or a manifest that runs.

    Attributes:
        file: the program or the manifest, from the root of the repository.
        command: what runs it there.
        ends: the phase that it ends in, where that is told by the command.
    """

    file: Path
    command: str
    ends: str = "Succeeded"

    @property
    def shows(self) -> str:
        """What it shows, a sentence."""
        text = (ROOT / self.file).read_text()
        if self.file.suffix == ".py":
            said = ast.get_docstring(ast.parse(text)) or ""
        else:
            comment = re.match(r"(?:#.*\n)*", text)
            said = re.sub(r"(?m)^# ?", "", comment[0] if comment else "")
        return re.split(r"(?<=\.)\s", " ".join(said.split()), maxsplit=1)[0]


def _here(file: str, *, ends: str = "Succeeded") -> Example:
    path = Path("examples", file)
    return Example(file=path, command=f"di run {path}", ends=ends)


HERE: Final = (
    _here("plain/train.py"),
    _here("gymnasium/train.py"),
    _here("cartpole/job.yaml"),
    _here("sweep/sweep.yaml"),
    _here("replicas/job.yaml"),
    _here("roles/judge.yaml"),
    _here("roles/drain.yaml"),
    _here("deadline/job.yaml", ends="Failed"),
    _here("progress/job.yaml", ends="Failed"),
)
"""Those that need no cluster and no image: processes of this machine."""


def _library(file: str, *, options: str = "") -> Example:
    path = Path("examples", file)
    return Example(file=path, command=f"di run {path}{options}")


LIBRARIES: Final = (
    _library("sb3/train.py"),
    _library("cleanrl/ppo.py", options=" --track"),
    _library("trl/train.py"),
    _library("rllib/train.py"),
)
"""Programs of other libraries, each with a `requirements.txt`."""

DEMOS: Final = tuple(
    Example(file=file.relative_to(ROOT), command=f"make demo EXAMPLE={name}")
    for name, file in EXAMPLES.items()
)
"""Those whose image is built, on a cluster that is made for it."""


def _applied() -> Sequence[Example]:
    others = {example.file for example in (*HERE, *DEMOS)}
    files = (file.relative_to(ROOT) for file in sorted(ROOT.glob("examples/*/*.yaml")))
    return tuple(
        Example(file=file, command=f"kubectl apply -f {file}", ends="")
        for file in files
        if file not in others
    )


APPLIED: Final = _applied()
"""All other manifests, for whatever cluster has the chart."""
