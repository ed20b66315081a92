"""``option_value``: options of a graph copied into the options of its nodes."""

from __future__ import annotations

from typing import Any

import pytest

from graph_runtime.errors import Code, GraphConfigError
from graph_runtime.language.graph_config import parse_graph_text
from graph_runtime.options.option_value import copy_option_values
from graph_runtime.options.options import OptionsType, find_options, options


@options("valuetest.Light")
class Light:
    rate: float = 0.0
    count: int = 0
    numbers: tuple[int, ...] = ()
    name: str = ""
    sub: Light | None = None
    bundle: tuple[Light, ...] = ()


@options("valuetest.Other")
class Other:
    count: int = 0


CHAIN = "graph_options { [t/mediapipe.NodeChainSubgraphOptions] { %s } }"
LIGHTS = "graph_options { [t/valuetest.Light] { %s } }"


def copied(node: str, graph: str = "", parent: str = "") -> Any:
    config = parse_graph_text(f"{graph} node {{ calculator: 'C' {node} }}")
    outer = parse_graph_text(f"node {{ {parent} }}").node[0] if parent else None
    before = config.node[0].SerializeToString()

    changed = copy_option_values(config.node[0], config, outer)

    assert config.node[0].SerializeToString() == before
    assert not changed.option_value
    return changed


def light(entry: str, graph: str, given: str = "", parent: str = "") -> Light:
    node = f'node_options {{ [t/valuetest.Light] {{ {given} }} }} option_value: "{entry}"'
    return find_options(copied(node, graph, parent), Light)


def test_a_single_value_is_copied() -> None:
    assert light("count:options/chain_length", CHAIN % "chain_length: 8").count == 8


def test_a_single_value_is_copied_into_a_list() -> None:
    assert light("numbers:options/chain_length", CHAIN % "chain_length: 8").numbers == (8,)


def test_a_path_may_omit_the_word_options() -> None:
    assert light("count:chain_length", CHAIN % "chain_length: 8").count == 8


def test_a_value_replaces_the_nodes_own() -> None:
    found = light("numbers:options/numbers", LIGHTS % "numbers: [1, 2]", "numbers: 9 name: 'n'")
    assert found == Light(numbers=(1, 2), name="n")


def test_a_value_that_is_not_set_clears_the_field() -> None:
    assert light("count:options/count", LIGHTS % "", "count: 7").count == 0


def test_one_entry_of_a_list_can_be_copied() -> None:
    graph = LIGHTS % "numbers: [1, 2, 3]"
    assert light("count:options/numbers/1", graph).count == 2
    assert light("numbers/0:options/numbers/2", graph, "numbers: [8, 9]").numbers == (3, 9)


def test_paths_may_lead_into_messages() -> None:
    graph = LIGHTS % "sub { name: 'deep' } bundle { } bundle { count: 5 }"
    assert light("name:options/sub/name", graph).name == "deep"
    assert light("sub/count:options/bundle/1/count", graph, "sub { name: 'x' }").sub == Light(
        name="x", count=5
    )


def test_messages_are_merged() -> None:
    graph = LIGHTS % "sub { count: 5 numbers: 1 } bundle { count: 6 } bundle { name: 'b' }"
    assert light("sub:options/sub", graph, "sub { name: 'x' numbers: 2 }").sub == Light(
        count=5, name="x", numbers=(2, 1)
    )
    assert light("bundle:options/bundle", graph, "bundle { name: 'x' }").bundle == (
        Light(count=6, name="x"),
        Light(name="b"),
    )


def test_options_of_the_subgraph_node_win() -> None:
    parent = "options { [mediapipe.NodeChainSubgraphOptions.ext] { chain_length: 3 } }"
    assert light("count:options/chain_length", CHAIN % "", parent=parent).count == 3
    assert light("count:options/chain_length", "", parent=parent).count == 3
    assert light("count:options/chain_length", CHAIN % "chain_length: 5", parent=parent).count == 3


def test_the_subgraph_node_must_have_the_type_of_the_graph() -> None:
    parent = "options { [valuetest.Other.ext] { count: 3 } }"
    with pytest.raises(GraphConfigError, match="Cannot merge field data with message types"):
        light("count:options/count", LIGHTS % "", parent=parent)


def test_without_graph_options_nothing_changes() -> None:
    assert light("count:options/count", "", "count: 7").count == 7


def test_an_extension_moves_to_node_options() -> None:
    changed = copied(
        "options { [valuetest.Light.ext] { name: 'n' } } option_value: 'count:options/count'",
        LIGHTS % "count: 4",
    )
    assert not changed.HasField("options")
    assert [held.type_url for held in changed.node_options] == [
        "type.googleapis.com/valuetest.Light"
    ]
    assert find_options(changed, Light) == Light(name="n", count=4)


def test_types_can_be_named() -> None:
    changed = copied(
        "node_options [{ [t/valuetest.Light] { } }, { [t/valuetest.Other] { } }]"
        " option_value: 'Ext::valuetest.Other/count:options/Ext::valuetest.Light/count'",
        "graph_options { [t/valuetest.Other] { count: 1 } }"
        " graph_options { [t/valuetest.Light] { count: 2 } }",
    )
    assert find_options(changed, Other).count == 2
    assert find_options(changed, Light).count == 0


def test_several_values_are_copied() -> None:
    changed = copied(
        "node_options { [t/valuetest.Light] { } }"
        " option_value: ['count:options/count', 'name:options/name']",
        LIGHTS % "count: 4 name: 'n'",
    )
    assert find_options(changed, Light) == Light(count=4, name="n")


def test_a_node_without_options_is_an_error() -> None:
    with pytest.raises(GraphConfigError, match=r"Option extension not found: \*") as caught:
        copied("name: 'n' option_value: 'allow:options/allow'")
    assert caught.value.code is Code.NOT_FOUND
    assert "node (name='n', calculator='C'), option_value: \"allow:options/allow\"" in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("entry", "match"),
    [
        ("count", 'expected "node_field:options/graph_field"'),
        ("count:options/a:b", 'expected "node_field:options/graph_field"'),
        (":options/count", '"" names no field'),
        ("cuont:options/count", r'valuetest\.Light has no field "cuont"\. Did you mean "count"'),
        ("count:options/cuont", r'valuetest\.Light has no field "cuont"\. Did you mean "count"'),
        ("count:options/count/name", '"count" is a value and has no fields'),
        ("count:options/sub/count", "Missing field value: sub at index: 0"),
        ("sub/count:options/count", "Missing field value: sub at index: 0"),
        ("count:options/numbers/3", "Missing field value: numbers at index: 3"),
        ("numbers/3:options/count", "Missing field value: numbers at index: 3"),
        ("count:options/name", r"valuetest\.Light\.count cannot take 'n'"),
        ("numbers:options/name", r"valuetest\.Light\.numbers cannot take 'n'"),
        ("count:options/numbers", "count takes one value, not 2"),
        ("sub:options/count", r"valuetest\.Light\.sub cannot take 4"),
    ],
)
def test_a_wrong_path_is_an_error(entry: str, match: str) -> None:
    with pytest.raises(GraphConfigError, match=match):
        light(entry, LIGHTS % "count: 4 name: 'n' numbers: [1, 2]")


def test_the_result_is_read_as_the_class() -> None:
    assert OptionsType.of(Light).full_name == "valuetest.Light"
