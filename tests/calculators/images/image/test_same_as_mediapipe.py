"""Answers equal to those of the real MediaPipe, which `make_mediapipe_answers` recorded."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format

import calculators
from calculators.images.image.image_frame import ImageFormat, ImageFrame
from graph_runtime import REGISTRY, CalculatorGraph, Registry
from protos.pool import message_class
from tests.calculators.images.image.make_mediapipe_answers import FILE
from tests.calculators.images.image.runs import run

CASES = json.loads(FILE.read_text())


def _value(feed: dict[str, Any]) -> Any:
    if feed["kind"] == "image":
        image_format = ImageFormat[feed["format"]]
        return ImageFrame(image_format, np.array(feed["pixels"], image_format.dtype))
    if feed["kind"] == "tensor":
        return [np.array([feed["numbers"]], np.float32)]
    message = message_class(f"mediapipe.{feed['type']}")()
    return json_format.ParseDict(feed["fields"], message)


def _fields(message: Any) -> Any:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def _shown(kind: str, found: Any) -> Any:
    if kind == "image":
        return found.numpy_view().tolist()
    if kind == "tensors":
        return found[0].ravel().tolist()
    return _fields(found) if kind == "message" else [_fields(message) for message in found]


def _check(ours: Any, theirs: Any, tolerance: float) -> None:
    """Check that two values are equal, except for the last digits of numbers."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for key in theirs:
            _check(ours[key], theirs[key], tolerance)
    elif isinstance(theirs, list) and theirs and isinstance(theirs[0], (dict, list)):
        assert len(ours) == len(theirs)
        for our, their in zip(ours, theirs, strict=True):
            _check(our, their, tolerance)
    elif isinstance(theirs, (list, float, int)):
        assert ours == pytest.approx(theirs, abs=tolerance)
    else:
        assert ours == theirs


def _named(case: dict[str, Any]) -> str:
    calculator = case["text"].rpartition('calculator: "')[2].partition("Calculator")[0]
    return f"{calculator}-{CASES.index(case)}"


STREAMS = [case for case in CASES if case["watch"]]


@pytest.mark.parametrize("case", STREAMS, ids=map(_named, STREAMS))
def test_packets_equal_mediapipes(case: dict[str, Any]) -> None:
    feeds = {name: _value(feed) for name, feed in case["feeds"].items()}
    found = run(case["text"], feeds, " ".join(case["watch"]))
    for name, kind in case["watch"].items():
        shown = [_shown(kind, value) for value in found[name]]
        _check(shown, case["answer"][name], 1e-4 if kind == "image" else 1e-5)


SIDES = [case for case in CASES if not case["watch"]]


@pytest.mark.parametrize("case", SIDES, ids=map(_named, SIDES))
def test_side_packets_equal_mediapipes(case: dict[str, Any]) -> None:
    registry = Registry(REGISTRY)
    calculators.register_all(registry)
    side = case["side"]
    text = f'{case["text"]}\noutput_side_packet: "{side}"'
    graph = CalculatorGraph(text_config=text, registry=registry)
    graph.start_run({})
    graph.wait_until_done()
    found = [_fields(message) for message in graph.get_output_side_packet(side).value]
    _check(found, case["answer"][side], 1e-5)
