"""Runs a graph of image calculators once: packets in, values out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import calculators
from calculators.images.image.image_frame import ImageFormat, ImageFrame
from calculators.kit.graph_directory import GRAPH_DIRECTORY
from graph_runtime import REGISTRY, CalculatorGraph, Packet, Registry
from protos.pool import message_class


def run(
    text: str,
    feeds: Mapping[str, Any],
    watch: str = "out",
    *,
    side_packets: Mapping[str, Any] | None = None,
    directory: Path | None = None,
) -> dict[str, list[Any]]:
    """Send one packet into each stream at timestamp 0; return the values of each watched stream."""
    registry = Registry(REGISTRY)
    calculators.register_all(registry)
    streams = "".join(f'input_stream: "{name}"\n' for name in feeds)
    graph = CalculatorGraph(text_config=streams + text, registry=registry)
    if directory is not None:
        graph.set_service_object(GRAPH_DIRECTORY, directory)
    seen: dict[str, list[Any]] = {name: [] for name in watch.split()}
    for name in seen:
        graph.observe_output_stream(name, lambda name, packet: seen[name].append(packet.value))
    graph.start_run(dict(side_packets or {}))
    for name, value in feeds.items():
        graph.add_packet_to_input_stream(name, Packet(value, 0))
    graph.close_all_packet_sources()
    graph.wait_until_done()
    return seen


def node(name: str, options: str, *streams: str) -> str:
    """Return the text of a node; streams are written as in ``input_stream: "IMAGE:in"``."""
    return (
        f'node {{ calculator: "{name}" {" ".join(streams)} '
        f"node_options {{ [type.googleapis.com/mediapipe.{name}Options] {{ {options} }} }} }}\n"
    )


def image(width: int, height: int, image_format: ImageFormat = ImageFormat.SRGB) -> ImageFrame:
    """Return an image whose numbers differ almost everywhere."""
    count = width * height * image_format.channels
    numbers = (np.arange(count) * 37) % 251
    shape = (height, width, image_format.channels)
    return ImageFrame(image_format, numbers.reshape(shape).astype(image_format.dtype))


def detection(box: tuple[float, float, float, float], score: float = 0.9, label_id: int = 0) -> Any:
    """Return a mediapipe.Detection at xmin, ymin, width, height, in fractions of the image."""
    found: Any = message_class("mediapipe.Detection")()
    found.score.append(score)
    found.label_id.append(label_id)
    found.location_data.format = 2
    place = found.location_data.relative_bounding_box
    place.xmin, place.ymin, place.width, place.height = box
    return found


def box_of(found: Any) -> list[float]:
    """Return xmin, ymin, width, height of a mediapipe.Detection."""
    place = found.location_data.relative_bounding_box
    return [place.xmin, place.ymin, place.width, place.height]


def floats(*numbers: float, shape: tuple[int, ...] | None = None) -> npt.NDArray[np.float32]:
    found = np.array(numbers, np.float32)
    return found if shape is None else found.reshape(shape)
