"""Graphs in protobuf's text format: every spelling that existing graph files use."""

from __future__ import annotations

import math
from typing import Any

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.language.graph_config import graph_to_text, new_graph_config, parse_graph_text
from protos.pool import add_file, message_class, pool
from tests.example_counts import examples


def node(text: str) -> Any:
    """Return the only node of a graph text."""
    config = parse_graph_text(text)
    assert len(config.node) == 1
    return config.node[0]


def gate(text: str) -> Any:
    """Return the GateCalculatorOptions that hold ``text``."""
    options = node(f"node {{ options {{ [mediapipe.GateCalculatorOptions.ext] {{ {text} }} }} }}")
    return options.options.Extensions[
        pool().FindExtensionByName("mediapipe.GateCalculatorOptions.ext")
    ]


@pytest.mark.parametrize(
    "text",
    [
        'node { calculator: "A" name: "n" }',
        'node: { calculator: "A", name: "n" }',
        'node < calculator: "A"; name: "n" >',
        'node: < calculator: "A" name: "n" >;',
        'node [ { calculator: "A" name: "n" } ]',
        'node: [ < calculator: "A" name: "n" > ],',
        'node{calculator:"A"name:"n"}',
        "node\n{\r\n\tcalculator : 'A'\n\n name\n:\n'n' }",
        '# first\nnode { # second "x" }\n calculator: "A" name: # third\n "n" } # last',
        '\ufeffnode { calculator: "A" name: "n" }',
    ],
)
def test_a_message_can_be_written_in_many_ways(text: str) -> None:
    assert (node(text).calculator, node(text).name) == ("A", "n")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a'", "a"),
        ('"it\'s"', "it's"),
        ("'say \"x\"'", 'say "x"'),
        ('"a" "b"\n\'c\'', "abc"),
        ('"a" # comment\n "b"', "ab"),
        (r'"\n\t\r\a\b\f\v\\\'\"\?"', "\n\t\r\a\b\f\v\\'\"?"),
        (r'"\x41\X42\101\60"', "ABA0"),
        (r'"\x4g"', "\x04g"),
        (r'"\303\251"', "é"),
        (r'"\u00e9\U0001F600"', "é😀"),
        ('"é😀"', "é😀"),
        ('"# not a comment"', "# not a comment"),
        ('""', ""),
    ],
)
def test_strings_have_escapes_and_may_be_joined(text: str, value: str) -> None:
    assert parse_graph_text(f"type: {text}").type == value


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('input_stream: "a" input_stream: "b"', ["a", "b"]),
        ('input_stream: ["a", "b"]', ["a", "b"]),
        ('input_stream: ["a" "b"]', ["ab"]),
        ("input_stream: []", []),
        ('input_stream: ["a"], input_stream: "b"; input_stream: ["c"]', ["a", "b", "c"]),
    ],
)
def test_lists_of_scalars_may_be_in_brackets(text: str, values: list[str]) -> None:
    assert list(parse_graph_text(text).input_stream) == values


def test_lists_of_messages_may_be_in_brackets() -> None:
    config = parse_graph_text(
        'node [ { calculator: "A" }, < calculator: "B" > ] node: [] node { calculator: "C" }'
    )
    assert [each.calculator for each in config.node] == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("text", "value"),
    [("7", 7), ("-7", -7), ("- 7", -7), ("0x1F", 31), ("0X1f", 31), ("017", 15), ("0", 0)],
)
def test_integers_have_three_bases(text: str, value: int) -> None:
    assert parse_graph_text(f"num_threads: {text}").num_threads == value


@pytest.mark.parametrize("word", ["true", "t", "True", "1"])
def test_true_has_several_spellings(word: str) -> None:
    assert parse_graph_text(f"report_deadlock: {word}").report_deadlock is True


@pytest.mark.parametrize("word", ["false", "f", "False", "0"])
def test_false_has_several_spellings(word: str) -> None:
    assert parse_graph_text(f"report_deadlock: {word}").report_deadlock is False


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1.5E-3", 0.0015),
        ("1f", 1.0),
        ("2.5F", 2.5),
        ("-2.5", -2.5),
        ("inf", math.inf),
        ("-inf", -math.inf),
        ("Infinity", math.inf),
    ],
)
def test_floats_have_several_spellings(text: str, value: float) -> None:
    options = message_class("mediapipe.PacketResamplerCalculatorOptions")
    held = node(
        "node { node_options { [type.googleapis.com/mediapipe.PacketResamplerCalculatorOptions]"
        f" {{ frame_rate: {text} }} }} }}"
    ).node_options[0]
    assert options.FromString(held.value).frame_rate == value  # type: ignore[attr-defined]


def test_nan_is_read() -> None:
    held = node(
        "node { node_options { [type.googleapis.com/mediapipe.PacketResamplerCalculatorOptions]"
        " { frame_rate: nan } } }"
    ).node_options[0]
    options: Any = message_class("mediapipe.PacketResamplerCalculatorOptions").FromString(
        held.value
    )
    assert math.isnan(options.frame_rate)


@pytest.mark.parametrize("text", ["GATE_ALLOW", "2", "0x2"])
def test_enums_are_read_by_name_and_number(text: str) -> None:
    assert gate(f"initial_gate_state: {text}").initial_gate_state == 2


@pytest.mark.parametrize(
    "name",
    [
        "[mediapipe.GateCalculatorOptions.ext]",
        "[ mediapipe.GateCalculatorOptions.ext ]:",
        "[mediapipe . GateCalculatorOptions # why\n . ext]",
    ],
)
def test_extensions_are_read(name: str) -> None:
    text = f"node {{ options: {{ {name} {{ allow: true }} }} }}"
    extension = pool().FindExtensionByName("mediapipe.GateCalculatorOptions.ext")
    assert node(text).options.Extensions[extension].allow is True


@pytest.mark.parametrize(
    ("name", "url"),
    [
        (
            "[type.googleapis.com/mediapipe.GateCalculatorOptions]",
            "type.googleapis.com/mediapipe.GateCalculatorOptions",
        ),
        (
            "[type.googleapis.com / mediapipe.GateCalculatorOptions]:",
            "type.googleapis.com/mediapipe.GateCalculatorOptions",
        ),
        (
            "[\n my-types.example.org/a/b_c~1%20/mediapipe.GateCalculatorOptions ]",
            "my-types.example.org/a/b_c~1%20/mediapipe.GateCalculatorOptions",
        ),
    ],
)
def test_any_is_read_with_its_type(name: str, url: str) -> None:
    held = node(f"node {{ node_options: {{ {name} {{ allow: true }} }} }}").node_options[0]
    assert held.type_url == url
    options: Any = message_class("mediapipe.GateCalculatorOptions").FromString(held.value)
    assert options.allow is True


def test_any_is_read_by_its_own_fields() -> None:
    held = node(
        'node { node_options { type_url: "t/mediapipe.GateCalculatorOptions"'
        ' value: "\\x10\\x01" } }'
    ).node_options[0]
    options: Any = message_class("mediapipe.GateCalculatorOptions").FromString(held.value)
    assert options.allow is True


def test_maps_are_read() -> None:
    held = node(
        "node { node_options { [t/mediapipe.PyTensorOvTensorConverterCalculatorOptions] {"
        ' tag_to_output_tensor_names { key: "A" value: "a" }'
        ' tag_to_output_tensor_names: [ < value: "b", key: "B" >, { key: "A" value: "c" } ]'
        " } } }"
    ).node_options[0]
    kind = message_class("mediapipe.PyTensorOvTensorConverterCalculatorOptions")
    options: Any = kind.FromString(held.value)
    assert dict(options.tag_to_output_tensor_names) == {"A": "c", "B": "b"}


def test_options_of_a_node_may_hold_nodes() -> None:
    options = node(
        "node { options { [mediapipe.SwitchContainerOptions.ext] {"
        ' contained_node: { calculator: "A" options: {'
        " [mediapipe.GateCalculatorOptions.ext]: { allow: true } } } } } }"
    )
    switch = options.options.Extensions[
        pool().FindExtensionByName("mediapipe.SwitchContainerOptions.ext")
    ]
    assert switch.contained_node[0].options.ListFields()[0][1].allow is True


SERVING_GRAPH = """
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"

node: {
  name: "LLMExecutor",
  calculator: "HttpLLMCalculator"
  input_stream: "LOOPBACK:loopback"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  output_stream: "LOOPBACK:loopback"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  input_stream_info: {
    tag_index: 'LOOPBACK:0',
    back_edge: true
  }
  node_options: {
      [type.googleapis.com / mediapipe.LLMCalculatorOptions]: {
          models_path: "./",
          plugin_config: '{"KV_CACHE_PRECISION": "u8"}',
          cache_size: 10
          device: "CPU"
          cache_eviction_config: { start_size: 32 recent_size: 64 max_cache_size: 128 }
      }
  }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler",
    options {
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] {
        sync_set {
          tag_index: "LOOPBACK:0"
        }
      }
    }
  }
}
"""


def test_a_serving_graph_of_the_field_is_read() -> None:
    served = node(SERVING_GRAPH)
    kind = message_class("mediapipe.LLMCalculatorOptions")
    options: Any = kind.FromString(served.node_options[0].value)

    assert served.input_stream_info[0].back_edge is True
    assert options.models_path == "./"
    assert options.cache_size == 10
    assert options.max_num_seqs == 256
    assert options.cache_eviction_config.aggregation_mode == 1
    assert options.pipeline_type == kind.DESCRIPTOR.fields_by_name["pipeline_type"].default_value


def test_the_printed_text_of_a_graph_parses_to_the_graph() -> None:
    config = parse_graph_text(SERVING_GRAPH)
    text = graph_to_text(config)

    assert "[type.googleapis.com/mediapipe.LLMCalculatorOptions] {" in text
    assert parse_graph_text(text) == config


def test_an_empty_text_is_an_empty_graph() -> None:
    assert parse_graph_text("  # nothing\n") == new_graph_config()


words = st.text(st.characters(codec="utf-8"), max_size=12)
integers = st.integers(-(2**31), 2**31 - 1)
nodes = st.fixed_dictionaries(
    {},
    optional={
        "calculator": words,
        "input_stream": st.lists(words, max_size=3),
        "source_layer": integers,
        "input_stream_info": st.lists(
            st.fixed_dictionaries({}, optional={"tag_index": words, "back_edge": st.booleans()}),
            max_size=2,
        ),
        "profiler_config": st.fixed_dictionaries(
            {"trace_log_capacity": st.integers(-(2**63), 2**63 - 1)}
        ),
    },
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(nodes, max_size=3), integers)
def test_text_of_protobufs_own_printer_is_read(nodes: list[dict[str, Any]], threads: int) -> None:
    config = new_graph_config(node=nodes, num_threads=threads)

    for as_utf8 in (True, False):
        for one_line in (True, False):
            text = text_format.MessageToString(config, as_utf8=as_utf8, as_one_line=one_line)
            assert parse_graph_text(text) == config
    assert parse_graph_text(graph_to_text(config)) == config


def test_extensions_may_be_scalars() -> None:
    file = FileDescriptorProto(name="texttest.proto", package="texttest", syntax="proto2")
    file.dependency.append("mediapipe/framework/calculator_options.proto")
    for name, number, label in (("count", 499_200_001, 1), ("names", 499_200_002, 3)):
        kind = 5 if name == "count" else 9
        file.extension.add(
            name=name,
            number=number,
            label=label,
            type=kind,
            extendee=".mediapipe.CalculatorOptions",
        )
    add_file(file)

    options = node(
        "node { options { [texttest.count]: 3, [texttest.names]: ['a', 'b']"
        " [texttest.names]: 'c' } }"
    ).options

    assert options.Extensions[pool().FindExtensionByName("texttest.count")] == 3
    assert list(options.Extensions[pool().FindExtensionByName("texttest.names")]) == ["a", "b", "c"]
