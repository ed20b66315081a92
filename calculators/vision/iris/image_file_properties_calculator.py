"""ImageFilePropertiesCalculator: what an image file says of the camera."""

from __future__ import annotations

import io
import math
from typing import Any, Final

from PIL import Image as Pillow
from PIL import UnidentifiedImageError

from calculators.vision.messages import message_type
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Code, GraphError

#: EXIF's directory of the exposure, and its tags of the focal length.
_EXPOSURE: Final = 0x8769
_FOCAL_LENGTH: Final = 0x920A
_FOCAL_LENGTH_35MM: Final = 0xA405
#: Millimeters from corner to corner of a film of 35 mm.
_DIAGONAL_35MM: Final = math.hypot(36.0, 24.0)


class ImageFilePropertiesCalculator(Calculator):
    """Reads the size and focal length of a JPEG with EXIF.

    Inputs: index 0 (bytes), or the side packet of index 0 (bytes): the file.
    Outputs: index 0, for a stream, or a side packet, of the first file
        (mediapipe.ImageFileProperties).
    Options: none.

    ::

        node {
          calculator: "ImageFilePropertiesCalculator"
          input_side_packet: "image_bytes"
          output_side_packet: "image_properties"
        }

    Source: MediaPipe ``calculators/images/image/image_file_properties_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        kind = message_type("ImageFileProperties")
        for streams, sides, accepted in (
            (contract.inputs, contract.input_side_packets, bytes),
            (contract.outputs, contract.output_side_packets, kind),
        ):
            contract.require(
                len(streams) + len(sides) == 1, "one stream or one side packet goes in, and one out"
            )
            for ports in (streams, sides):
                if len(ports):
                    ports[0].set(accepted)
        contract.require(
            len(contract.inputs) >= len(contract.outputs),
            "a stream comes of a stream; of a side packet comes a side packet",
        )
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._is_sent = False
        if len(cc.input_side_packets):
            self._send(cc, cc.input_side_packets[0].value)

    def process(self, cc: CalculatorContext) -> None:
        if not cc.inputs[0].is_empty():
            self._send(cc, cc.inputs[0].value)

    def _send(self, cc: CalculatorContext, content: bytes) -> None:
        properties = image_file_properties(content)
        if len(cc.outputs):
            cc.outputs[0].add(properties, cc.time)
        elif not self._is_sent:
            # A side packet is there once: that of the first file.
            self._is_sent = True
            cc.output_side_packets[0].set(properties)


def image_file_properties(content: bytes) -> Any:
    """Return the mediapipe.ImageFileProperties of an image file.

    Raises:
        GraphError: it is no image, or does not say the focal length (INVALID_ARGUMENT).
    """
    try:
        with Pillow.open(io.BytesIO(content)) as image:
            width, height = image.size
            exposure = image.getexif().get_ifd(_EXPOSURE)
            length = float(exposure.get(_FOCAL_LENGTH, 0))
            length_35mm = float(exposure.get(_FOCAL_LENGTH_35MM, 0))
    except (UnidentifiedImageError, OSError, ValueError, ZeroDivisionError, SyntaxError) as error:
        raise GraphError("the bytes are no image file", code=Code.INVALID_ARGUMENT) from error
    if not (length > 0 and length_35mm > 0):
        raise GraphError(
            "the image file does not say the focal length of the camera (EXIF FocalLength and "
            "FocalLengthIn35mmFilm)",
            code=Code.INVALID_ARGUMENT,
        )
    diagonal = _DIAGONAL_35MM / length_35mm * length
    sensor_width = diagonal / math.hypot(1, min(width, height) / max(width, height))
    return message_type("ImageFileProperties")(
        image_width=width,
        image_height=height,
        focal_length_mm=length,
        focal_length_35mm=length_35mm,
        focal_length_pixels=max(width, height) * length / sensor_width,
    )
