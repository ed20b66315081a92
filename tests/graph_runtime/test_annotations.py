"""Names that authors give to types mean those types, wherever types are read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import field
from typing import Annotated, Any, Generic, Literal, NewType, TypeVar, Union

import numpy as np
import pytest
from typing_extensions import TypeAliasType, TypeVarTuple
from typing_extensions import TypeVar as TypeVarWithDefault

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorGraph,
    GraphError,
    In,
    Options,
    Out,
    PacketTypeError,
    Registry,
    RunError,
    ValidationError,
    options,
    parse_graph_text,
    validate_graph,
)
from graph_runtime.authoring.packet_type import PacketType
from graph_runtime.testing import Sink
from graphrt_base.annotations import resolved

T = TypeVar("T")
S = TypeVar("S")
D = TypeVarWithDefault("D", default=int)
Ts = TypeVarTuple("Ts")
G = TypeVar("G", bound=np.generic)

Word = TypeAliasType("Word", str)
Words = TypeAliasType("Words", list[Word])
Texts = TypeAliasType("Texts", Union[Word, Words])  # noqa: UP007
Swapped = TypeAliasType("Swapped", dict[S, list[T]], type_params=(T, S))
Boxes = TypeAliasType("Boxes", list[D], type_params=(D,))
Row = TypeAliasType("Row", tuple[int, *Ts], type_params=(Ts,))
Array = TypeAliasType("Array", np.ndarray[tuple[Any, ...], np.dtype[G]], type_params=(G,))
Noted = TypeAliasType("Noted", Annotated[Words, "some words"])
UserId = NewType("UserId", str)
Nested = TypeAliasType("Nested", list[UserId])


OPEN: Any = list[T]  # type: ignore[valid-type]


class Generics(Generic[T]):
    pass


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (Word, str),
        (Words, list[str]),
        (Texts, Union[str, list[str]]),  # noqa: UP007
        (Union[Words, None], Union[list[str], None]),  # noqa: UP007
        (dict[Word, Words], dict[str, list[str]]),
        (tuple[Words, ...], tuple[list[str], ...]),
        (Swapped[int, Word], dict[str, list[int]]),
        (list[Swapped[Words, int]], list[dict[int, list[list[str]]]]),
        (Boxes, list[int]),
        (Boxes[Word], list[str]),
        (Row[str, bytes], tuple[int, str, bytes]),
        (Array[np.float32], np.ndarray[tuple[Any, ...], np.dtype[np.float32]]),
        (Annotated[Words, "a note"], list[str]),
        (list[Annotated[Word, "a note"]], list[str]),
        (Noted, list[str]),
        (UserId, str),
        (Nested, list[str]),
        (Generics[Word], Generics[str]),
        (Callable[[int], str], Callable[[int], str]),
        (Literal["a", "b"], Literal["a", "b"]),
        (OPEN, OPEN),
        (None, None),
        (Any, Any),
        (int | None, int | None),
    ],
)
def test_a_type_is_what_its_names_stand_for(written: Any, meant: Any) -> None:
    assert resolved(written) == meant


def test_an_annotation_without_names_is_returned_as_it_is() -> None:
    for written in (list[str], dict[str, list[int]], int | None, np.ndarray[Any, np.dtype[Any]]):
        assert resolved(written) is written


def test_a_type_that_is_part_of_itself_holds_anything() -> None:
    if sys.version_info < (3, 12):
        pytest.skip("its value is a text here")
    assert resolved(recursive()) == Union[dict[str, Any], list[Any], str]  # noqa: UP007


def recursive() -> Any:
    namespace: dict[str, Any] = {}
    exec("type Json = dict[str, Json] | list[Json] | str", namespace)
    return namespace["Json"]


def test_notes_may_stay() -> None:
    assert resolved(Noted, keeps_notes=True) == Annotated[list[str], "some words"]


def test_a_type_that_cannot_be_read_is_named() -> None:
    if sys.version_info < (3, 12):
        pytest.skip("its value is known at once here")
    namespace: dict[str, Any] = {}
    exec("type Broken = list[Missing]", namespace)
    with pytest.raises(GraphError, match="the type Broken cannot be read: NameError: name 'Miss"):
        resolved(namespace["Broken"])


@pytest.mark.parametrize(
    ("spec", "accepted", "refused"),
    [
        (Words, [[], ["x"]], [[1], "x"]),
        (Texts, ["x", ["x"]], [1, [1]]),
        (Array[np.float32], [np.zeros(1, np.float32)], [[1.0]]),
        (Annotated[Word, "a note"], ["x"], [1]),
        (UserId, ["x"], [1]),
        (Boxes, [[1]], [["x"]]),
    ],
)
def test_a_port_accepts_the_values_of_the_type(
    spec: Any, accepted: list[Any], refused: list[Any]
) -> None:
    for kind in (PacketType().set(spec), PacketType().set_one_of(spec)):
        assert all(kind.accepts(value) for value in accepted)
        for value in refused:
            with pytest.raises(PacketTypeError, match="was requested"):
                kind.validate(value)
        checker = kind.checker()
        assert checker is not None
        assert all(checker.accepts(value) for value in accepted)


def test_two_ends_agree_whichever_names_they_use(registry: Registry) -> None:
    class Source(Calculator):
        words = In[str]("IN")
        said = Out[Words]("WORDS")
        array = Out[np.ndarray[tuple[int, int], np.dtype[np.float32]]]("ARRAY")

    class Reader(Calculator):
        words = In[list[str]]("WORDS")
        array = In[Array[np.float32]]("ARRAY")
        numbers = In[Swapped[int, str]]("NUMBERS", optional=True)

    registry.register_calculator(Source)
    registry.register_calculator(Reader)
    source = (
        'node { calculator: "Source" input_stream: "IN:in" output_stream: "WORDS:words" '
        'output_stream: "ARRAY:array" }'
    )
    reader = (
        'node { calculator: "Reader" input_stream: "WORDS:words" input_stream: "ARRAY:array" %s }'
    )
    text = f'input_stream: "in" {source} {reader % ""}'
    validate_graph(parse_graph_text(text), registry=registry)
    wrong = f'input_stream: "in" {source} {reader % """input_stream: "NUMBERS:words" """}'
    with pytest.raises(ValidationError, match=r'"map<string, vector<int>>".*"vector<string>"'):
        validate_graph(parse_graph_text(wrong), registry=registry)


def test_a_function_is_read_through_the_names(registry: Registry) -> None:
    pair = TypeAliasType("pair", Union[tuple[Words, int], None])  # noqa: UP007

    def split(text: Word, *, more: Texts = "") -> Any:
        return None if text == "nothing" else (text.split(), len(more))

    split.__annotations__.update({"text": Word, "more": Texts, "return": pair})
    registry.register_calculator(split, "Split")
    graph = CalculatorGraph(
        text_config='input_stream: "in" node { calculator: "Split" input_stream: "in" '
        'output_stream: "words" output_stream: "count" }',
        registry=registry,
    )
    words, count = Sink(graph, "words"), Sink(graph, "count")
    graph.start_run()
    for time, text in enumerate(("a b", "nothing", "c")):
        graph.add_packet_to_input_stream("in", text, time)
    with pytest.raises(RunError, match='The Packet stores "int", but "string" was requested'):
        graph.add_packet_to_input_stream("in", 3, 3)
    assert (words.values, count.values) == ([["a", "b"], ["c"]], [0, 0])


def test_options_are_read_through_the_names(registry: Registry) -> None:
    @options("tests.NamedOptions")
    class NamedOptions:
        words: Words = field(default_factory=list)
        note: Annotated[Word, "a note"] = "none"
        least: Union[Boxes, None] = None  # noqa: UP007

    named: Any = TypeAliasType("named", NamedOptions)

    class Tells(Calculator):
        options = Options(named)
        value = In[str]()
        told = Out[str]()

        def process(self, cc: CalculatorContext) -> None:
            cc.emit(self.told, f"{self.options.words} {self.options.note} {self.options.least}")

    def tells(value: str, options: Any) -> str:
        return str(options.words)

    tells.__annotations__["options"] = named
    registry.register_calculator(Tells)
    registry.register_calculator(tells, "TellsToo")
    given = (
        "node_options { [type.googleapis.com/tests.NamedOptions] "
        '{ words: "a" words: "b" note: "x" least: 3 } }'
    )
    graph = CalculatorGraph(
        text_config=f"""
            input_stream: "in"
            node {{ calculator: "Tells" input_stream: "in" output_stream: "told" {given} }}
            node {{ calculator: "TellsToo" input_stream: "in" output_stream: "words" {given} }}
        """,
        registry=registry,
    )
    told, words = Sink(graph, "told"), Sink(graph, "words")
    graph.start_run()
    graph.add_packet_to_input_stream("in", "x", 0)
    graph.close()
    assert (told.values, words.values) == (["['a', 'b'] x [3]"], ["['a', 'b']"])
