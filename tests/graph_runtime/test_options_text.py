"""Types of options as text for people."""

from __future__ import annotations

import enum
from dataclasses import field
from typing import Any

import pytest

from graph_runtime.language.graph_config import parse_graph_text
from graph_runtime.options.options import find_options, options
from graph_runtime.options.options_text import OptionField, describe_options, options_snippet
from protos.pool import message_class


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


@options("showntest.Shown")
class Shown:
    path: str = field(metadata={"doc": "Where the words are."})
    mask: str = 'a"é'
    mode: Mode = Mode.SLOW
    words: tuple[str, ...] = ("x", "y")
    more: list[int] = field(default_factory=list)
    weights: dict[str, float] = field(default_factory=dict)
    raw: bytes = b"\0"
    keep: bool = True
    limit: int | None = None
    inner: Shown | None = None


def test_fields_of_a_dataclass_are_shown() -> None:
    assert describe_options(Shown) == [
        OptionField("path", "string", None, "Where the words are.", True),
        OptionField("mask", "string", '"a\\"é"', "", False),
        OptionField("mode", "FAST | SLOW", "SLOW", "", False),
        OptionField("words", "repeated string", '["x", "y"]', "", False),
        OptionField("more", "repeated int64", None, "", False),
        OptionField("weights", "map<string, double>", None, "", False),
        OptionField("raw", "bytes", '"\\000"', "", False),
        OptionField("keep", "bool", "true", "", False),
        OptionField("limit", "int64", None, "", False),
        OptionField("inner", "showntest.Shown", None, "", False),
    ]


def test_fields_of_a_message_are_shown_with_the_comments_of_its_file() -> None:
    fields = {each.name: each for each in describe_options("mediapipe.LLMCalculatorOptions")}
    assert fields["models_path"] == OptionField(
        "models_path", "string", None, "relative to the graph's directory", True
    )
    assert fields["pipeline_type"].default == "AUTO"
    assert fields["best_of_limit"] == OptionField("best_of_limit", "uint32", "20", "", False)


def test_a_snippet_shows_everything_and_parses() -> None:
    text = options_snippet(Shown)

    assert text == (
        "node_options {\n"
        "  [type.googleapis.com/showntest.Shown] {\n"
        '    path: ""  # string; Where the words are.\n'
        '    # mask: "a\\"é"  # string\n'
        "    # mode: SLOW  # FAST | SLOW\n"
        '    # words: ["x", "y"]  # repeated string\n'
        "    # more: 0  # repeated int64\n"
        "    # weights { ... }  # map<string, double>\n"
        '    # raw: "\\000"  # bytes\n'
        "    # keep: true  # bool\n"
        "    # limit: 0  # int64\n"
        "    # inner { ... }  # showntest.Shown\n"
        "  }\n"
        "}\n"
    )
    node = parse_graph_text(f"node {{ {text} }}").node[0]
    assert find_options(node, Shown) == Shown(path="")


@pytest.mark.parametrize(
    "name",
    [
        "mediapipe.LLMCalculatorOptions",
        "mediapipe.GateCalculatorOptions",
        "mediapipe.ConstantSidePacketCalculatorOptions",
        "mediapipe.PacketResamplerCalculatorOptions",
        "mediapipe.SwitchContainerOptions",
        "mediapipe.ImmediateMuxCalculatorOptions",
    ],
)
def test_a_snippet_without_its_comment_marks_parses_too(name: str) -> None:
    lines = [
        line.replace("    # ", "    ", 1)
        for line in options_snippet(name).splitlines()
        if "{ ... }" not in line
    ]
    config: Any = parse_graph_text("node {\n" + "\n".join(lines) + "\n}")
    assert config.node[0].node_options[0].type_url == f"type.googleapis.com/{name}"
    assert message_class(name)
