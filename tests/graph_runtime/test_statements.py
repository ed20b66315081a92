"""Statements of texts that are right, and of texts that are being written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graph_runtime.language.source_map import node_positions
from graph_runtime.language.statements import DraftText
from tests.support.checkout import ROOT

GRAPHS = sorted((ROOT / "examples" / "graphs").rglob("*.pbtxt"))
GRAPH = """\
input_stream: "IN:a"
node {
  calculator: 'First'
  input_stream: ["A:a", "B:0:b"]
  options { [mediapipe.SomeOptions.ext] { count: -3 mode: FAST } }
}
node [ { calculator: "Second" }, < calculator: "Third" > ]
"""


def found(text: str) -> list[tuple[tuple[str, ...], str, str, int | None]]:
    draft = DraftText.read(text)
    return [(each.path, each.name, each.value, each.node) for each in draft.statements]


def test_every_value_has_its_field_path_and_node() -> None:
    options = ("node", "options", "[mediapipe.SomeOptions.ext]")
    assert found(GRAPH) == [
        ((), "input_stream", "IN:a", None),
        (("node",), "calculator", "First", 0),
        (("node",), "input_stream", "A:a", 0),
        (("node",), "input_stream", "B:0:b", 0),
        (options, "count", "3", 0),
        (options, "mode", "FAST", 0),
        (("node",), "calculator", "Second", 1),
        (("node",), "calculator", "Third", 2),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('node { calculator: "Fi', [(("node",), "calculator", "Fi", 0)]),
        ("node { calculator: }", [(("node",), "calculator", "", 0)]),
        (
            'node { calculator: "A\n input_stream: "x"',
            [(("node",), "calculator", "A", 0), (("node",), "input_stream", "x", 0)],
        ),
        (
            'node { calculator:\n input_stream: "b" }',
            [(("node",), "calculator", "", 0), (("node",), "input_stream", "b", 0)],
        ),
        ("node { mode:\n FAST }", [(("node",), "mode", "FAST", 0)]),
        ('} ] > input_stream: "a"', [((), "input_stream", "a", None)]),
    ],
)
def test_texts_that_are_being_written_have_statements_too(
    text: str, expected: list[object]
) -> None:
    assert found(text) == expected


def test_places_are_those_of_the_text() -> None:
    draft = DraftText.read(GRAPH)
    for each in draft.statements:
        assert GRAPH[each.start : each.end] == each.text
        assert draft.offset(*draft.place(each.start)) == each.start
    assert draft.place(draft.statements[1].start) == (3, 15)
    block = draft.block_at(GRAPH.index("count"))
    assert block is not None
    assert [each.value for each in draft.in_block(block)] == ["3", "FAST"]


@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.stem)
def test_nodes_of_examples_are_where_the_parser_finds_them(path: Path) -> None:
    text = path.read_text()
    draft = DraftText.read(text)
    nodes = [each for each in draft.blocks if each.path == ("node",)]
    assert [draft.place(each.name_start) for each in nodes] == node_positions(text)


@given(st.text(alphabet="node{}[]<>:,;\"'\n#ab1.-\ufeff ", max_size=60))
@example(':["')
def test_no_text_is_refused(text: str) -> None:
    draft = DraftText.read(text)
    for each in draft.statements:
        assert 0 <= each.start <= each.end <= len(text)
    for block in draft.blocks:
        assert block.start <= block.end <= len(text)
        draft.place(block.start)
