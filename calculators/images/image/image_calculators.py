"""Images in graphs: decoded, encoded, scaled and rotated; their sizes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.images.image.decoding_turns import frame_in_turn, pixels_in
from calculators.images.image.encoded_image import decode_image, encode_image
from calculators.images.image.image_frame import ImageError, ImageFormat, ImageFrame
from calculators.images.image.opencv import check_opencv, opencv
from calculators.images.image.packet_types import (
    LETTERBOX_PADDING,
    check_image_tags,
    message_type,
    take_images,
)
from calculators.images.image.scaling import FIT, STRETCH, letterbox_padding, scaled, size_of
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options
from protos import messages


class OpenCvEncodedImageToImageFrameCalculator(Calculator):
    """Decodes images in a thread, while the event loop goes on.

    An image with alpha, which only a PNG has, keeps it as SRGBA unless EXIF data is applied. PNGs
    of 16 bits become GRAY16, SRGB48 or SRGBA64; MediaPipe takes all images for 8 bits.

    Inputs: #0: a JPEG or PNG: bytes, or a tensor of one BYTES element, or of UINT8 with one
        dimension. At most 20 MB and 40 million pixels.
    Outputs: #0: `ImageFrame`.
    Options (mediapipe.OpenCvEncodedImageToImageFrameCalculatorOptions):
        apply_orientation_from_exif_data: turn the image as its EXIF data says; default false.

    ::

        node {
          calculator: "OpenCvEncodedImageToImageFrameCalculator"
          input_stream: "encoded_image"
          output_stream: "image"
        }

    Source: MediaPipe
    ``calculators/images/image/opencv_encoded_image_to_image_frame_calculator.cc``.
    """

    options = Options(messages.OpenCvEncodedImageToImageFrameCalculatorOptions)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_opencv()
        contract.inputs[0].set_one_of(bytes, np.ndarray)
        contract.outputs[0].set(ImageFrame)

    async def process(self, cc: CalculatorContext) -> None:
        content = _content(cc.inputs[0].value)
        decode = partial(
            decode_image,
            content,
            apply_orientation=self.options.apply_orientation_from_exif_data,
        )
        frame = await frame_in_turn(decode, pixels_in(content))
        cc.outputs[0].add(frame, cc.time)


def _content(value: Any) -> bytes | memoryview:
    if isinstance(value, bytes):
        return value
    if value.dtype == object and value.size == 1 and isinstance(value.item(), bytes):
        content: bytes = value.item()
        return content
    if value.dtype == np.uint8 and value.ndim == 1:
        return np.ascontiguousarray(value).data
    raise ImageError(
        f"an encoded image is bytes, one BYTES element, or UINT8 of one dimension; this is a "
        f"tensor of {value.dtype} with the shape {tuple(value.shape[:8])}"
    )


# OpenCvImageEncoderCalculatorResults.ColorSpace, by channels
_COLORSPACES = {1: 1, 3: 2}


class OpenCvImageEncoderCalculator(Calculator):
    """Encodes images in a thread, while the event loop goes on.

    Inputs: #0 (`ImageFrame`): GRAY8 or three channels of 8 bits.
    Outputs: #0: mediapipe.OpenCvImageEncoderCalculatorResults: the JPEG, its size and colour space.
    Options (mediapipe.OpenCvImageEncoderCalculatorOptions):
        quality: 1 to 100. As in MediaPipe it has no default, and is 0 when not given.

    ::

        node {
          calculator: "OpenCvImageEncoderCalculator"
          input_stream: "image"
          output_stream: "encoded_image"
          options { [mediapipe.OpenCvImageEncoderCalculatorOptions.ext] { quality: 80 } }
        }

    Source: MediaPipe ``calculators/images/image/opencv_image_encoder_calculator.cc``.
    """

    options = Options(messages.OpenCvImageEncoderCalculatorOptions)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_opencv()
        contract.inputs[0].set(ImageFrame)
        contract.outputs[0].set(message_type("OpenCvImageEncoderCalculatorResults"))

    async def process(self, cc: CalculatorContext) -> None:
        frame: ImageFrame = cc.inputs[0].value
        colorspace = _COLORSPACES.get(frame.channels)
        if colorspace is None or frame.byte_depth != 1:
            raise ImageError(
                f"an image of the format {frame.image_format.name} cannot be encoded; it has to "
                f"have 1 or 3 channels of 8 bits"
            )
        content = await asyncio.to_thread(encode_image, frame, quality=self.options.quality)
        results = message_type("OpenCvImageEncoderCalculatorResults")
        found = results(
            encoded_image=content, height=frame.height, width=frame.width, colorspace=colorspace
        )
        cc.outputs[0].add(found, cc.time)


# RotationMode.Mode
_DEGREES = {0: 0, 1: 0, 2: 90, 3: 180, 4: 270}
# ImageTransformationCalculatorOptions.InterpolationMode
_NEAREST = 2


class ImageTransformationCalculator(Calculator):
    """Scales each image, then rotates it, then flips it.

    Scaling is by area where the image gets smaller, else linear. As in MediaPipe's CPU code, an
    image that has the output's size already, so also a scaled one, is rotated around its middle
    within that size; and FILL_AND_CROP gives the largest image that fits, without cutting.

    Inputs:
        IMAGE (`ImageFrame`).
        OUTPUT_DIMENSIONS (tuple, optional): width and height in pixels; an image without them at
            the same timestamp is dropped.
        ROTATION_DEGREES (int, optional): counterclockwise: 90, 180, 270, anything else is 0.
        FLIP_HORIZONTALLY, FLIP_VERTICALLY (bool, optional).
        The last value of each stream stays in force until the next one.
    Outputs:
        IMAGE (`ImageFrame`): of the input's format.
        LETTERBOX_PADDING (tuple of 4 floats, optional): left, top, right and bottom, as fractions
            of the output; not 0 only with FIT.
    Input side packets, all optional: OUTPUT_DIMENSIONS (tuple or list), ROTATION_DEGREES (int),
        FLIP_HORIZONTALLY, FLIP_VERTICALLY (bool): in place of the options.
    Options (mediapipe.ImageTransformationCalculatorOptions):
        output_width, output_height: in pixels; without both, the size stays.
        rotation_mode: ROTATION_0, ROTATION_90, ROTATION_180 or ROTATION_270, counterclockwise.
        flip_vertically, flip_horizontally.
        scale_mode: STRETCH, the default; FIT, with padding; FILL_AND_CROP, see above.
        constant_padding, padding_color: of FIT: a colour, black unless given, or the outermost
            pixels repeated.
        interpolation_mode: LINEAR, the default, or NEAREST.

    ::

        node {
          calculator: "ImageTransformationCalculator"
          input_stream: "IMAGE:image"
          output_stream: "IMAGE:small_image"
          output_stream: "LETTERBOX_PADDING:padding"
          node_options {
            [type.googleapis.com/mediapipe.ImageTransformationCalculatorOptions] {
              output_width: 320
              output_height: 320
              scale_mode: FIT
            }
          }
        }

    Source: MediaPipe ``calculators/images/image/image_transformation_calculator.cc``, without its
    VIDEO_PRESTREAM.
    """

    options = Options(messages.ImageTransformationCalculatorOptions)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_opencv()
        check_image_tags(contract)
        inputs, outputs, sides = contract.inputs, contract.outputs, contract.input_side_packets
        inputs["IMAGE"].set(ImageFrame)
        outputs["IMAGE"].set(ImageFrame)
        outputs["LETTERBOX_PADDING"].set(LETTERBOX_PADDING).optional()
        inputs["OUTPUT_DIMENSIONS"].set(tuple).optional()
        sides["OUTPUT_DIMENSIONS"].set_one_of(tuple, list).optional()
        for ports in (inputs, sides):
            ports["ROTATION_DEGREES"].set(int).optional()
            ports["FLIP_HORIZONTALLY"].set(bool).optional()
            ports["FLIP_VERTICALLY"].set(bool).optional()
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        options, sides = self.options, cc.input_side_packets
        self._size = (options.output_width, options.output_height)
        if sides.has_tag("OUTPUT_DIMENSIONS"):
            self._size = size_of(sides["OUTPUT_DIMENSIONS"].value)
        self._degrees = _DEGREES[options.rotation_mode]
        if sides.has_tag("ROTATION_DEGREES"):
            self._degrees = _known_degrees(sides["ROTATION_DEGREES"].value)
        self._flips_horizontally: bool = _first(
            sides, "FLIP_HORIZONTALLY", options.flip_horizontally
        )
        self._flips_vertically: bool = _first(sides, "FLIP_VERTICALLY", options.flip_vertically)
        self._mode = options.scale_mode or STRETCH

    def process(self, cc: CalculatorContext) -> None:
        inputs = cc.inputs
        self._flips_horizontally = _current(inputs, "FLIP_HORIZONTALLY", self._flips_horizontally)
        self._flips_vertically = _current(inputs, "FLIP_VERTICALLY", self._flips_vertically)
        self._degrees = _known_degrees(_current(inputs, "ROTATION_DEGREES", self._degrees))
        if inputs.has_tag("OUTPUT_DIMENSIONS"):
            if inputs["OUTPUT_DIMENSIONS"].is_empty():
                return
            self._size = size_of(inputs["OUTPUT_DIMENSIONS"].value)
        if inputs["IMAGE"].is_empty():
            return
        frame: ImageFrame = inputs["IMAGE"].value
        image, (width, height) = self._scaled(frame)
        if cc.outputs.has_tag("LETTERBOX_PADDING"):
            padding = (0.0, 0.0, 0.0, 0.0)
            if self._mode == FIT:
                before = (frame.width, frame.height)
                turned = before[::-1] if self._degrees in (90, 270) else before
                padding = letterbox_padding(turned, (width, height))
            cc.outputs["LETTERBOX_PADDING"].add(padding, cc.time)
        image = self._turned(image, (width, height))
        cc.outputs["IMAGE"].add(ImageFrame.owning(frame.image_format, image), cc.time)

    def _scaled(self, frame: ImageFrame) -> tuple[npt.NDArray[Any], tuple[int, int]]:
        """The image before it is turned, and the size of the output."""
        if self._size[0] > 0 and self._size[1] > 0:
            options = self.options
            color = options.padding_color
            image = scaled(
                frame.numpy_view(),
                self._size,
                mode=self._mode,
                is_nearest=options.interpolation_mode == _NEAREST,
                padding=(color.red, color.green, color.blue) if options.constant_padding else None,
            )
            is_smaller = self._mode not in (STRETCH, FIT)
            return image, (image.shape[1], image.shape[0]) if is_smaller else self._size
        size = (frame.width, frame.height)
        return frame.numpy_view(), size[::-1] if self._degrees in (90, 270) else size

    def _turned(self, image: npt.NDArray[Any], size: tuple[int, int]) -> npt.NDArray[Any]:
        cv2 = opencv()
        if self._degrees and (image.shape[1], image.shape[0]) == size:
            matrix = cv2.getRotationMatrix2D((size[0] / 2, size[1] / 2), self._degrees, 1.0)
            image = cv2.warpAffine(image, matrix, size)
        elif self._degrees == 90:
            image = cv2.rotate(image, cv2.ROTATE_90_COUNTERCLOCKWISE)
        elif self._degrees == 180:
            image = cv2.rotate(image, cv2.ROTATE_180)
        elif self._degrees == 270:
            image = cv2.rotate(image, cv2.ROTATE_90_CLOCKWISE)
        down = -1 if self._flips_vertically else 1
        across = -1 if self._flips_horizontally else 1
        return image[::down, ::across]


def _known_degrees(degrees: int) -> int:
    return degrees if degrees in (90, 180, 270) else 0


def _first(sides: Any, tag: str, default: Any) -> Any:
    return sides[tag].value if sides.has_tag(tag) else default


def _current(inputs: Any, tag: str, last: Any) -> Any:
    return inputs[tag].value if inputs.has_tag(tag) and not inputs[tag].is_empty() else last


class ImagePropertiesCalculator(Calculator):
    """Sends the size of each image.

    Inputs: IMAGE or IMAGE_CPU (`ImageFrame`).
    Outputs: SIZE (tuple): width and height in pixels, as OUTPUT_DIMENSIONS of
        ImageTransformationCalculator takes them.
    Options: none.

    ::

        node {
          calculator: "ImagePropertiesCalculator"
          input_stream: "IMAGE:image"
          output_stream: "SIZE:size"
        }

    Source: MediaPipe ``calculators/images/image/image_properties_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        take_images(contract)
        contract.outputs["SIZE"].set(tuple)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        (shard,) = cc.input_list
        frame: ImageFrame = shard.value
        cc.outputs["SIZE"].add((frame.width, frame.height), cc.time)


class FromImageCalculator(Calculator):
    """Passes images on, for graphs that distinguish MediaPipe's ImageFrame and Image.

    Inputs: IMAGE (`ImageFrame`).
    Outputs:
        IMAGE_CPU (`ImageFrame`, optional).
        SOURCE_ON_GPU (bool, optional): False.
    Options: none.

    ::

        node {
          calculator: "FromImageCalculator"
          input_stream: "IMAGE:image"
          output_stream: "IMAGE_CPU:frame"
        }

    Source: MediaPipe ``calculators/util/from_image_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.require(
            not contract.outputs.has_tag("IMAGE_GPU"),
            "the output stream with the tag IMAGE_GPU would be on a GPU, which is not supported; "
            "use the tag IMAGE_CPU",
        )
        contract.inputs["IMAGE"].set(ImageFrame)
        contract.outputs["IMAGE_CPU"].set(ImageFrame).optional()
        contract.outputs["SOURCE_ON_GPU"].set(bool).optional()
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.outputs.has_tag("SOURCE_ON_GPU"):
            cc.outputs["SOURCE_ON_GPU"].add(False, cc.time)
        if cc.outputs.has_tag("IMAGE_CPU"):
            cc.outputs["IMAGE_CPU"].add_packet(cc.inputs["IMAGE"].packet)


class ToImageCalculator(Calculator):
    """Passes images on, for graphs that distinguish MediaPipe's ImageFrame and Image.

    Inputs: IMAGE or IMAGE_CPU (`ImageFrame`).
    Outputs: IMAGE (`ImageFrame`).
    Options: none.

    ::

        node {
          calculator: "ToImageCalculator"
          input_stream: "IMAGE_CPU:frame"
          output_stream: "IMAGE:image"
        }

    Source: MediaPipe ``calculators/util/to_image_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        take_images(contract)
        contract.outputs["IMAGE"].set(ImageFrame)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        (shard,) = cc.input_list
        cc.outputs["IMAGE"].add_packet(shard.packet)


class ImageCloneCalculator(Calculator):
    """Passes images on. MediaPipe copies one to where the next node needs it.

    Inputs: #0 (`ImageFrame`).
    Outputs: #0 (`ImageFrame`): the same pixels.
    Options (mediapipe.ImageCloneCalculatorOptions): output_on_gpu: false; there is no GPU.

    ::

        node {
          calculator: "ImageCloneCalculator"
          input_stream: "image"
          output_stream: "clone"
        }

    Source: MediaPipe ``calculators/image/image_clone_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.require(
            not contract.options(messages.ImageCloneCalculatorOptions).output_on_gpu,
            "output_on_gpu: images on a GPU are not supported; leave the option out",
        )
        contract.inputs[0].set(ImageFrame)
        contract.outputs[0].set(ImageFrame)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        cc.outputs[0].add_packet(cc.inputs[0].packet)


#: The side of the image with a text, in pixels, which no more letters than this many cross.
_TEXT_SIDE: Final = 640


class OpenCvPutTextCalculator(Calculator):
    """Draws each text in yellow at the top of a transparent image of 640 x 640 pixels.

    Inputs: #0 (str).
    Outputs: #0 (`ImageFrame`): SRGBA.
    Options: none.

    ::

        node {
          calculator: "OpenCvPutTextCalculator"
          input_stream: "text"
          output_stream: "image"
        }

    Source: MediaPipe ``calculators/image/opencv_put_text_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_opencv()
        contract.inputs[0].set(str)
        contract.outputs[0].set(ImageFrame)

    def process(self, cc: CalculatorContext) -> None:
        cv2 = opencv()
        image = np.zeros((_TEXT_SIDE, _TEXT_SIDE, 4), np.uint8)
        text = cc.inputs[0].value[:_TEXT_SIDE]
        cv2.putText(image, text, (15, 70), cv2.FONT_HERSHEY_PLAIN, 3, (255, 255, 0, 255), 4)
        cc.outputs[0].add(ImageFrame.owning(ImageFormat.SRGBA, image), cc.time)
