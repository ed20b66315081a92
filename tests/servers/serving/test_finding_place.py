"""A finding stands at the word that it is about."""

from __future__ import annotations

import pytest

from graph_runtime.language.statements import DraftText
from servers.contract.finding import Finding, with_word

TEXT = """\
input_stream: "IN:number"
node {
  name: "second"
  calculator: "Double"
  input_stream: "IN:numbr"
  output_stream: "OUT:1:numbr2"
}
node { calculator: "Double" input_stream: "number" }
"""
DRAFT = DraftText.read(TEXT)


@pytest.mark.parametrize(
    ("message", "expected", "field"),
    [
        ('input stream "numbr" has no producer. Did you mean "number"?', '"IN:numbr"', "input"),
        ('output stream "numbr2" is made twice', '"OUT:1:numbr2"', "output"),
        ('node "second" has no use for the tag "OUT:1"', '"OUT:1:numbr2"', "output"),
        ('Unable to find Calculator "Double"', '"Double"', "calculator"),
        ("Double::GetContract failed: a port is missing", '"Double"', "calculator"),
        ('something about "another thing"', "node", None),
    ],
)
def test_a_finding_about_a_node_is_moved_to_the_value_that_it_quotes(
    message: str, expected: str, field: str | None
) -> None:
    found = with_word(Finding("graph.pbtxt", "error", message, 2, 1, "second"), DRAFT)
    assert found.line is not None
    assert found.line == found.end_line
    line = TEXT.splitlines()[found.line - 1]
    assert found.column is not None
    assert found.end_column is not None
    assert line[found.column - 1 : found.end_column - 1] == expected
    assert (found.field or "").startswith(f"node.{field}" if field else "")
    assert found.message == message


def test_other_findings_keep_their_place() -> None:
    assert with_word(Finding("graph.pbtxt", "error", "no file"), DRAFT).end_column is None
    own = with_word(Finding("graph.pbtxt", "warning", 'nobody reads "number"', 1, 15), DRAFT)
    assert (own.line, own.column, own.end_column, own.field) == (1, 15, 26, "input_stream")
    syntax = with_word(Finding("graph.pbtxt", "error", "no field `calculatr`", 4, 3), DRAFT)
    assert (syntax.line, syntax.column, syntax.end_column) == (4, 3, 13)
    end = with_word(Finding("graph.pbtxt", "error", "the text ends", 9, 1), DRAFT)
    assert (end.line, end.column) == (9, 1)
