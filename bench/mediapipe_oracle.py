"""Oracle cases: graphs that MediaPipe itself has run, with what it sent."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import cv2
import numpy as np
import numpy.typing as npt

import calculators
from calculators.images.image.image_frame import ImageFormat, ImageFrame
from calculators.images.image.packet_types import message_type
from calculators.vision.landmarks.landmarks import Landmarks
from calculators.vision.regions import normalized_rect
from graph_runtime import REGISTRY, CalculatorGraph, Packet, Registry
from tests.corpora import corpora

CASES: Final = corpora() / "mediapipe"


def lines(name: str) -> Iterator[Any]:
    """Return the JSON values of a file of cases, compressed or not."""
    path = CASES / name
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    yield from map(json.loads, text.splitlines())


def picture(name: str) -> npt.NDArray[np.uint8]:
    """Return a picture of the cases, (height, width, 3), RGB."""
    found: Any = cv2.imread(str(CASES / "pictures" / f"{name}.png"))
    return np.ascontiguousarray(found[:, :, ::-1], np.uint8)


def frame(
    source: npt.NDArray[np.uint8], matrix: Sequence[Sequence[float]], size: tuple[int, int]
) -> npt.NDArray[np.uint8]:
    """Return a frame of a sequence, black beyond the picture: the same bytes everywhere.

    Args:
        source: the picture.
        matrix: 2 rows: from pixels of the frame to pixels of the picture.
        size: width and height of the frame.
    """
    width, height = size
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    (a, b, c), (d, e, f) = matrix
    at_x, at_y = a * x + b * y + c, d * x + e * y + f
    left, top = np.floor(at_x).astype(int), np.floor(at_y).astype(int)
    part_x, part_y = (at_x - left)[..., np.newaxis], (at_y - top)[..., np.newaxis]
    # A border of zeros, so that every index is inside.
    padded = np.pad(source.astype(np.float64), ((1, 1), (1, 1), (0, 0)))

    def pixels(rows: Any, columns: Any) -> Any:
        rows = np.clip(rows, -1, source.shape[0]) + 1
        return padded[rows, np.clip(columns, -1, source.shape[1]) + 1]

    upper = pixels(top, left) * (1 - part_x) + pixels(top, left + 1) * part_x
    lower = pixels(top + 1, left) * (1 - part_x) + pixels(top + 1, left + 1) * part_x
    mixed: npt.NDArray[np.float64] = upper * (1 - part_y) + lower * part_y
    return np.floor(mixed + 0.5).astype(np.uint8)


@dataclass
class CaseSequence:
    """A sequence of frames with MediaPipe's results.

    Attributes:
        frames: RGB.
        results: by solution: its arguments, and per frame its results by name.
    """

    frames: list[npt.NDArray[np.uint8]]
    results: dict[str, tuple[dict[str, Any], list[Any]]]


def sequence(name: str) -> CaseSequence:
    """Return the sequence of a file ``sequence_NAME.jsonl.gz``.

    Raises:
        ValueError: a frame is not the one that MediaPipe has seen.
    """
    header, *rows = lines(f"sequence_{name}.jsonl.gz")
    found = CaseSequence(frames(header), {})
    for row in rows:
        entry = found.results.setdefault(row["solution"], (row["arguments"], []))
        entry[1].append(row["results"])
    return found


def frames(header: Any) -> list[npt.NDArray[np.uint8]]:
    """Return the frames that the first line of a sequence describes."""
    source = picture(header["picture"])
    made = [frame(source, matrix, tuple(header["size"])) for matrix in header["matrices"]]
    for each, expected in zip(made, header["crc"], strict=True):
        if zlib.crc32(each.tobytes()) != expected:
            raise ValueError("a frame is not the one that MediaPipe has seen")
    return made


def registry() -> Registry:
    """Return a registry with all calculators."""
    found = Registry(REGISTRY)
    calculators.register_all(found)
    return found


def packet_value(value: Any, *, is_normalized: bool = True) -> Any:
    """Return the packet that a case writes as JSON."""
    if isinstance(value, list):
        return _list(value, is_normalized)
    if not isinstance(value, dict):
        return value
    if "image" in value:
        width, height = value["image"]
        return ImageFrame(ImageFormat.SRGB, np.zeros((height, width, 3), np.uint8))
    if "mask" in value:
        return ImageFrame(ImageFormat.VEC32F1, np.array(value["mask"], np.float32))
    if "rotation" in value:
        return normalized_rect(*(value[key] for key in ("x", "y", "w", "h", "rotation")))
    if "box" in value:
        return _detection(value)
    raise AssertionError(f"a packet of {sorted(value)}")


def _list(values: list[Any], is_normalized: bool) -> Any:
    """Landmarks, classes, or a list of packets."""
    if values and isinstance(values[0], list) and not isinstance(values[0][0], list):
        if len(values[0]) == 3:
            return _classes(values)
        return _landmarks(values, is_normalized)
    return [packet_value(each, is_normalized=is_normalized) for each in values]


def _classes(rows: list[Any]) -> Any:
    found = message_type("ClassificationList")()
    for index, score, label in rows:
        found.classification.add(index=index, score=score, label=label)
    return found


def _landmarks(rows: list[Any], is_normalized: bool) -> Landmarks:
    values = np.array([[each or 0.0 for each in row] for row in rows], np.float32)
    return Landmarks(
        values.reshape(-1, 5),
        is_normalized=is_normalized,
        has_visibility=any(row[3] is not None for row in rows),
        has_presence=any(row[4] is not None for row in rows),
    )


def _detection(value: Any) -> Any:
    found = message_type("Detection")(
        score=value["score"], label_id=value["label_id"], label=value["label"]
    )
    location = found.location_data
    location.format = 2
    box = location.relative_bounding_box
    box.xmin, box.ymin, box.width, box.height = value["box"]
    for x, y in value["keypoints"]:
        location.relative_keypoints.add(x=x, y=y)
    return found


def json_value(value: Any) -> Any:
    """Return a packet as a case writes it."""
    if isinstance(value, Landmarks):
        return [
            [
                *row[:3],
                row[3] if value.has_visibility else None,
                row[4] if value.has_presence else None,
            ]
            for row in value.values.tolist()
        ]
    if isinstance(value, ImageFrame):
        return value.numpy_view().tolist()
    if isinstance(value, list):
        return [json_value(each) for each in value]
    kind = getattr(getattr(value, "DESCRIPTOR", None), "name", "")
    if kind in ("NormalizedRect", "Rect"):
        return {
            "x": value.x_center,
            "y": value.y_center,
            "w": value.width,
            "h": value.height,
            "rotation": value.rotation,
        }
    if kind == "Detection":
        box = value.location_data.relative_bounding_box
        return {
            "score": list(value.score),
            "label_id": list(value.label_id),
            "label": list(value.label),
            "box": [box.xmin, box.ymin, box.width, box.height],
            "keypoints": [[p.x, p.y] for p in value.location_data.relative_keypoints],
        }
    if kind == "ClassificationList":
        return [[each.index, each.score, each.label] for each in value.classification]
    return value


def run_unit(unit: Any) -> list[tuple[int, str, Any]]:
    """Run a unit case; return (timestamp, stream, value) of each packet."""
    graph = CalculatorGraph(text_config=unit["graph"], registry=registry())
    streams = sorted({stream for _, stream, _ in unit["outputs"]}) or ["out"]
    seen: list[tuple[int, str, Any]] = []
    for stream in streams:
        graph.observe_output_stream(
            stream, lambda name, packet: seen.append((packet.time, name, json_value(packet.value)))
        )
    graph.start_run()
    is_normalized = "NORM_LANDMARKS" in unit["graph"]
    for time, values in unit["feeds"]:
        for stream, value in values.items():
            found = packet_value(value, is_normalized=is_normalized)
            graph.add_packet_to_input_stream(stream, Packet(found, time))
    graph.close()
    return seen


def difference(mine: Any, theirs: Any) -> float:
    """Return the largest difference of two JSON values; infinite if their forms differ."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        if mine.keys() != theirs.keys():
            return float("inf")
        return max((difference(mine[key], theirs[key]) for key in mine), default=0.0)
    if isinstance(mine, list) and isinstance(theirs, list):
        if mine and isinstance(mine[0], list) and theirs and not isinstance(theirs[0], list):
            mine = [number for row in mine for number in row]
        if len(mine) != len(theirs):
            return float("inf")
        return max((difference(a, b) for a, b in zip(mine, theirs, strict=True)), default=0.0)
    if isinstance(mine, bool) or isinstance(theirs, bool) or mine is None or theirs is None:
        return 0.0 if mine is theirs else float("inf")
    if isinstance(mine, (int, float)) and isinstance(theirs, (int, float)):
        return abs(mine - theirs)
    return 0.0 if mine == theirs else float("inf")
