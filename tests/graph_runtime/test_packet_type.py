"""Packet types: the values that a port accepts, and agreement of two ends."""

from __future__ import annotations

from typing import (
    Any,
    Literal,
    Optional,
    Protocol,
    SupportsAbs,
    SupportsIndex,
    TypedDict,
    Union,
)

import numpy as np
import pytest
from numpy.typing import NDArray

from graph_runtime import Code, PacketTypeError
from graph_runtime.authoring.packet_type import PacketType, one_of, type_name, value_type_name
from graph_runtime.packet import EMPTY


class Animal:
    pass


class Dog(Animal):
    pass


class Reading(TypedDict, total=False):
    at: int
    value: float


class Named(TypedDict):
    name: str


class NamedReading(Named, Reading):
    pass


class HasArea(Protocol):
    def area(self) -> float: ...


class HasSide(Protocol):
    side: float


class Sized(Protocol):
    def __len__(self) -> int: ...


class Square:
    def __init__(self, side: float) -> None:
        self.side = side

    def area(self) -> float:
        return self.side**2


def exactly(spec: Any) -> PacketType:
    return PacketType().set(spec)


@pytest.mark.parametrize(
    ("spec", "accepted", "refused"),
    [
        (int, [0, -5], [True, 1.0, "1", None]),
        (bool, [True], [1, 0, None]),
        (float, [1.0, 1], [True, "1", 1j]),
        (complex, [1j, 1.0, 1], [True, "1"]),
        (list[float], [[1.0], [1], []], [[True], ["x"]]),
        (Reading, [{"at": 1, "value": 2.5}, {}], [[], "x"]),
        (list[Reading], [[{"at": 1}], []], [["x"]]),
        (HasArea, [Square(2.0), Square], [Dog(), 1]),
        (HasSide, [Square(2.0)], [Dog(), Square]),
        (SupportsIndex, [1, True], ["x"]),
        (SupportsAbs[float], [1.0], ["x"]),
        (Literal["a", "b"], ["a"], ["c", 1]),
        (str, ["", "x"], [b"x"]),
        (bytes, [b""], ["x"]),
        (list, [[], [1], ["x"]], [(), {}]),
        (list[int], [[], [1]], [["x"], [True], (1,)]),
        (list[list[str]], [[], [[]], [["x"]]], [[[1]]]),
        (dict[str, int], [{}, {"a": 1}], [[]]),
        (tuple[int, str], [(1, "x")], [[1, "x"]]),
        (Animal, [Animal(), Dog()], ["dog"]),
        (np.ndarray, [np.zeros(1)], [[1.0]]),
        (NDArray[np.float32], [np.zeros(1, np.float32)], [[1.0]]),
        (Any, [None, 1, "x"], []),
        (object, [None, 1], []),
        (int | str, [1, "x"], [1.0, None]),
        (Union[int, str], [1, "x"], [True]),  # noqa: UP007
        (Optional[int], [1, None], ["x"]),  # noqa: UP045
    ],
)
def test_a_type_accepts_its_values_only(spec: Any, accepted: list[Any], refused: list[Any]) -> None:
    packet_type = exactly(spec)

    assert [packet_type.accepts(value) for value in accepted] == [True] * len(accepted)
    assert [packet_type.accepts(value) for value in refused] == [False] * len(refused)
    for value in refused:
        with pytest.raises(PacketTypeError, match="was requested"):
            packet_type.validate(value)


@pytest.mark.parametrize(
    ("spec", "value", "message"),
    [
        (int, "x", 'The Packet stores "string", but "int" was requested.'),
        (list[int], ["x"], 'The Packet stores "vector<string>", but "vector<int>" was requested.'),
        (int | str, 1.5, 'The Packet stores "float", but one of "int", "string" was requested.'),
        (Animal, 1, 'The Packet stores "int", but "Animal" was requested.'),
    ],
)
def test_a_wrong_type_is_reported_by_both_names(spec: Any, value: Any, message: str) -> None:
    with pytest.raises(PacketTypeError) as caught:
        exactly(spec).validate(value)
    assert str(caught.value) == message
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_empty_packets_are_no_values() -> None:
    with pytest.raises(PacketTypeError, match="type: int, but received an empty") as caught:
        exactly(int).validate(EMPTY)
    assert caught.value.code is Code.INTERNAL
    with pytest.raises(PacketTypeError, match=r"not allowed for type: \[Any Type\]"):
        PacketType.any().validate(EMPTY)
    with pytest.raises(PacketTypeError, match=r"\[No Type\]"):
        PacketType().set_none().validate(1)


@pytest.mark.parametrize(
    ("produced", "consumed", "fits"),
    [
        (int, int, True),
        (int, float, True),
        (float, int, False),
        (bool, float, False),
        (list[int], list[float], True),
        (Reading, Reading, True),
        (NamedReading, Named, True),
        (Reading, Named, False),
        (Reading, dict, True),
        (dict, Reading, True),
        (Reading, list, False),
        (Reading, Sized, True),
        (Reading, HasArea, False),
        (int, Reading, False),
        (Square, HasArea, True),
        (Square, HasSide, True),
        (Dog, HasArea, False),
        (HasArea, HasArea, True),
        (HasArea, Square, False),
        (int, SupportsIndex, True),
        (Literal["a"], str, True),
        (str, Literal["a"], True),
        (Literal["a"], Literal["a", "b"], True),
        (Literal["a"], int, False),
        (bool, int, False),
        (Dog, Animal, True),
        (Animal, Dog, False),
        (list[int], list[str], False),
        (list[int], list, True),
        (list, list[int], True),
        (list[Any], list[int], True),
        (int, int | str, True),
        (int | str, str | bytes, True),
        (int, str | bytes, False),
        (list[Dog], list[Animal], True),
        (list[Animal], list[Dog], False),
        (dict[str, int], dict, True),
        (dict[str, int], dict[str, Any], True),
        (dict[str, int], dict[int, Any], False),
        (np.ndarray, NDArray[np.float32], True),
        (NDArray[np.float32], np.ndarray, True),
        (NDArray[np.float32], NDArray[Any], True),
        (NDArray[Any], NDArray[np.float32], True),
        (NDArray[np.float32], NDArray[np.int32], False),
        (NDArray[np.float32], NDArray[np.floating[Any]], True),
        (np.ndarray[tuple[int, int], np.dtype[np.float32]], NDArray[np.float32], True),
        (np.ndarray, list[int], False),
        (list[NDArray[np.float32]], list[np.ndarray], True),
        (Any, int, True),
        (int, Any, True),
    ],
)
def test_two_ends_agree_on_compatible_types(produced: Any, consumed: Any, fits: bool) -> None:
    assert exactly(produced).is_consistent_with(exactly(consumed)) is fits


def test_none_agrees_with_none_only() -> None:
    nothing = PacketType().set_none()

    assert nothing.is_consistent_with(PacketType().set_none())
    assert not nothing.is_consistent_with(PacketType.any())
    assert not exactly(int).is_consistent_with(nothing)


def test_same_as_follows_a_chain_to_its_root() -> None:
    root = exactly(int)
    first = PacketType().set_same_as(root)
    second = PacketType().set_same_as(first)

    assert second.name == "int"
    assert second.accepts(1)
    assert not second.accepts("x")
    assert second.root() is root


def test_an_any_takes_over_the_other_end() -> None:
    anything = PacketType.any()
    follower = PacketType().set_same_as(anything)
    anything.narrow(exactly(str))

    assert follower.name == "string"
    assert not follower.accepts(1)


def test_an_optional_type_stays_what_it_is() -> None:
    assert exactly(int).optional().is_optional
    assert not exactly(int).is_optional
    assert repr(exactly(int).optional()) == "<PacketType int optional>"


def test_a_type_that_accepts_everything_has_no_checker() -> None:
    assert PacketType.any().checker() is None
    assert exactly(int).checker() is not None


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (int, "int"),
        (str, "string"),
        (list[int], "vector<int>"),
        (dict[str, float], "map<string, float>"),
        (Dog, "Dog"),
        (Literal["a"], "Literal<a>"),
    ],
)
def test_types_have_readable_names(spec: Any, name: str) -> None:
    assert type_name(spec) == name


def test_types_of_values_have_readable_names() -> None:
    assert value_type_name([[1.5]]) == "vector<vector<float>>"
    assert value_type_name([]) == "vector"
    assert value_type_name(EMPTY) == "empty"
    assert PacketType().set_one_of(int, str).name == "OneOf<int, string>"
    assert exactly(one_of([int, str])).name == "OneOf<int, string>"
