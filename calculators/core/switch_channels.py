"""Channels: several sets of streams with the same tags, distinguished by a prefix such as ``C1__``.

SwitchContainer, SwitchDemuxCalculator and SwitchMuxCalculator share this module.
Source: MediaPipe ``framework/tool/container_util.cc``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from graph_runtime import CalculatorContext, CalculatorContract
from graph_runtime import timestamp as ts

OPTIONS = "mediapipe.SwitchContainerOptions"

_CHANNEL_TAG = re.compile(r"C([0-9]+)__(.*)\Z")


def channel_tag(tag: str, channel: int) -> str:
    """The tag with its channel: ``FRAME`` in channel 1 is ``C1__FRAME``."""
    return f"C{channel}__{tag}"


def channel_tags(tags: Iterable[str]) -> list[str]:
    """The distinct tags without their channels, sorted."""
    return sorted({match.group(2) for match in map(_CHANNEL_TAG.match, tags) if match})


def channel_count(tags: Iterable[str]) -> int:
    """The number of channels: one more than the highest."""
    channels = [int(match.group(1)) for match in map(_CHANNEL_TAG.match, tags) if match]
    return max(channels, default=-1) + 1


def declare_selection(contract: CalculatorContract) -> None:
    """Declare SELECT and ENABLE, as streams and as side packets."""
    for ports in (contract.inputs, contract.input_side_packets):
        ports["SELECT"].set(int).optional()
        ports["ENABLE"].set(bool).optional()


def declare_channels(common: Any, by_channel: Any) -> None:
    """Give the ports of all channels the types of the common ports they stand for."""
    count = channel_count(by_channel.tags())
    for tag in channel_tags(by_channel.tags()):
        for index in range(common.num_entries(tag)):
            common_type = common[tag, index].set_any()
            for channel in range(count):
                key = (channel_tag(tag, channel), index)
                if key in by_channel:
                    by_channel[key].set_same_as(common_type)


def first_channel(cc: CalculatorContext, options: Any) -> int:
    """The channel that options and side packets choose, in ``open``; 0 by default."""
    channel = 0
    if options.HasField("enable"):
        channel = int(options.enable)
    if options.HasField("select"):
        channel = options.select
    sides = cc.input_side_packets
    if sides.has_tag("ENABLE"):
        channel = int(sides["ENABLE"].value)
    if sides.has_tag("SELECT"):
        channel = sides["SELECT"].value
    return channel


def selected_channel(cc: CalculatorContext, previous: int) -> int:
    """The channel that the streams choose in this call, else the previous one."""
    channel = previous
    if cc.inputs.has_tag("ENABLE") and not cc.inputs["ENABLE"].is_empty():
        channel = int(cc.inputs["ENABLE"].value)
    if cc.inputs.has_tag("SELECT") and not cc.inputs["SELECT"].is_empty():
        channel = cc.inputs["SELECT"].value
    return channel


def selection_settled(cc: CalculatorContext) -> int:
    """The bound up to which the channel is known; DONE if no stream chooses it."""
    for tag in ("ENABLE", "SELECT"):
        if cc.inputs.has_tag(tag):
            return cc.inputs[tag].packet.time
    return ts.DONE
