"""Print the mutants of PACKAGE (a folder or a module) that no test of TESTS fails for.

Nothing is written to the tree. The tests are collected once; each mutant of a function runs in a
fork in which the function has the changed code, with the tests that reach its statement. For code
that runs at import (constants, defaults, tables) a fork imports everything, and all tests run.
Options that are not known here are pytest's, such as --deselect=TEST. Needs Python 3.12.
"""

from __future__ import annotations

import argparse
import ast
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tools.mutation.mutants import Mutant, mutants
from tools.mutation.running import TREES, judged


def _all_mutants(package: Path) -> Iterator[Mutant]:
    for path in sorted(package.rglob("*.py")) if package.is_dir() else [package]:
        TREES[path] = ast.parse(path.read_text())
        yield from mutants(path, TREES[path])


def main() -> None:
    """Judge the mutants, print those that survive and a table."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    parser.add_argument("package", type=Path)
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--sample", type=int, help="so many of the mutants, chosen by chance")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--functions-only", action="store_true", help="no code that runs at import")
    parser.add_argument("--most", type=float, default=1e9, help="seconds of tests for a mutant")
    parser.add_argument("--again", type=Path, help="only those not killed in this earlier output")
    parser.add_argument("--jobs", type=int, default=1)
    options, of_pytest = parser.parse_known_args()
    found = [*_all_mutants(options.package.resolve())]
    chosen = [each for each in found if each.in_function or not options.functions_only]
    if options.sample and options.sample < len(chosen):
        kept = {*random.Random(options.seed).sample(range(len(chosen)), options.sample)}
        chosen = [each for number, each in enumerate(chosen) if number in kept]
    if options.again:
        lines = {line[10:] for line in options.again.read_text().splitlines()}
        chosen = [each for each in chosen if each.shown() in lines]
    print(f"{len(chosen)} of {len(found)} mutants", flush=True)
    results = judged(chosen, [*options.tests, *of_pytest], options.jobs, options.most)
    for mutant, result in results.items():
        if result != "killed":
            print(f"{result:9} {mutant.shown()}")
    _print_table(results)


def _print_table(results: dict[Mutant, str]) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant, result in results.items():
        counts[mutant.path.name][result] += 1
    counts["total"] = sum(counts.values(), Counter())
    print(f"\n{'module':32}  mutants   killed survived unreached")
    for name, count in counts.items():
        columns = (count.total(), count["killed"], count["survived"], count["unreached"])
        print(f"{name:32}", *(f"{column:8}" for column in columns))


if __name__ == "__main__":
    main()
