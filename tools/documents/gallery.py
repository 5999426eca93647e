"""The gallery, from the examples and what they say of themselves."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from examples.gallery import APPLIED, DEMOS, HERE, LIBRARIES, Example

FILE = Path(__file__).resolve().parents[2] / "docs" / "how-to/gallery.md"
_PAGE = """# Gallery

Examples that run, each by one command in a clone. Made by `make generate` from what they say of
themselves.

## On this machine

Without a cluster and without images: [on one machine](local.md). `make try` installs `di` into
`.venv-try/bin` and runs the CartPole example with it; the other programs need no more than that.

{here}
## With other libraries

Programs as their authors write them. The first `python3` of the `PATH` has `di_orchestrator` and
what the `requirements.txt` beside the program names:

```
pip install ./sdk -r examples/sb3/requirements.txt
```

{libraries}
[`di submit`](own-code.md) takes the same words for a cluster, with `--with` and that file, or with
an image that has the packages.

## On a cluster of this machine

`make demo` makes the cluster, builds the image and follows the job to its end; those of DI-engine,
torch, JAX and Ray are large. With `CLUSTER=current` it is the cluster of your kubeconfig.

{demos}
## On any cluster with the chart

For one thing each. `di watch NAME` follows such a job, and the comments in the file say what to
look for, and what it needs beside an image with Python.

{applied}"""
_HEAD = "| command | what it shows | |\n|---|---|---|\n"


def document() -> str:
    """The whole document."""
    return _PAGE.format(
        here=_table(HERE), libraries=_table(LIBRARIES), demos=_table(DEMOS), applied=_table(APPLIED)
    )


def _table(examples: Iterable[Example]) -> str:
    return _HEAD + "".join(_row(each) for each in examples)


def _row(each: Example) -> str:
    ends = "" if each.ends in ("", "Succeeded") else f" It ends as {each.ends}."
    file = each.file.relative_to("examples")
    return f"| `{each.command}` | {each.shows}{ends} | [{file}](../../{each.file}) |\n"
