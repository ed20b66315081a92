"""Timestamps: special values, arithmetic, and refusals."""

from __future__ import annotations

import copy
import math
import pickle
from itertools import pairwise
from typing import Any

import pytest

from graph_runtime import Timestamp
from graph_runtime import timestamp as ts

IN_ORDER = [
    Timestamp.UNSET,
    Timestamp.UNSTARTED,
    Timestamp.PRESTREAM,
    Timestamp.MIN,
    Timestamp(-1),
    Timestamp(0),
    Timestamp(10**18),
    Timestamp.MAX,
    Timestamp.POSTSTREAM,
    Timestamp.ONE_OVER_POSTSTREAM,
    Timestamp.DONE,
]
SPECIAL = [each for each in IN_ORDER if each.is_special_value()]


def test_the_special_values_are_at_both_ends_of_64_bits() -> None:
    assert all(a < b for a, b in pairwise(IN_ORDER))
    assert int(Timestamp.UNSET) == -(2**63)
    assert int(Timestamp.DONE) == 2**63 - 1
    assert Timestamp.MIN - Timestamp.UNSET == Timestamp.DONE - Timestamp.MAX == 3


def test_some_special_values_are_allowed_in_a_stream() -> None:
    names = [repr(each) for each in IN_ORDER if not each.is_allowed_in_stream()]
    assert names == [
        "Timestamp.UNSET",
        "Timestamp.UNSTARTED",
        "Timestamp.ONE_OVER_POSTSTREAM",
        "Timestamp.DONE",
    ]
    assert [each for each in IN_ORDER if each.is_range_value()] == IN_ORDER[3:8]


@pytest.mark.parametrize("special", SPECIAL)
def test_special_values_have_names_and_are_not_made_from_numbers(special: Timestamp) -> None:
    with pytest.raises(ValueError, match="write the special values by name"):
        Timestamp(int(special))
    assert Timestamp.of(int(special)) == special
    assert Timestamp(special) == special
    assert repr(special).startswith("Timestamp.")
    assert str(special).startswith("Timestamp::")


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**200])
def test_values_beyond_64_bits_are_refused(value: int) -> None:
    with pytest.raises(ValueError, match="not an ordinary timestamp"):
        Timestamp(value)


@pytest.mark.parametrize("value", [1.0, "1", None])
def test_only_integers_are_timestamps(value: Any) -> None:
    with pytest.raises(TypeError):
        Timestamp(value)


def test_a_timestamp_is_an_int() -> None:
    assert Timestamp(5) == 5
    assert {Timestamp(5): "x"}[Timestamp.of(5)] == "x"
    assert f"{Timestamp(5)}" == str(Timestamp(5)) == "5"
    assert repr(Timestamp(5)) == "Timestamp(5)"
    assert [Timestamp(5).value, Timestamp(5).microseconds, Timestamp(5).seconds] == [5, 5, 5e-6]


def test_offsets_saturate_and_differences_are_plain() -> None:
    assert Timestamp(5) + 3 == 3 + Timestamp(5) == Timestamp(8)
    assert isinstance(Timestamp(5) + 3, Timestamp)
    assert Timestamp(5) - 7 == Timestamp(-2)
    assert Timestamp(2**62) + 2**62 == Timestamp.MAX
    assert Timestamp(-(2**62)) - 2**63 == Timestamp.MIN
    difference = Timestamp(9) - Timestamp(4)
    assert difference == 5
    assert type(difference) is int


@pytest.mark.parametrize(
    ("value", "after", "before"),
    [
        (Timestamp.PRESTREAM, Timestamp.ONE_OVER_POSTSTREAM, Timestamp.UNSTARTED),
        (Timestamp.UNSTARTED, Timestamp.MIN, Timestamp.UNSTARTED),
        (Timestamp.MIN, Timestamp.MIN + 1, Timestamp.UNSTARTED),
        (Timestamp(7), Timestamp(8), Timestamp(6)),
        (Timestamp.MAX, Timestamp.ONE_OVER_POSTSTREAM, Timestamp.MAX - 1),
        (Timestamp.POSTSTREAM, Timestamp.ONE_OVER_POSTSTREAM, Timestamp.UNSTARTED),
        (Timestamp.ONE_OVER_POSTSTREAM, Timestamp.ONE_OVER_POSTSTREAM, Timestamp.MAX),
        (Timestamp.DONE, Timestamp.ONE_OVER_POSTSTREAM, Timestamp.MAX),
    ],
)
def test_timestamps_have_neighbours_in_a_stream(
    value: Timestamp, after: Timestamp, before: Timestamp
) -> None:
    assert value.next_allowed_in_stream() == after
    assert value.previous_allowed_in_stream() == before


def test_seconds_become_the_nearest_microsecond() -> None:
    assert Timestamp.from_seconds(1.5) == 1_500_000
    assert Timestamp.from_seconds(-0.0000014) == -1
    # Halves away from zero.
    assert [Timestamp.from_seconds(each * 1e-6) for each in (0.5, 2.5, 4.5)] == [1, 3, 5]
    assert [Timestamp.from_seconds(each * 1e-6) for each in (-0.5, -2.5)] == [-1, -3]
    for far in (math.inf, -math.inf, math.nan):
        with pytest.raises(ValueError, match="out of range"):
            Timestamp.from_seconds(far)
    with pytest.raises(ValueError, match="not an ordinary timestamp"):
        Timestamp.from_seconds(1e30)


@pytest.mark.parametrize("value", IN_ORDER)
def test_copies_and_pickles_are_equal(value: Timestamp) -> None:
    for twin in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert twin == value
        assert type(twin) is Timestamp


def test_all_special_values_have_names() -> None:
    assert [ts.SPECIAL_NAMES[value] for value in sorted(ts.SPECIAL_NAMES)] == [
        repr(each).removeprefix("Timestamp.") for each in SPECIAL
    ]
