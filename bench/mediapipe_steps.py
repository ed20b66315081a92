"""Each node of MediaPipe's graphs on the packets that MediaPipe's own node has had.

The graph is cut at every stream that MediaPipe's engine could be asked for: consumers get the
recorded packets, and the producer's are compared with them. So a difference of one node does not
reach the next, and frames cannot drift apart.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from bench.mediapipe_oracle import (
    difference,
    frames,
    json_value,
    lines,
    packet_value,
    picture,
    registry,
)
from calculators.images.image.image_format import ImageFormat
from calculators.images.image.image_frame import ImageFrame
from calculators.vision.solutions.solution import expanded_with
from graph_runtime import CalculatorGraph, Packet, SubgraphContext
from graph_runtime.language.tag_map import parse_tag_index_name

GRAPHS: Final = {
    "face_detection_full_range_cpu": "FaceDetectionFullRangeCpu",
    "face_detection_short_range_cpu": "FaceDetectionShortRangeCpu",
    "face_landmark_front_cpu": "FaceLandmarkFrontCpu",
    "hand_landmark_tracking_cpu": "HandLandmarkTrackingCpu",
    "holistic_landmark_cpu": "HolisticLandmarkCpu",
    "pose_landmark_cpu": "PoseLandmarkCpu",
    "selfie_segmentation_cpu": "SelfieSegmentationCpu",
}
#: Written by the trace as a summary only.
_UNREAD: Final = ("::mediapipe::Image", "::mediapipe::ImageFrame")
_OWN: Final = "__compared"


@dataclass
class StreamComparison:
    """One stream.

    Attributes:
        calculator: of its producer.
        packets: compared packets.
        missing, extra: timestamps at which only one side has a packet.
        largest: largest difference of two numbers.
    """

    calculator: str
    packets: int = 0
    missing: list[int] = field(default_factory=list)
    extra: list[int] = field(default_factory=list)
    largest: float = 0.0


def compare_steps(name: str) -> dict[str, StreamComparison]:
    """Run the trace ``traces/NAME.jsonl.gz``; return each recorded stream's comparison."""
    header, *rows = lines(f"traces/{name}.jsonl.gz")
    recorded: dict[str, dict[int, Any]] = defaultdict(dict)
    is_normalized: dict[str, bool] = {}
    for row in rows:
        if row["type"] not in _UNREAD:
            recorded[row["stream"]][row["timestamp"]] = row["value"]
            is_normalized[row["stream"]] = "Normalized" in row["type"]
    config, producers = _cut(header, set(recorded))
    images = _images(name, header)
    graph = CalculatorGraph(config, registry=registry())
    seen: dict[str, dict[int, Any]] = defaultdict(dict)
    for stream in producers:
        graph.observe_output_stream(stream + _OWN, _keeper(seen[stream]))
    graph.start_run(header["side_packets"])
    for stream, packets in recorded.items():
        if stream in producers:
            for time, value in sorted(packets.items()):
                found = packet_value(value, is_normalized=is_normalized[stream])
                graph.add_packet_to_input_stream(stream, Packet(found, time))
            graph.close_input_stream(stream)
    for place, image in enumerate(images):
        time = _time(recorded, place)
        graph.add_packet_to_input_stream("image", ImageFrame(ImageFormat.SRGB, image), time)
    graph.close()
    return {
        stream: _compared(calculator, seen[stream], recorded[stream])
        for stream, calculator in producers.items()
    }


def _cut(header: Any, recorded: set[str]) -> tuple[Any, dict[str, str]]:
    """The expanded graph, cut at recorded streams, and the calculator that makes each of them."""
    found = registry()
    subgraph = found.find_subgraph(GRAPHS[header["graph"]])
    assert subgraph is not None, "the family registers it"
    changes = {f"{node}.threshold": value for node, value in header["thresholds_changed"].items()}
    config = expanded_with(subgraph.make(SubgraphContext(None)), found, changes)
    producers: dict[str, str] = {}
    for node in config.node:
        for place, entry in enumerate(node.output_stream):
            stream = parse_tag_index_name(entry).name
            if stream in recorded:
                producers[stream] = node.calculator
                node.output_stream[place] = entry + _OWN
        # A loop that is cut is none: its packets come from the trace.
        if recorded & {parse_tag_index_name(entry).name for entry in node.input_stream}:
            del node.input_stream_info[:]
    config.input_stream.extend(sorted(producers))
    del config.output_stream[:]
    return config, producers


def _keeper(seen: dict[int, Any]) -> Any:
    def keep(_: str, packet: Packet) -> None:
        seen[packet.time] = json_value(packet.value)

    return keep


def _images(name: str, header: Any) -> list[Any]:
    if len(header["crc"]) == 1:
        return [picture("astronaut")]
    first = next(lines("sequence_astronaut_gentle.jsonl.gz"))
    return frames(first)[: len(header["crc"])]


def _time(recorded: dict[str, dict[int, Any]], place: int) -> int:
    """The timestamp of an image: of the sequences' 30 per second."""
    return 33333 * (place + 1)


def _compared(calculator: str, mine: dict[int, Any], theirs: dict[int, Any]) -> StreamComparison:
    both = sorted(mine.keys() & theirs.keys())
    return StreamComparison(
        calculator,
        len(both),
        sorted(theirs.keys() - mine.keys()),
        sorted(mine.keys() - theirs.keys()),
        max((difference(mine[time], theirs[time]) for time in both), default=0.0),
    )


def steps_table(names: list[str]) -> list[str]:
    """Return the lines of a Markdown table: per calculator, all streams of all traces."""
    totals: dict[str, StreamComparison] = {}
    for name in names:
        for each in compare_steps(name).values():
            total = totals.setdefault(each.calculator, StreamComparison(each.calculator))
            total.packets += each.packets
            total.missing += each.missing
            total.extra += each.extra
            total.largest = float(np.maximum(total.largest, each.largest))
    return [
        "| calculator | packets | only MediaPipe's | only graphrt's | largest difference |",
        "|---|---|---|---|---|",
        *(
            f"| {each.calculator} | {each.packets} | {len(each.missing)} | {len(each.extra)} | "
            f"{each.largest:.1e} |"
            for each in sorted(totals.values(), key=lambda each: each.calculator)
        ),
    ]
