"""Packets: values, empty ones, timestamps, and their text in logs."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from graph_runtime import Packet, StateError, Timestamp


def test_a_packet_has_a_value_and_a_timestamp() -> None:
    packet = Packet("x", 5)

    assert (packet.value, packet.timestamp, packet.is_empty()) == ("x", 5, False)
    assert type(packet.timestamp) is Timestamp


def test_a_packet_without_a_timestamp_is_unset() -> None:
    assert Packet("x").timestamp == Timestamp.UNSET


@pytest.mark.parametrize("value", [None, 0, "", [], False])
def test_any_object_can_be_a_value(value: Any) -> None:
    assert not Packet(value).is_empty()
    assert Packet(value).value == value


def test_an_empty_packet_has_no_value() -> None:
    empty = Packet.empty(7)

    assert empty.is_empty()
    assert empty.timestamp == 7
    with pytest.raises(StateError, match=r"no value.*its timestamp is 7"):
        _ = empty.value


def test_another_timestamp_shares_the_value() -> None:
    value = [1]
    packet = Packet(value, 1)
    later = packet.at(2)

    assert later.value is value
    assert (packet.timestamp, later.timestamp) == (1, 2)
    assert Packet.empty(1).at(2).is_empty()


def test_special_timestamps_are_given_by_name() -> None:
    assert Packet("x", Timestamp.PRESTREAM).timestamp == Timestamp.PRESTREAM
    with pytest.raises(ValueError, match="by name"):
        Packet("x", 2**63 - 1)


def test_the_repr_shows_the_type_and_not_the_value() -> None:
    assert repr(Packet("my password", 3)) == "<Packet str at Timestamp(3)>"
    assert repr(Packet.empty(Timestamp.DONE)) == "Packet.empty(Timestamp.DONE)"


def test_packets_are_compared_by_identity() -> None:
    packet = Packet(1, 1)

    assert packet == packet
    assert packet != Packet(1, 1)
    assert len({packet, packet.at(1)}) == 2


@pytest.mark.parametrize("packet", [Packet("x", 5), Packet.empty(5), Packet(None)])
def test_copies_and_pickles_keep_everything(packet: Packet) -> None:
    for twin in (copy.deepcopy(packet), pickle.loads(pickle.dumps(packet))):
        assert (twin.payload, twin.time) == (packet.payload, packet.time)
        assert twin.is_empty() == packet.is_empty()


def test_a_packet_has_no_further_attributes() -> None:
    with pytest.raises(AttributeError):
        Packet(1).extra = 2  # type: ignore[attr-defined]
