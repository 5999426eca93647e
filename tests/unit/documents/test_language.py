"""The check of plain English finds what it should."""

from __future__ import annotations

import pytest

from tools.documents import language


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The operator creates the pod again.", 0),
        ("The operator makes the pod anew. Somebody is told.", 2),
        ("Of a job that ends nobody speaks.", 2),
        ("There is no room for it; it is no part.", 2),
        ("A Warning tells the asker that the operator is away.", 3),
        ("word " * 36 + "end.", 1),
        ("word " * 20 + "end. " + "Word " * 20 + "end.", 0),
        ("- " + "word " * 30 + "\n- " + "word " * 30, 0),
        ("| " + "word " * 30 + " | " + "word " * 30 + " |\n|---|---|", 0),
        ("```\nanew nobody\n```\n", 0),
        ("The field `anew` and the [page](anew.md).", 0),
        ("<!-- not plain: quotes an older message -->\nIt is made anew.\n\nIt is made anew.", 1),
    ],
)
def test_retired_words_and_long_sentences_are_counted(text: str, count: int) -> None:
    assert len([*language.faults(language.blocks(text))]) == count


def test_comments_of_consecutive_lines_are_one_block() -> None:
    text = "# Made\n# anew.\nkey: anew\n  # More.\nother: 1 # At its end.\n"
    assert language.comments(text) == ["Made anew.", "More."]


def test_public_docstrings_and_help_texts_are_prose() -> None:
    source = '"""A module."""\nrun(help="Help.", other="Other.")\ndef f():\n  "Public."\n'
    source += 'def _g():\n  "Private."\nclass C:\n  "A class."\n'
    found = [
        language.blocks(text.removeprefix("\N{PILCROW SIGN}")) for text in language.prose(source)
    ]
    assert sorted(found) == [["A class."], ["A module."], ["Help."], ["Public."]]


def test_a_docstring_that_begins_with_a_clause_is_a_fault() -> None:
    source = 'def f():\n  "Whether it is open."\ndef g():\n  "Return whether it is open."\n'
    blocks = [b for text in language.prose(source) for b in language.entries(text)]
    assert [*language.faults(blocks)] == ["begins with a clause: Whether it is open."]


def test_each_argument_of_a_docstring_is_a_block() -> None:
    text = "Do it.\n\nArgs:\n    one: first.\n    two, three: the others."
    assert language.entries(text) == ["Do it.", "Args:", "one: first.", "two, three: the others."]


def test_each_fault_of_a_page_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "texts", lambda: [("a.md", ["Made anew."]), ("b.md", ["New."])])
    assert language.problems() == ["a.md: 'anew' in: Made anew."]


def test_a_reader_who_searches_for_a_standard_term_finds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(language, "texts", list)
    assert language.problems() == []
    monkeypatch.setattr(language, "TERMS", ("a term that no page has",))
    assert language.problems()[-1] == "no page has the term 'a term that no page has'"
