"""Completion, hover and renaming in graph files, finished and unfinished."""

from __future__ import annotations

import pytest

import calculators
from graph_runtime import REGISTRY, Registry
from graph_runtime.language.statements import DraftText
from servers.cli.editor.completion import Catalog, complete, use_at, uses_like
from servers.cli.editor.language_server import check_file, hover, remedies, replacement, suggested

calculators.register_all(REGISTRY)
CATALOG = Catalog(REGISTRY)

GRAPH = """\
input_stream: "image"
node {
  calculator: "FlowLimiterCalculator"
  input_stream: "image"
  input_stream: "FINISHED:found"
  output_stream: "slow_image"
  options { [mediapipe.FlowLimiterCalculatorOptions.ext] { max_in_flight: 1 } }
}
node { calculator: "PassThroughCalculator" input_stream: "slow_image" output_stream: "found" }
"""


def proposals(marked: str) -> dict[str, str]:
    """The texts after each proposal for the cursor at ``|``, by what it puts in."""
    offset = marked.index("|")
    text = marked.replace("|", "")
    return {
        each.text: text[: each.start] + each.text + text[each.end :]
        for each in complete(DraftText.read(text), offset, CATALOG)
    }


@pytest.mark.parametrize(
    ("marked", "text", "after"),
    [
        (
            'node { calculator: "Pass|',
            "PassThroughCalculator",
            'node { calculator: "PassThroughCalculator',
        ),
        (
            'node { calculator: "|" }',
            "FlowLimiterCalculator",
            'node { calculator: "FlowLimiterCalculator" }',
        ),
        ("node { calculator: |", '"GateCalculator"', 'node { calculator: "GateCalculator"'),
        (
            'node { calculator: "FlowLimiterCalculator" input_stream: "|" }',
            "FINISHED:",
            'node { calculator: "FlowLimiterCalculator" input_stream: "FINISHED:" }',
        ),
        (
            'input_stream: "image" node { input_stream: "IN:im|" }',
            "IN:image",
            'input_stream: "image" node { input_stream: "IN:image" }',
        ),
        (
            'node { output_stream: "OUT:made" } output_stream: "|',
            "made",
            'node { output_stream: "OUT:made" } output_stream: "made',
        ),
        ("node { calc| }", 'calculator: ""', 'node { calculator: "" }'),
        ("nod|", "node {  }", "node {  }"),
        (
            'node { calculator: "FlowLimiterCalculator" options { [| } }',
            "[mediapipe.FlowLimiterCalculatorOptions.ext] {  }",
            'node { calculator: "FlowLimiterCalculator" options { '
            "[mediapipe.FlowLimiterCalculatorOptions.ext] {  } } }",
        ),
        (
            "node { options { [mediapipe.FlowLimiterCalculatorOptions.ext] { max_in| } } }",
            "max_in_flight: ",
            "node { options { [mediapipe.FlowLimiterCalculatorOptions.ext] { max_in_flight:  } } }",
        ),
        (
            "node { options { [mediapipe.ImageTransformationCalculatorOptions.ext] "
            "{ rotation_mode: | } } }",
            "ROTATION_90",
            "node { options { [mediapipe.ImageTransformationCalculatorOptions.ext] "
            "{ rotation_mode: ROTATION_90 } } }",
        ),
        (
            'node { input_stream_info { tag_index: "|" } input_stream: "LOOP:x" }',
            "LOOP",
            'node { input_stream_info { tag_index: "LOOP" } input_stream: "LOOP:x" }',
        ),
        (
            'executor { name: "pool" } node { executor: "|" }',
            "pool",
            'executor { name: "pool" } node { executor: "pool" }',
        ),
    ],
)
def test_words_that_fit_the_place_are_proposed(marked: str, text: str, after: str) -> None:
    found = proposals(marked)
    assert text in found, list(found)[:20]
    assert found[text] == after


def test_inputs_are_proposed_from_what_is_made_and_outputs_are_not() -> None:
    made = 'input_stream: "image" node { output_stream: "found" '
    assert {"image", "found"} <= proposals(made + 'input_stream: "|" }').keys()
    assert proposals(made + 'output_stream: "|" }').keys() == set()
    # Side packets are not streams.
    assert "image" not in proposals(made + 'input_side_packet: "|" }')


def test_a_field_that_stands_once_is_not_proposed_twice() -> None:
    found = proposals('node { calculator: "GateCalculator" | }')
    assert 'calculator: ""' not in found
    assert 'input_stream: ""' in found


def test_nothing_is_proposed_in_comments() -> None:
    assert proposals("node { # calc|\n}") == {}


def shown(text: str, word: str) -> str:
    found = hover(DraftText.read(text), text.index(word) + 1, CATALOG)
    return "" if found is None else found[0]


def test_hovering_describes_calculators_ports_streams_and_options() -> None:
    calculator = shown(GRAPH, '"FlowLimiterCalculator"')
    assert calculator.startswith("**FlowLimiterCalculator**")
    assert '"FINISHED:' in calculator  # the example: its ports depend on the node
    assert "`max_in_flight`" in calculator
    assert "`FINISHED`" in shown(GRAPH, '"FINISHED:found"')
    stream = shown(GRAPH, '"slow_image" output')
    assert "stream `slow_image`, of FlowLimiterCalculator; read in 1 place" in stream
    assert shown(GRAPH, "max_in_flight").startswith("`max_in_flight` int32")
    assert shown("# nothing", "nothing") == ""


def test_a_stream_is_found_wherever_it_is_used() -> None:
    draft = DraftText.read(GRAPH)
    use = use_at(draft, GRAPH.index("found") + 2)
    assert use is not None
    found = uses_like(draft, use)
    assert [GRAPH[each.start : each.end] for each in found] == ["found", "found"]
    assert [each.is_producer for each in found] == [False, True]
    assert use_at(draft, GRAPH.index("FINISHED")) is None


@pytest.mark.parametrize(
    ("written", "message", "after"),
    [
        ('"PasThrough"', 'Unable to find. Did you mean "PassThrough"?', '"PassThrough"'),
        ('"IN:numbr"', 'no producer. Did you mean "number"?', '"IN:number"'),
        ("'FINISHD:a'", 'no such tag. Did you mean "FINISHED"?', "'FINISHED:a'"),
        ("calculatr", 'Did you mean "calculator"?', "calculator"),
    ],
)
def test_what_is_meant_replaces_the_wrong_part_only(written: str, message: str, after: str) -> None:
    word = suggested(message, None)
    assert word is not None
    assert replacement(written, word) == after


def test_without_a_proposal_nothing_is_replaced() -> None:
    assert suggested("a port is missing", "add it") is None


@pytest.mark.parametrize(
    ("text", "title", "after"),
    [
        ('node { calculator: "PassThroughCalculator"', "Add }", "}"),
        ('input_stream: "a"\nnode { name: in }', "Put it in quotes", '"in"'),
        ('node { max_in_flight: "2" }', "Remove the quotes", "2"),
        ('node { calculator: "PasThroughCalculator" }', "Change to", '"PassThroughCalculator"'),
        (
            'node {\n    calculator: "HttpLLMCalculator"\n}',
            'Add input_stream: "LOOPBACK',
            'node {\n    input_stream: "LOOPBACK:loopback"',
        ),
    ],
)
def test_a_finding_says_how_it_is_mended(text: str, title: str, after: str) -> None:
    registry = Registry(REGISTRY)
    draft = DraftText.read(text)
    found = [
        remedy
        for finding in check_file("graph.pbtxt", text, registry)
        for remedy in remedies(
            draft,
            draft.offset(finding.line or 1, finding.column or 1),
            draft.offset(finding.end_line or finding.line or 1, finding.end_column or 1),
            finding,
        )
    ]
    (remedy,) = [each for each in found if each.title.startswith(title)]
    assert after in text[: remedy.start] + remedy.text
