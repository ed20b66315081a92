"""MediaPipe's solutions here and in MediaPipe's own Python API and engine, on the same pictures.

Whole solutions are compared, and each node of MediaPipe's graphs on the packets that MediaPipe's
own node has had: the graph is cut at every stream that MediaPipe's engine could be asked for:
consumers get the
recorded packets, and the producer's are compared with them. So a difference of one node does not
reach the next, and frames cannot drift apart.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import cv2
import numpy as np
import numpy.typing as npt

from bench.machine import head, row
from bench.mediapipe_oracle import (
    CASES,
    difference,
    frames,
    json_value,
    lines,
    packet_value,
    picture,
    registry,
    sequence,
)
from calculators.images.image.image_frame import ImageFormat, ImageFrame
from calculators.vision import FaceDetection, FaceMesh, Hands, Holistic, Pose, SelfieSegmentation
from calculators.vision.solution import expanded_with
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
    for each in rows:
        if each["type"] not in _UNREAD:
            recorded[each["stream"]][each["timestamp"]] = each["value"]
            is_normalized[each["stream"]] = "Normalized" in each["type"]
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
    columns = ("calculator", "packets", "only MediaPipe's", "only graphrt's")
    return [
        *head(*columns, "largest difference"),
        *(
            row(name, each.packets, len(each.missing), len(each.extra), f"{each.largest:.1e}")
            for name, each in sorted(totals.items())
        ),
    ]


#: Pixels in which differences are counted, whatever the picture's size.
SIZE: Final = (640, 480)
CLASSES: Final[Mapping[str, Callable[..., Any]]] = {
    "face_detection_full": FaceDetection,
    "face_detection_short": FaceDetection,
    "face_mesh": FaceMesh,
    "face_mesh_refined": FaceMesh,
    "hands": Hands,
    "hands_any": Hands,
    "hands_lite": Hands,
    "holistic": Holistic,
    "holistic_refined": Holistic,
    "pose": Pose,
    "pose_unsmoothed": Pose,
    "selfie_general": SelfieSegmentation,
    "selfie_landscape": SelfieSegmentation,
}
#: Results by MediaPipe's names of streams, where the classes here have shorter ones.
_NAMES: Final = {
    "face_detections": "detections",
    "face_rects_from_detections": "detection_rects",
    "face_rects_from_landmarks": "rects",
    "hand_rects_from_landmarks": "rects",
    "hand_rects_from_palm_detections": "detection_rects",
    "palm_detections": "detections",
    "pose_detection": "detection",
    "pose_landmarks_roi": "rect",
    "pose_rect_from_detection": "detection_rect",
    "pose_rect_from_landmarks": "rect",
}


@dataclass
class Agreement:
    """The differences of one solution.

    Attributes:
        frames: compared pictures.
        pixels: distances of points, boxes' corners and keypoints, in pixels of 640 x 480.
        meters: distances of landmarks in meters.
        scores: differences of scores and visibilities.
        overlaps: intersection over union of masks.
        flips: results that only one side has, or another number of them: "frame: result".
    """

    frames: int = 0
    pixels: list[npt.NDArray[np.float64]] = field(default_factory=list)
    meters: list[npt.NDArray[np.float64]] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    overlaps: list[float] = field(default_factory=list)
    flips: list[str] = field(default_factory=list)

    def row(self) -> list[str]:
        """Return the cells of a table."""
        pixels = np.concatenate(self.pixels) if self.pixels else np.zeros(0)
        cells = [str(self.frames), str(len(pixels))]
        if len(pixels):
            median, high = np.percentile(pixels, [50, 99])
            within = 100 * float((pixels <= 1).mean())
            cells += [f"{median:.3f}", f"{high:.2f}", f"{pixels.max():.1f}", f"{within:.2f} %"]
        else:
            cells += ["-"] * 4
        meters = np.concatenate(self.meters) if self.meters else np.zeros(0)
        cells.append(f"{1000 * np.percentile(meters, 99):.1f}" if len(meters) else "-")
        cells.append(f"{max(self.scores):.4f}" if self.scores else "-")
        cells.append(f"{min(self.overlaps):.4f}" if self.overlaps else "-")
        return [*cells, str(len(self.flips))]


HEADER: Final = (
    "solution",
    "frames",
    "points",
    "median px",
    "p99 px",
    "largest px",
    "within 1 px",
    "p99 mm",
    "largest score difference",
    "smallest mask IoU",
    "flips",
)


def stills() -> dict[str, Agreement]:
    """Compare every picture of ``stills.jsonl`` with MediaPipe's Python API."""
    found: dict[str, Agreement] = {}
    for case in lines("stills.jsonl"):
        agreement = found.setdefault(case["solution"], Agreement())
        with CLASSES[case["solution"]](**case["arguments"]) as solution:
            result = solution.process(picture(case["picture"]))
        compare(agreement, case["picture"], result, case["results"])
    return found


def sequences(kinds: Sequence[str]) -> dict[str, Agreement]:
    """Compare every frame of sequences with MediaPipe's Python API."""
    found: dict[str, Agreement] = {}
    for kind in kinds:
        case = sequence(f"astronaut_{kind}")
        for name, (arguments, results) in case.results.items():
            agreement = found.setdefault(name, Agreement())
            with CLASSES[name](**arguments) as solution:
                for place, (image, expected) in enumerate(zip(case.frames, results, strict=True)):
                    result = solution.process(image)
                    compare(agreement, f"{kind} {place}", result, expected)
        gc.collect()
    return found


def engine(name: str) -> dict[str, Agreement]:
    """Compare with MediaPipe's engine on the graph's own text: ``engine_NAME.jsonl.gz``."""
    found: dict[str, Agreement] = {}
    cases: dict[str, Any] = {}
    solution: Any = None
    last = None
    for case in lines(f"engine_{name}.jsonl.gz"):
        kind = case.get("kind", "")
        if kind and kind not in cases:
            cases[kind] = sequence(f"astronaut_{kind}").frames
        if solution is None or kind != last or not kind:
            solution = CLASSES[case["solution"]](**case["arguments"], follows_graph=True)
            last = kind
        image = cases[kind][case["frame"]] if kind else picture(case["picture"])
        label = f"{case['solution']}, {'sequence ' + kind if kind else 'still'}"
        agreement = found.setdefault(label, Agreement())
        compare(agreement, str(case.get("frame")), solution.process(image), case["results"])
    return found


def kernels(both: Mapping[str, tuple[Any, Any]]) -> dict[str, Agreement]:
    """Compare landmarks of MediaPipe with those of MediaPipe by its other kernels.

    ``both``: by solution, twice the places (n, 2) of each frame's landmarks, by stream.
    """
    found: dict[str, Agreement] = {}
    for name, (first, second) in both.items():
        agreement = found.setdefault(name, Agreement())
        for place, (mine, theirs) in enumerate(zip(first, second, strict=True)):
            agreement.frames += 1
            for stream in sorted({*mine, *theirs}):
                if stream not in mine or stream not in theirs:
                    only = "XNNPACK" if stream in mine else "TFLite"
                    agreement.flips.append(f"{place}: {stream} only with {only}")
                elif len(mine[stream]) == len(theirs[stream]):
                    points = [np.array(each[stream], np.float64) for each in (mine, theirs)]
                    agreement.pixels.append(_distances(points[0], points[1]))
    return found


def compare(agreement: Agreement, frame: str, result: Any, expected: Mapping[str, Any]) -> None:
    """Add the differences of one frame's results."""
    agreement.frames += 1
    for name, theirs in expected.items():
        mine = getattr(result, _NAMES.get(name, name))
        if (mine is None) is not (theirs is None):
            agreement.flips.append(
                f"{frame}: {name} {'only here' if theirs is None else 'missing'}"
            )
        elif theirs is None:
            continue
        elif name == "segmentation_mask":
            if "png" in theirs:
                agreement.overlaps.append(_mask_overlap(mine, theirs["png"]))
        elif name == "multi_handedness":
            continue
        elif not _add(agreement, json_value(mine), theirs, "world" in name):
            agreement.flips.append(f"{frame}: {name} has {len(mine)}, not {len(theirs)}")


def _add(agreement: Agreement, mine: Any, theirs: Any, is_world: bool) -> bool:
    """Add the differences of one result; False if the numbers of elements differ."""
    if isinstance(theirs, dict):
        _add_one(agreement, mine, theirs)
        return True
    if len(mine) != len(theirs):
        return False
    if theirs and isinstance(theirs[0], list) and not isinstance(theirs[0][0], list):
        _add_landmarks(agreement, mine, theirs, is_world)
        return True
    # Each is added, also after one that differs in number.
    added = [_add(agreement, a, b, is_world) for a, b in zip(mine, theirs, strict=True)]
    return all(added)


def _add_landmarks(agreement: Agreement, mine: Any, theirs: Any, is_world: bool) -> None:
    a, b = (np.array([each[:3] for each in rows], np.float64) for rows in (mine, theirs))
    if is_world:
        agreement.meters.append(np.linalg.norm(a - b, axis=1))
    else:
        agreement.pixels.append(_distances(a[:, :2], b[:, :2]))
    agreement.scores += [
        abs(m[3] - t[3]) for m, t in zip(mine, theirs, strict=True) if t[3] is not None
    ]


def _add_one(agreement: Agreement, mine: Any, theirs: Any) -> None:
    """A detection, or a rectangle."""
    if "box" in theirs:
        points = [np.array([*_corners(each["box"]), *each["keypoints"]]) for each in (mine, theirs)]
        agreement.scores += [
            abs(a - b) for a, b in zip(mine["score"], theirs["score"], strict=True)
        ]
    else:
        points = [
            np.array([[each["x"], each["y"]], [each["w"], each["h"]]]) for each in (mine, theirs)
        ]
    agreement.pixels.append(_distances(*points))


def _corners(box: Sequence[float]) -> list[list[float]]:
    left, top, width, height = box
    return [[left, top], [left + width, top + height]]


def _distances(
    mine: npt.NDArray[np.float64], theirs: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = np.linalg.norm((mine - theirs) * np.array(SIZE), axis=1)
    return found


def _mask_overlap(mine: npt.NDArray[np.float32], png: str) -> float:
    theirs: Any = cv2.imread(str(CASES / png), cv2.IMREAD_GRAYSCALE)
    a, b = mine > 0.5, theirs > 127
    union = int((a | b).sum())
    return float((a & b).sum() / union) if union else 1.0


def table(found: Mapping[str, Agreement]) -> Iterator[str]:
    """Return the lines of a Markdown table, with the flips by name below."""
    yield from head(*HEADER)
    for name, agreement in found.items():
        yield row(name, *agreement.row())
    flips = [f"{name}, {flip}" for name, each in found.items() for flip in each.flips]
    if flips:
        yield ""
        yield f"Flips: {'; '.join(flips[:40])}{' ...' if len(flips) > 40 else ''}."
