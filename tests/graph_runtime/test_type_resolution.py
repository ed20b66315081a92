"""Types of streams, resolved along the edges of a graph."""

from __future__ import annotations

from typing import Any

import pytest

from graph_runtime import (
    Calculator,
    CalculatorContract,
    In,
    Out,
    Registry,
    ValidatedGraph,
    ValidationError,
    parse_graph_text,
    validate_graph,
)


class Animal:
    pass


class Dog(Animal):
    pass


def makes(spec: Any) -> type[Calculator]:
    """A source of this type."""

    class Makes(Calculator):
        @classmethod
        def contract(cls, contract: CalculatorContract) -> None:
            contract.outputs[0].set(spec)

    return Makes


def takes(spec: Any) -> type[Calculator]:
    class Takes(Calculator):
        @classmethod
        def contract(cls, contract: CalculatorContract) -> None:
            contract.inputs[0].set(spec)

    return Takes


def plan(registry: Registry, text: str, **calculators: type[Calculator]) -> ValidatedGraph:
    child = Registry(registry)
    for name, calculator in calculators.items():
        child.register_calculator(calculator, name)
    return validate_graph(parse_graph_text(text), registry=child)


DIRECT = """
    node { calculator: "Makes" output_stream: "x" }
    node { calculator: "Takes" input_stream: "x" }
"""
THROUGH = """
    node { calculator: "Makes" output_stream: "x" }
    node { calculator: "Forward" input_stream: "x" output_stream: "y" }
    node { calculator: "Forward" input_stream: "y" output_stream: "z" }
    node { calculator: "Takes" input_stream: "z" }
"""
FITTING = [
    (int, int),
    (Any, int),
    (int, Any),
    (Dog, Animal),
    (int, int | str),
    (int | str, str | bytes),
    (list[int], list[int]),
    (list[int], list[Any]),
    (list, list[int]),
    (list[Dog], list),
]
UNFIT = [
    (float, int, "int", "float"),
    (bool, int, "int", "bool"),
    (Animal, Dog, "Dog", "Animal"),
    (list[int], list[str], "vector<string>", "vector<int>"),
    (list[int], int, "int", "vector<int>"),
    (float, int | str, "OneOf<int, string>", "float"),
    (bytes, str, "string", "bytes"),
]


@pytest.mark.parametrize("text", [DIRECT, THROUGH])
@pytest.mark.parametrize(("made", "taken"), FITTING)
def test_compatible_types_are_accepted(
    registry: Registry, text: str, made: Any, taken: Any
) -> None:
    plan(registry, text, Makes=makes(made), Takes=takes(taken))


@pytest.mark.parametrize("text", [DIRECT, THROUGH])
@pytest.mark.parametrize(("made", "taken", "wanted", "got"), UNFIT)
def test_incompatible_types_are_refused(
    registry: Registry, text: str, made: Any, taken: Any, wanted: str, got: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        plan(registry, text, Makes=makes(made), Takes=takes(taken))
    assert (
        f'expects packets of type "{wanted}" but the connected output stream will contain packets '
        f'of type "{got}"'
    ) in str(caught.value)


def test_a_graph_input_has_the_type_of_its_consumer(registry: Registry) -> None:
    text = 'input_stream: "in" node { calculator: "Double" input_stream: "in" output_stream: "x" }'

    assert plan(registry, text).graph_inputs[0].packet_type.name == "int"


def test_the_type_of_a_same_as_chain_comes_from_either_end(registry: Registry) -> None:
    graph = plan(
        registry,
        """
        input_stream: "in"
        node { calculator: "Forward" input_stream: "in" output_stream: "a" }
        node { calculator: "Forward" input_stream: "a" output_stream: "b" }
        node { calculator: "Double" input_stream: "b" output_stream: "c" }
        node { calculator: "Forward" input_stream: "c" output_stream: "d" }
        """,
    )
    names = {plan.stream: each.name for node in graph.nodes
             for plan, each in zip(node.output_plans, node.output_types, strict=True)}  # fmt: skip
    assert names["d"] == "int"
    assert names["b"] == "int"


def test_one_of_is_narrowed_by_an_exact_end(registry: Registry) -> None:
    graph = plan(registry, DIRECT, Makes=makes(int | str), Takes=takes(str))

    assert graph.nodes[0].output_types[0].name == "string"


def test_two_consumers_of_incompatible_types_are_refused(registry: Registry) -> None:
    with pytest.raises(ValidationError, match='Input stream "in" of calculator'):
        plan(
            registry,
            """
            input_stream: "in"
            node { calculator: "Double" input_stream: "in" output_stream: "x" }
            node { calculator: "Takes" input_stream: "in" }
            """,
            Takes=takes(str),
        )


def test_every_incompatible_edge_is_reported(registry: Registry) -> None:
    with pytest.raises(ValidationError) as caught:
        plan(
            registry,
            """
            node { calculator: "Makes" output_stream: "x" }
            node { calculator: "Takes" input_stream: "x" }
            node { calculator: "Takes" input_stream: "x" }
            """,
            Makes=makes(int),
            Takes=takes(str),
        )
    assert len(caught.value.findings) == 2


def test_a_stream_is_checked_at_most_once(registry: Registry) -> None:
    class Checked(Calculator):
        value = In[int]()
        out = Out[Any]()

    graph = plan(
        registry,
        """
        node { calculator: "Makes" output_stream: "x" }
        node { calculator: "Checked" input_stream: "x" output_stream: "y" }
        node { calculator: "Forward" input_stream: "y" output_stream: "z" }
        """,
        Makes=makes(int),
        Checked=Checked,
    )
    assert graph.nodes[0].output_plans[0].checker is not None
    assert graph.nodes[1].input_plans[0].checker is None, "the producer has checked it"
    assert graph.nodes[1].output_plans[0].checker is None, "anything goes"
