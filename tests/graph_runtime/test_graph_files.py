"""Graphs in files and in binary: accepted forms, and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph_runtime.errors import GraphConfigError, GraphSyntaxError
from graph_runtime.language.graph_config import (
    MAX_BYTES,
    graph_to_binary,
    graph_to_text,
    load_graph_config,
    parse_graph_binary,
    parse_graph_text,
)

TEXT = """
# é
node {
  calculator: "GateCalculator"
  options { [mediapipe.GateCalculatorOptions.ext] { allow: true } }
  node_options { [type.googleapis.com/mediapipe.BypassCalculatorOptions] { } }
  node_options {
    [t/mediapipe.PyTensorOvTensorConverterCalculatorOptions] {
      tag_to_output_tensor_names { key: "A" value: "a" }
    }
  }
}
"""


def test_a_text_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    path.write_text(TEXT, encoding="utf-8")

    assert load_graph_config(path) == parse_graph_text(TEXT)
    assert load_graph_config(str(path)) == parse_graph_text(TEXT)


@pytest.mark.parametrize("text", [TEXT, 'type: "é"', "num_threads: 300", 'node { name: "n" }'])
def test_a_binary_file_is_read_whatever_its_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    config = parse_graph_text(text)
    path.write_bytes(graph_to_binary(config))

    assert load_graph_config(path) == config


def test_an_empty_file_is_an_empty_graph(tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    path.touch()

    assert graph_to_text(load_graph_config(path)) == ""


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphConfigError, match=r"nothing\.pbtxt: no such file"):
        load_graph_config(tmp_path / "nothing.pbtxt")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphConfigError, match=r"this is a directory.*graph\.pbtxt"):
        load_graph_config(tmp_path)


def test_an_impossible_path_is_refused() -> None:
    with pytest.raises(GraphConfigError, match="cannot be read"):
        load_graph_config("graph\0.pbtxt")


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    path.write_bytes("# one\n# é ".encode() + b"\xe9\nnode {}")

    with pytest.raises(GraphSyntaxError, match="the byte 0xe9 is not UTF-8") as caught:
        load_graph_config(path)
    assert (caught.value.line, caught.value.column) == (2, 5)


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\0\0\0", b"\0" * 100, b"\x0a\xff\xff"])
def test_a_file_that_is_neither_text_nor_binary_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    path.write_bytes(content)

    with pytest.raises(GraphConfigError, match=r"graph\.pbtxt:"):
        load_graph_config(path)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)

    with pytest.raises(GraphConfigError, match="too large for a graph"):
        load_graph_config(path)


def test_errors_in_a_file_name_it(tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    path.write_text("node {\n  oops: 1\n}")

    with pytest.raises(GraphSyntaxError, match=r"graph\.pbtxt:2:3: .*`oops`"):
        load_graph_config(path)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"\xa8\x46\x01", "graph: .*no field or extension with the number 1125"),
        (b"\x0a\x05\x3a\x03\xa2\xe2\x09", "not a binary graph"),
        (b"\x0a\x06\x3a\x04\x82\xe2\x09\x00", r"graph\.node\[0\]\.options: .*number 20000"),
        (b"\x0a\x08\x42\x06\x0a\x04t/aX", r"graph\.node\[0\]\.node_options\[0\]: .*\"aX\""),
        (b"not a graph", "not a binary graph"),
    ],
)
def test_binary_with_unknown_fields_is_refused(data: bytes, match: str) -> None:
    with pytest.raises(GraphConfigError, match=match):
        parse_graph_binary(data)


def test_a_damaged_any_in_binary_is_refused() -> None:
    config = parse_graph_text(TEXT)
    config.node[0].node_options[0].value = b"\x0a\x05a"

    with pytest.raises(GraphConfigError, match=r"damaged mediapipe\.BypassCalculatorOptions"):
        parse_graph_binary(graph_to_binary(config))
