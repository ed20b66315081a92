"""Switches whose channel is known before the graph runs, replaced by the nodes of that channel.

MediaPipe's graphs hold all variants of a part (with and without smoothing, with and without
attention) behind switches that a side packet sets. Each costs two calls per image, and the nodes of
the other variants hear of every image.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from graph_runtime.language.tag_map import parse_tag_index_name

_SWITCHES: Final = ("SwitchDemuxCalculator", "SwitchMuxCalculator")
_CHANNEL: Final = re.compile(r"C(\d+)__(.*)", re.DOTALL)
#: The fields of a node, and of a graph, that name streams or side packets.
_FIELDS: Final = {
    "input_stream": "stream",
    "output_stream": "stream",
    "input_side_packet": "side packet",
    "output_side_packet": "side packet",
}

#: What a name stands for, and the name.
_Name = tuple[str, str]


def resolve_known_switches(config: Any, side_packets: Mapping[str, Any]) -> None:
    """Replace the switches of an expanded graph that the side packets set; changes ``config``.

    The results stay the same. A switch that a stream or an unknown side packet sets stays.
    """
    renamed: dict[_Name, _Name] = {}
    dead: set[_Name] = set()
    resolved = []
    for node in config.node:
        channel = _known_channel(node, side_packets)
        if channel is None:
            continue
        resolved.append(node)
        for common, other, by_channel in _channels(node):
            if by_channel != channel:
                dead.add(other)
            else:
                # The common name stays: it may be an output of the graph.
                renamed[other] = common
    for node in resolved:
        config.node.remove(node)
    _remove_readers(config, dead)
    for holder in (config, *config.node):
        for field, kind in _FIELDS.items():
            entries = getattr(holder, field)
            entries[:] = [_with_new_name(kind, entry, renamed) for entry in entries]


def _known_channel(node: Any, side_packets: Mapping[str, Any]) -> int | None:
    """The channel of a switch, if a side packet sets it that is known."""
    if node.calculator not in _SWITCHES:
        return None
    for entry in node.input_side_packet:
        port = parse_tag_index_name(entry)
        if port.tag in ("ENABLE", "SELECT") and port.name in side_packets:
            return int(side_packets[port.name])
    return None


def _channels(node: Any) -> Iterator[tuple[_Name, _Name, int]]:
    """Per port of a channel: the common name, the channel's own name, the channel."""
    is_demux = node.calculator == "SwitchDemuxCalculator"
    for field, kind in _FIELDS.items():
        if field.startswith("output") is not is_demux:
            continue
        common_field = f"in{field[3:]}" if is_demux else f"out{field[2:]}"
        common = dict(_numbered(getattr(node, common_field)))
        for (tag, index), name in _numbered(getattr(node, field)):
            match = _CHANNEL.fullmatch(tag)
            if match is not None and (match[2], index) in common:
                yield (kind, common[match[2], index]), (kind, name), int(match[1])


def _numbered(entries: Iterable[str]) -> Iterator[tuple[tuple[str, int], str]]:
    """Tag, index and name of the entries; those without a tag are numbered in their order."""
    untagged = 0
    for entry in entries:
        port = parse_tag_index_name(entry)
        index = port.index
        if index < 0:
            index, untagged = untagged, untagged + 1
        yield (port.tag, index), port.name


def _remove_readers(config: Any, dead: set[_Name]) -> None:
    """Remove the nodes that read what nobody makes, and those that read what these make."""
    found = True
    while found:
        found = False
        for node in list(config.node):
            if dead.isdisjoint(_names(node, "input_stream")):
                continue
            dead.update(_names(node, "output_stream"))
            config.node.remove(node)
            found = True


def _names(node: Any, field: str) -> list[_Name]:
    return [(_FIELDS[field], name) for _, name in _numbered(getattr(node, field))]


def _with_new_name(kind: str, entry: str, renamed: Mapping[_Name, _Name]) -> str:
    head, colon, name = entry.rpartition(":")
    while (kind, name) in renamed:
        name = renamed[kind, name][1]
    return f"{head}{colon}{name}"
