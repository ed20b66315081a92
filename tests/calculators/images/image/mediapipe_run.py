"""One case on the real MediaPipe; see `make_mediapipe_answers`."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

_MODULES = {
    "Detection": "framework.formats.detection_pb2",
    "NormalizedRect": "framework.formats.rect_pb2",
    "RenderData": "util.render_data_pb2",
}


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """Return the packets of each watched stream, and the side packet, as JSON values."""
    import mediapipe
    from google.protobuf import json_format
    from mediapipe.python import packet_creator, packet_getter
    from mediapipe.python._framework_bindings import calculator_graph

    def packet(feed: dict[str, Any]) -> Any:
        if feed["kind"] == "image":
            image_format = getattr(mediapipe.ImageFormat, feed["format"])
            pixels = np.array(feed["pixels"], _dtype(feed["format"]))
            pixels = pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
            frame = mediapipe.ImageFrame(image_format=image_format, data=pixels)
            return packet_creator.create_image_frame(frame)
        if feed["kind"] == "tensor":
            return packet_creator.create_matrix(np.array([feed["numbers"]], np.float32))
        module = importlib.import_module(f"mediapipe.{_MODULES[feed['type']]}")
        message = getattr(module, feed["type"])()
        return packet_creator.create_proto(json_format.ParseDict(feed["fields"], message))

    def value(kind: str, found: Any) -> Any:
        if kind == "image":
            return packet_getter.get_image_frame(found).numpy_view().tolist()
        if kind == "tensors":
            return packet_getter.get_float_list(found)
        if kind == "message":
            return _fields(json_format, packet_getter.get_proto(found))
        return [_fields(json_format, message) for message in packet_getter.get_proto_list(found)]

    text, watch = case["text"], dict(case["watch"])
    streams = "".join(f'input_stream: "{name}"\n' for name in case["feeds"])
    for name, kind in case["watch"].items():
        if kind == "tensors":
            # The Python binding cannot read tensors.
            text += (
                f'node {{ calculator: "TensorsToFloatsCalculator" input_stream: "TENSORS:{name}" '
                f'output_stream: "FLOATS:{name}_floats" }}\n'
            )
    if any(feed["kind"] == "tensor" for feed in case["feeds"].values()):
        text = text.replace('"TENSORS:in"', '"TENSORS:converted"') + (
            'node { calculator: "TensorConverterCalculator" input_stream: "MATRIX:in" '
            'output_stream: "TENSORS:converted" }\n'
        )
    side = case.get("side")
    streams += f'output_side_packet: "{side}"\n' if side else ""
    graph = calculator_graph.CalculatorGraph(graph_config=streams + text)
    seen: dict[str, list[Any]] = {name: [] for name in watch}
    for name, kind in watch.items():
        stream = f"{name}_floats" if kind == "tensors" else name
        graph.observe_output_stream(
            stream, lambda _, found, name=name, kind=kind: seen[name].append(value(kind, found))
        )
    graph.start_run({})
    for name, feed in case["feeds"].items():
        graph.add_packet_to_input_stream(name, packet(feed).at(0))
    graph.close_all_packet_sources()
    graph.wait_until_done()
    result: dict[str, Any] = dict(seen)
    if side:
        result[side] = value("messages", graph.get_output_side_packet(side))
    return result


def _fields(json_format: Any, message: Any) -> Any:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def _dtype(image_format: str) -> Any:
    return {"GRAY16": np.uint16, "VEC32F1": np.float32}.get(image_format, np.uint8)
