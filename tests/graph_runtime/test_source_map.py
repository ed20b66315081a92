"""Positions of nodes in a graph's text."""

from __future__ import annotations

import pytest

from graph_runtime.language.source_map import node_positions


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("", []),
        ("node {}", [(1, 1)]),
        ('# node {}\n  node: { name: "node {" }\nnode <\n>', [(2, 3), (3, 1)]),
        ("\ufeffnode {}\n node {}", [(1, 1), (2, 2)]),
        (
            "node [ {},\n < calculator: 'A' >, { input_stream: ['node', 'x'] } ] node {}",
            [(1, 8), (2, 2), (2, 23), (2, 57)],
        ),
        ('input_stream: ["node", "b"] type: "node" node{}', [(1, 42)]),
        (
            "node { options { [mediapipe.SwitchContainerOptions.ext] {\n"
            " contained_node { } } } node_options { [a-b.c/x%20~y/mediapipe.X]: { node { } } } }"
            "\nnode { }",
            [(1, 1), (3, 1)],
        ),
        ("profiler_config { } executor { name: 'node' } node { } num_threads: 1", [(1, 47)]),
        ('node {}\nnode { name: "open\nnode {}', [(1, 1), (2, 1)]),
        ("node node { } } node { }", [(1, 6)]),
    ],
)
def test_nodes_have_line_and_column(text: str, places: list[tuple[int, int]]) -> None:
    assert node_positions(text) == places


@pytest.mark.unmeasured
def test_many_nodes_are_mapped_in_linear_time() -> None:
    text = 'node { calculator: "A" }\n' * 20_000
    assert node_positions(text)[-1] == (20_000, 1)
