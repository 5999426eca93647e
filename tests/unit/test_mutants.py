"""The mutants that `python -m tools.mutation` judges."""

from __future__ import annotations

import ast
from pathlib import Path

from tools.mutation.mutants import functions, mutants

SOURCE = '''
LIMIT = 3

def larger(a: int, b: int) -> int:
    """Not a mutant."""
    if a > b and b:
        return a
    return max(b, default=LIMIT)
'''


def test_each_mutant_is_one_change_and_leaves_the_tree_as_it_was() -> None:
    tree = ast.parse(SOURCE)
    before = ast.unparse(tree)
    changed = []
    for mutant in mutants(Path("m.py"), tree):
        with mutant.applied():
            changed.append(ast.unparse(tree))
        assert ast.unparse(tree) == before
    assert len(set(changed)) == len(changed) == 9
    assert before not in changed


def test_mutants_name_their_place_and_whether_they_run_at_import() -> None:
    found = [*mutants(Path("m.py"), ast.parse(SOURCE))]
    assert [(each.shown(), each.in_function) for each in found[:3]] == [
        ("m.py:2: 3 -> 4", False),
        ("m.py:6: a > b and b -> True", True),
        ("m.py:6: a > b and b -> False", True),
    ]
    assert {*found[1].lines} == {6}


def test_functions_of_classes_are_found_and_those_inside_functions_are_not() -> None:
    source = "class A:\n def f(self):\n  def g(): pass\nh = lambda: 0\n"
    code = compile(source, "m.py", "exec")
    assert [each.co_qualname for each in functions(code)] == ["A.f", "<lambda>"]
