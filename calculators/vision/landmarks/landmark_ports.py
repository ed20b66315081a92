"""Ports that carry landmarks."""

from __future__ import annotations

from typing import Any

from calculators.vision.landmarks.landmarks import Landmarks
from calculators.vision.messages import message_type
from graph_runtime import CalculatorContract

#: The tags of normalized landmarks and of others.
NORMALIZED, METRIC = "NORM_LANDMARKS", "LANDMARKS"


def take_landmarks(packet_type: Any) -> Any:
    """Let a port take `Landmarks`, and the messages that they stand for."""
    return packet_type.set_one_of(
        Landmarks, message_type("NormalizedLandmarkList"), message_type("LandmarkList")
    )


def take_one_of(contract: CalculatorContract, first: str, second: str) -> str:
    """Declare an input of landmarks under exactly one of two tags; return the tag."""
    has_first = contract.inputs.has_tag(first)
    contract.require(
        has_first is not contract.inputs.has_tag(second),
        f"exactly one of the input streams {first} and {second} is needed",
    )
    for tag in (first, second):
        take_landmarks(contract.inputs[tag]).optional()
    return first if has_first else second
