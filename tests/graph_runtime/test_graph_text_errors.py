"""Graph texts that do not parse: each error names the place, the fault and what would be right."""

from __future__ import annotations

import pytest

from graph_runtime.errors import GraphConfigError, GraphSyntaxError
from graph_runtime.language.graph_config import parse_graph_text
from graph_runtime.language.text_parser import MAX_DEPTH

OPTIONS = "node { options { [mediapipe.GateCalculatorOptions.ext] { %s } } }"
ANY = "node { node_options { [type.googleapis.com/%s] { } } }"


def fault(text: str) -> GraphSyntaxError:
    with pytest.raises(GraphSyntaxError) as caught:
        parse_graph_text(text, source="graph.pbtxt")
    return caught.value


@pytest.mark.parametrize(
    ("text", "place", "reason", "hint"),
    [
        # Names
        (
            'node {\n  calulator: "A"\n}',
            (2, 3),
            "mediapipe.CalculatorGraphConfig.Node has no field `calulator`",
            'Did you mean "calculator"?',
        ),
        ("qqq: 1", (1, 1), "mediapipe.CalculatorGraphConfig has no field `qqq`", "`node`"),
        (
            'node { calculator: "A"\nnode { calculator: "B" }',
            (2, 1),
            "Node has no field `node`",
            "is a `}` missing for the `{` at 1:6?",
        ),
        (
            "node { options { [mediapipe.GatCalculatorOptions.ext] { } } }",
            (1, 19),
            "no extension `[mediapipe.GatCalculatorOptions.ext]`",
            "Did you mean `mediapipe.GateCalculatorOptions.ext`?",
        ),
        (
            "node { options { [mediapipe.GateCalculatorOptions] { } } }",
            (1, 19),
            "no extension",
            "write `[mediapipe.GateCalculatorOptions.ext]` here",
        ),
        (
            "node { options { [type.googleapis.com/mediapipe.GateCalculatorOptions] { } } }",
            (1, 19),
            "no extension",
            "`[type.googleapis.com/mediapipe.GateCalculatorOptions]` in node_options",
        ),
        (
            "node { options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { } } }",
            (1, 19),
            "extends mediapipe.MediaPipeOptions, not mediapipe.CalculatorOptions",
            None,
        ),
        (
            "node { options { [mediapipe.ImmediateMuxCalculatorOptions.ext] { } } }",
            (1, 19),
            "no extension",
            None,
        ),
        ("[acme.X.ext] { }", (1, 2), "no extension `[acme.X.ext]`", None),
        (
            ANY % "mediapipe.GateCalculatorOpts",
            (1, 24),
            "no message type `mediapipe.GateCalculatorOpts` is registered",
            "Did you mean `mediapipe.GateCalculatorOptions`?",
        ),
        (
            ANY % "acme.QqqqqqOptions",
            (1, 24),
            "no message type `acme.QqqqqqOptions`",
            "when their module is imported",
        ),
        (
            "node { node_options { [mediapipe.GateCalculatorOptions] { } } }",
            (1, 24),
            "needs a URL",
            "write `[type.googleapis.com/mediapipe.GateCalculatorOptions]`",
        ),
        (
            "node { node_options { [mediapipe.GateCalculatorOptions.ext] { } } }",
            (1, 24),
            "is an extension, not a message type",
            "write `[type.googleapis.com/mediapipe.GateCalculatorOptions]` here",
        ),
        (
            "node { node_options { allow: true } }",
            (1, 23),
            "expected `[type.googleapis.com/package.Type] { ... }`, found `allow`",
            "by their type's name",
        ),
        (
            "node { node_options { [t/mediapipe.GateCalculatorOptions] {}"
            " [t/mediapipe.BypassCalculatorOptions] {} } }",
            (1, 63),
            "one google.protobuf.Any holds one message",
            "another `node_options { ... }`",
        ),
        # Values
        ('num_threads: "3"', (1, 14), 'is a 32-bit integer, found `"3"`', "without quotes"),
        ("num_threads: 1.5", (1, 14), "is a 32-bit integer, found `1.5`", None),
        ("num_threads: 08", (1, 14), "is a 32-bit integer, found `08`", None),
        ("num_threads: 2147483648", (1, 14), "found `2147483648`", "-2147483648 to 2147483647"),
        ("num_threads: -x", (1, 14), "found `-x`", None),
        ("num_threads: [1]", (1, 14), "found `[`", None),
        ("runtime_info { capture_period_msec: -1 }", (1, 37), "not negative", "0 to 4294967295"),
        ("report_deadlock: yes", (1, 18), "is true or false, found `yes`", None),
        ("report_deadlock: 2", (1, 18), "is true or false, found `2`", None),
        ("type: Graph", (1, 7), "is a string, found `Graph`", "put it in quotes"),
        ('type "x"', (1, 6), "expected `:` after `type`", "type is a string"),
        ("type:", (1, 6), "found the end of the text", None),
        (
            OPTIONS % "initial_gate_state: GATE_ALOW",
            (1, 78),
            "is one of UNSPECIFIED (0), GATE_UNINITIALIZED (1)",
            'Did you mean "GATE_ALLOW"',
        ),
        (OPTIONS % "initial_gate_state: 9", (1, 78), "found `9`", None),
        (OPTIONS % "allow: true allow: false", (1, 70), "set a second time", "repeated field"),
        (
            "node { options {} options {} }",
            (1, 19),
            "`options` is set a second time; the first is at 1:8",
            None,
        ),
        (
            "node { options { [mediapipe.ConstantSidePacketCalculatorOptions.ext] {"
            ' packet { int_value: 1 string_value: "x" } } } }',
            (1, 94),
            "`string_value` cannot be set together with `int_value`",
            None,
        ),
        (
            ANY % "mediapipe.LLMCalculatorOptions",
            (1, 76),
            "mediapipe.LLMCalculatorOptions needs `models_path`",
            None,
        ),
        # Strings
        ('type: "x\nnode {}', (1, 7), "this string has no end on its line", 'close it with "'),
        ("type: 'x", (1, 7), "this string has no end on its line", "close it with '"),
        (r'type: "ab\qc"', (1, 10), r"cannot hold the escape `\q`", None),
        (r'type: "\400"', (1, 8), r"cannot hold the escape `\400`", None),
        (r'type: "\ud800"', (1, 8), r"cannot hold the escape `\ud800`", None),
        (r'type: "\xff"', (1, 7), "not UTF-8", None),
        # Structure
        ("node {", (1, 7), "the text ends, but the `{` at 1:6 is still open", "add `}`"),
        ("node {\n <", (2, 2), "expected the name of a field", None),
        ("node { >", (1, 8), "expected `}` for the `{` at 1:6, found `>`", None),
        ("node < }", (1, 8), "expected `>` for the `<` at 1:6, found `}`", None),
        ("node { } }", (1, 10), "`}` closes nothing", None),
        ("node: 5", (1, 7), "expected `{` after `node`, found `5`", "write `node { ... }`"),
        ("node", (1, 5), "expected `{` after `node`, found the end of the text", None),
        ("node [ {} {} ]", (1, 11), "expected `,` or `]` in the list of `node`", None),
        ("node [ {}, ]", (1, 12), "expected `{` after `node`, found `]`", None),
        ('input_stream: ["a"', (1, 19), "expected `,` or `]`", None),
        ("node { options { [mediapipe.X.ext { } } }", (1, 18), "this `[` has no `]`", None),
        ("%", (1, 1), "expected the name of a field", None),
        ("// two\nnode {}", (1, 1), "expected the name of a field", "comments begin with #"),
        ('{"node": []}', (1, 1), "expected the name of a field", "no braces stand around"),
        ("num_threads: 1,, num_threads: 2", (1, 16), "found `,`", None),
    ],
)
def test_the_error_names_place_fault_and_remedy(
    text: str, place: tuple[int, int], reason: str, hint: str | None
) -> None:
    error = fault(text)

    assert (error.line, error.column) == place, str(error)
    assert reason in error.reason
    if hint is not None:
        assert hint in str(error.hint)
    assert str(error).startswith(f"graph.pbtxt:{place[0]}:{place[1]}: ")


def test_columns_count_characters_after_a_byte_order_mark() -> None:
    error = fault('\ufefftype: "é😀" qqq: 1')
    assert (error.line, error.column) == (1, 12)


def test_deep_nesting_is_an_error_and_not_a_crash() -> None:
    inner = "node { options { [mediapipe.SwitchContainerOptions.ext] { contained_node {"
    again = "options { [mediapipe.SwitchContainerOptions.ext] { contained_node {"

    error = fault(inner + again * 10_000)

    assert f"nested more than {MAX_DEPTH} deep" in error.reason


@pytest.mark.parametrize(
    "text", ["{" * 100_000, "[" * 100_000, "node " * 50_000, "node { " * 50_000, '"' * 100_001]
)
def test_hostile_texts_are_errors_and_not_crashes(text: str) -> None:
    assert isinstance(fault(text), GraphConfigError)


def test_an_error_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="<text>:1:1"):
        parse_graph_text("?")


SEVERAL = """\
node {
  calculator: "A"
  node_options { [type.googleapis.com/acme.Unknown] { a: 1 b { c: "}" } d: [1, 2] } }
  options { [acme.Unknown.ext] { z < y: 2 > } }
}
nod { a: [ { b: 1 } ] }
node { name: 3 calculator: "B" max_in_flight: many name: "x" }
output_stream: "out"
"""


def test_all_errors_of_a_text_are_reported() -> None:
    with pytest.raises(GraphSyntaxError) as caught:
        parse_graph_text(SEVERAL, source="g")
    errors = (caught.value, *caught.value.others)
    assert [(each.line, each.reason) for each in errors] == [
        (3, "no message type `acme.Unknown` is registered"),
        (4, "no extension `[acme.Unknown.ext]` of mediapipe.CalculatorOptions is registered"),
        (6, "mediapipe.CalculatorGraphConfig has no field `nod`"),
        (7, "`name` is a string, found `3`"),
        (7, "`max_in_flight` is a 32-bit integer, found `many`"),
        (7, "`name` is set a second time; the first is at 7:8"),
    ]
    text = str(caught.value)
    assert all(
        f"g:{each.line}:{each.column}: parse error: {each.reason}" in text for each in errors
    )


def test_an_error_that_cannot_be_skipped_is_the_last() -> None:
    with pytest.raises(GraphSyntaxError) as caught:
        parse_graph_text('nod { a: 1 }\nnode { calculator: "A"\noptions ] }')
    assert [each.line for each in (caught.value, *caught.value.others)] == [1, 3]


def test_a_missing_brace_is_one_error() -> None:
    with pytest.raises(GraphSyntaxError) as caught:
        parse_graph_text('node { calculator: "A"\nnode { calculator: "B" }\nnode { name: 3 }')
    assert caught.value.others == ()
    assert "is a `}` missing" in str(caught.value)


def test_the_number_of_errors_is_bounded() -> None:
    with pytest.raises(GraphSyntaxError) as caught:
        parse_graph_text("nod: 1\n" * 5000)
    assert len(caught.value.others) == 99
