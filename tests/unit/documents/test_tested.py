"""The table of what is tested where: rows of pages, markers of tests, and what is missing."""

from __future__ import annotations

import pytest

from tools.documents.proofs import BadMarker, Proof, command_of, proofs_of
from tools.documents.rows import Row, rows_of
from tools.documents.tested import bad_markers, counts, matched, untested

PAGE = """# A page

What it is about.

## Fields

| field | meaning |
|---|---|
| `tasks[].name` | a name |
| a [link](other.md#x) \\| `b` | more |

### Short

Every word is kept.

## Empty

### Fields of tasks

<!-- generated: tasks -->

| field | meaning |
|---|---|
| `tasks[].name` | a name |
| `tasks[].name` | again |
| | again |

```
## no heading
| no | row |
```

<!-- not tested: measured -->

| load | seconds |
|---|---|
| 1 | 2 |

<!-- not tested: a list of pages -->

## Where to go on

| page |
|---|
| x |

Text.
"""


def test_rows_are_rows_of_tables_and_sections_without_a_table() -> None:
    assert [(each.slug, each.exempt) for each in rows_of("a.md", PAGE)] == [
        ("fields/tasks-name", ""),
        ("fields/a-link-b", ""),
        ("short", ""),
        ("fields-of-tasks/tasks-name-a-name", ""),
        ("fields-of-tasks/tasks-name-again", ""),
        ("fields-of-tasks/tasks-name-again-2", ""),
        ("fields-of-tasks/table-load-seconds", "measured"),
        ("where-to-go-on", "a list of pages"),
    ]


def test_a_page_without_sections_is_one_row() -> None:
    assert [each.slug for each in rows_of("a.md", "# All of it\n\nText.\n")] == ["all-of-it"]


def test_an_exemption_ends_with_what_is_below_it() -> None:
    text = "# A\n\n<!-- not tested: why -->\n## One\n\nText.\n\n## Two\n\nText.\n"
    assert [each.exempt for each in rows_of("a.md", text)] == ["why", ""]


TESTS = """
import pytest

pytestmark = [pytest.mark.proves("a.md#all"), pytest.mark.extended]

class TestIt:
    pytestmark = pytest.mark.proves("a.md#class")

    @pytest.mark.proves("a.md#one", "a.md#two")
    @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.proves("a.md#param"))])
    def test_one(self, x: int) -> None: ...

def helper() -> None: ...
"""


def test_markers_of_modules_classes_and_parameters_are_read() -> None:
    proofs = list(proofs_of("tests/unit/test_a.py", TESTS))
    assert [each.pattern for each in proofs] == [
        *("a.md#all", "a.md#class", "a.md#one", "a.md#two", "a.md#param"),
    ]
    assert {(each.test, each.command) for each in proofs} == {("test_one", "make test-all")}


PARAMETERS = """
import pytest

@pytest.mark.proves("a.md#both")
@pytest.mark.parametrize("x", [
    pytest.param(1, marks=[pytest.mark.proves("a.md#late"), pytest.mark.extended]),
    pytest.param(2, marks=pytest.mark.proves("a.md#soon")),
])
def test_one(x: int) -> None: ...

@pytest.mark.proves("a.md#all-late")
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.extended)])
def test_two(x: int) -> None: ...
"""


def test_a_parameter_that_is_extended_is_run_by_test_all() -> None:
    proofs = proofs_of("tests/unit/test_a.py", PARAMETERS)
    assert {each.pattern: each.command for each in proofs} == {
        "a.md#both": "make check",
        "a.md#late": "make test-all",
        "a.md#soon": "make check",
        "a.md#all-late": "make test-all",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('@pytest.mark.proves(f"a.md#{x}")\ndef test_a(): ...', "t.py:1: write the row as a"),
        ('@pytest.mark.proves("a.md#x")\ndef helper(): ...', "t.py:2: helper is no test"),
    ],
)
def test_a_marker_that_cannot_be_read_is_reported(text: str, said: str) -> None:
    with pytest.raises(BadMarker, match=said):
        list(proofs_of("t.py", text))


@pytest.mark.parametrize(
    ("file", "extended", "command"),
    [
        ("tests/unit/api/test_a.py", False, "make check"),
        ("tests/golden/test_a.py", False, "make check"),
        ("tests/poison/test_a.py", False, "make check"),
        ("tests/chart/test_a.py", False, "make test"),
        ("tests/unit/api/test_a.py", True, "make test-all"),
    ],
)
def test_a_command_follows_from_the_folder_and_a_marker(
    file: str, extended: bool, command: str
) -> None:
    assert command_of(file, extended=extended) == command


def proof(pattern: str) -> Proof:
    return Proof(pattern, "tests/t.py", "test_a", "make test")


ROWS = [Row("a.md", "one", "One"), Row("a.md", "two", "Two"), Row("b.md", "x", "X", "measured")]


def test_a_row_without_a_test_is_reported_with_the_marker_to_write() -> None:
    proofs = matched(ROWS, [proof("a.md#one")])
    (row, total) = untested(ROWS, proofs, 0)
    assert row.startswith('a.md#two has no test (Two): put @pytest.mark.proves("a.md#two")')
    assert total.startswith("1 rows have no test, 0 allowed")
    assert list(untested(ROWS, proofs, 1)) == []
    assert "lower UNTESTED" in "".join(untested(ROWS, proofs, 2))


def test_a_pattern_stands_for_every_row_that_it_matches() -> None:
    proofs = matched(ROWS, [proof("a.md#*"), proof("a.md#one")])
    assert [len(each) for each in proofs.values()] == [1, 1, 0]


@pytest.mark.parametrize(
    ("patterns", "said"),
    [
        (["a.md#onw"], "a.md#onw, which is no row; did you mean a.md#one?"),
        (["c.md#*"], "c.md#*, which no row matches"),
        (["b.md#x"], "b.md#x, which is exempt"),
        (["a.md#one", "a.md#one"], "a.md#one twice"),
    ],
)
def test_a_marker_that_names_no_row_or_one_twice_is_reported(
    patterns: list[str], said: str
) -> None:
    (found,) = bad_markers(ROWS, [proof(each) for each in patterns])
    assert found.startswith("tests/t.py::test_a names ")
    assert said in found


def test_good_markers_are_not_reported() -> None:
    assert list(bad_markers(ROWS, [proof("a.md#one"), proof("a.md#*")])) == []


def test_an_exempt_row_that_a_pattern_matches_counts_as_exempt() -> None:
    rows = rows_of("a.md", PAGE)
    tests = "import pytest\n@pytest.mark.proves('a.md#f*')\ndef test_a(): ...\n"
    proofs = matched(rows, [*proofs_of("tests/unit/test_a.py", tests)])
    assert [*counts(rows, proofs)] == [
        ("tested by `make check`", 5),
        ("tested by `make test`", 0),
        ("tested by `make test-all`", 0),
        ("without a test", 1),
        ("exempt: tables and sections that promise nothing", 2),
        ("all", 8),
    ]
