"""Oracle cases: graphs that MediaPipe itself has run, with what it sent."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

import calculators
from calculators.image.image_format import ImageFormat
from calculators.image.image_frame import ImageFrame
from calculators.vision.landmarks.landmarks import Landmarks, landmarks
from calculators.vision.messages import message_type, normalized_rect
from graph_runtime import REGISTRY, CalculatorGraph, Packet, Registry

#: Beside a checkout of the repository; not part of it.
CASES: Final = Path(__file__).parents[4] / "shared" / "cases" / "mediapipe"


def lines(name: str) -> Iterator[Any]:
    """Return the JSON values of a file of cases, compressed or not."""
    path = CASES / name
    if not path.exists():
        return
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else path.open()
    with opened as file:
        yield from map(json.loads, file)


def registry() -> Registry:
    """Return a registry with all calculators."""
    found = Registry(REGISTRY)
    calculators.register_all(found)
    return found


def packet_value(value: Any, *, is_normalized: bool = True) -> Any:
    """Return the packet that a case writes as JSON."""
    if isinstance(value, list):
        return _landmarks(value, is_normalized)
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


def _landmarks(rows: list[Any], is_normalized: bool) -> Landmarks:
    filled = [[0.0 if number is None else number for number in row] for row in rows]
    return landmarks(filled, is_normalized=is_normalized)


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
