"""FilterDetectionCalculator: detections with some labels and scores only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import GenericAlias
from typing import Any, Final

from calculators.vision.messages import list_of, message_type
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)

_OPTIONS = "mediapipe.FilterDetectionCalculatorOptions"
_SIDES: Final = ("LABELS", "LABELS_CSV", "LABEL_MAP")


class FilterDetectionCalculator(Calculator):
    """Keeps the labels that are allowed, with their scores; the highest score comes first.

    A detection without a label that is left is dropped.

    Inputs: DETECTIONS (list of mediapipe.Detection) or DETECTION (mediapipe.Detection).
    Outputs: the same tag; a DETECTION that is dropped has no packet.
    Input side packets, at most one; without one every label is allowed:
        LABELS (list of str), LABELS_CSV (str, with commas) or LABEL_MAP (map of int to str):
        labels, or regular expressions that match a whole label.
    Options (mediapipe.FilterDetectionCalculatorOptions):
        min_score, max_score: scores outside are left out.
        fail_on_empty_labels, empty_allowed_labels_means_allow_everything: for an empty list, which
            else allows no label.

    ::

        node {
          calculator: "FilterDetectionCalculator"
          input_stream: "DETECTIONS:detections"
          input_side_packet: "LABELS_CSV:allowed_labels"
          output_stream: "DETECTIONS:filtered_detections"
          options { [mediapipe.FilterDetectionCalculatorOptions.ext] { min_score: 0.5 } }
        }

    Source: MediaPipe ``modules/objectron/calculators/filter_detection_calculator.cc``.
    """

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs, sides = contract.inputs, contract.outputs, contract.input_side_packets
        contract.require(
            inputs.has_tag("DETECTIONS") is not inputs.has_tag("DETECTION"),
            "exactly one of the input streams DETECTIONS and DETECTION is needed",
        )
        for ports in (inputs, outputs):
            ports["DETECTIONS"].set(list_of("Detection")).optional()
            ports["DETECTION"].set(message_type("Detection")).optional()
        contract.require(
            inputs.has_tag("DETECTIONS") is outputs.has_tag("DETECTIONS"),
            "the output stream has the tag of the input stream",
        )
        sides["LABELS"].set(GenericAlias(list, (str,))).optional()
        sides["LABELS_CSV"].set(str).optional()
        sides["LABEL_MAP"].set(dict).optional()
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        sides = cc.input_side_packets
        tag = next((tag for tag in _SIDES if sides.has_tag(tag)), None)
        self._allowed: re.Pattern[str] | None = None
        if tag is None:
            return
        labels = _labels(sides[tag].value)
        if not labels and self.options.fail_on_empty_labels:
            raise GraphError("the list of allowed labels is empty", code=Code.INVALID_ARGUMENT)
        if labels or not self.options.empty_allowed_labels_means_allow_everything:
            self._allowed = _pattern(labels)

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs.has_tag("DETECTIONS"):
            found = map(self._filtered, cc.inputs["DETECTIONS"].value)
            cc.outputs["DETECTIONS"].add([each for each in found if each is not None], cc.time)
            return
        kept = self._filtered(cc.inputs["DETECTION"].value)
        if kept is not None:
            cc.outputs["DETECTION"].add(kept, cc.time)

    def _filtered(self, detection: Any) -> Any:
        """The detection with the labels that are left; None without any."""
        options = self.options
        pairs = [
            (score, label)
            for label, score in zip(detection.label, detection.score, strict=False)
            if (self._allowed is None or self._allowed.fullmatch(label))
            and not (options.HasField("min_score") and score < options.min_score)
            and not (options.HasField("max_score") and score > options.max_score)
        ]
        if not pairs:
            return None
        pairs.sort(key=lambda pair: -pair[0])
        found = message_type("Detection")(
            score=[score for score, _ in pairs], label=[label for _, label in pairs]
        )
        if detection.HasField("location_data"):
            found.location_data.CopyFrom(detection.location_data)
        return found


def _labels(value: Any) -> list[str]:
    if isinstance(value, str):
        return [label.strip() for label in value.split(",") if label.strip()]
    return list(value.values() if isinstance(value, Mapping) else value)


def _pattern(labels: list[str]) -> re.Pattern[str]:
    """An expression that matches the labels, and what they match as expressions."""
    if not labels:
        return re.compile(r"(?!)")
    try:
        return re.compile("|".join(f"(?:{label})|{re.escape(label)}" for label in labels))
    except re.error as error:
        raise GraphError(
            f"an allowed label is no regular expression: {error}", code=Code.INVALID_ARGUMENT
        ) from error
