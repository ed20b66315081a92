"""Calculators that read and write video files, by OpenCV."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.core.video_header import VideoHeader
from calculators.image.image_format import ImageFormat
from calculators.image.image_frame import ImageFrame
from calculators.image.opencv import opencv
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    NotFoundError,
    Options,
    Stop,
    Timestamp,
)

_LOG = logging.getLogger(__name__)
_ENCODER = "mediapipe.OpenCvVideoEncoderCalculatorOptions"
#: How often a frame that cannot be read is tried.
_TRIES: Final = 2


class OpenCvVideoDecoderCalculator(Calculator):
    """Sends the frames of a video file at their times in it.

    A file that is broken off ends where it breaks, with a warning in the log.

    Input side packets: INPUT_FILE_PATH (str).
    Outputs:
        VIDEO (`ImageFrame`): SRGB.
        VIDEO_PRESTREAM (`VideoHeader`, optional): one packet at PRESTREAM.
    Options: none.

    ::

        node {
          calculator: "OpenCvVideoDecoderCalculator"
          input_side_packet: "INPUT_FILE_PATH:path"
          output_stream: "VIDEO:video"
          output_stream: "VIDEO_PRESTREAM:header"
        }

    Source: MediaPipe ``calculators/video/opencv_video_decoder_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.input_side_packets["INPUT_FILE_PATH"].set(str)
        contract.outputs["VIDEO"].set(ImageFrame)
        contract.outputs["VIDEO_PRESTREAM"].set(VideoHeader).optional()
        contract.require(
            not contract.output_side_packets.has_tag("SAVED_AUDIO_PATH"),
            "SAVED_AUDIO_PATH is not supported: sound is not copied",
        )

    def open(self, cc: CalculatorContext) -> None:
        cv2 = opencv()
        path = cc.input_side_packets["INPUT_FILE_PATH"].value
        if not os.path.isfile(path):
            raise NotFoundError(f'there is no video file "{path}"')
        self._video = cv2.VideoCapture(path)
        read = self._video.get
        width, height = int(read(cv2.CAP_PROP_FRAME_WIDTH)), int(read(cv2.CAP_PROP_FRAME_HEIGHT))
        rate, count = read(cv2.CAP_PROP_FPS), int(read(cv2.CAP_PROP_FRAME_COUNT))
        if not self._video.isOpened() or width <= 0 or height <= 0 or rate <= 0:
            raise GraphError(f'"{path}" is no video that can be read', code=Code.INVALID_ARGUMENT)
        self._position = cv2.CAP_PROP_POS_MSEC
        self._count, self._frames = count, 0
        self._last = -1
        if cc.outputs.has_tag("VIDEO_PRESTREAM"):
            header = VideoHeader(ImageFormat.SRGB.value, width, height, count / rate, rate)
            cc.outputs["VIDEO_PRESTREAM"].add(header, Timestamp.PRESTREAM)
            cc.outputs["VIDEO_PRESTREAM"].close()

    def process(self, cc: CalculatorContext) -> None:
        pixels = self._read()
        # As MediaPipe: after the read.
        time = int(self._video.get(self._position) * 1000)
        self._frames += 1
        if time > self._last:
            self._last = time
            cc.outputs["VIDEO"].add(ImageFrame.owning(ImageFormat.SRGB, pixels), time)

    def _read(self) -> npt.NDArray[np.uint8]:
        for _ in range(_TRIES):
            is_read, pixels = self._video.read()
            if is_read and pixels is not None and pixels.size:
                cv2 = opencv()
                found: Any = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
                return np.asarray(found, np.uint8)
        if self._frames < self._count:
            _LOG.warning("the video ends after %d of %d frames", self._frames, self._count)
        raise Stop

    def close(self, cc: CalculatorContext) -> None:
        self._video.release()


class OpenCvVideoEncoderCalculator(Calculator):
    """Writes frames to a video file.

    Inputs:
        VIDEO (`ImageFrame`): SRGB, SRGBA or GRAY8, all of one size.
        VIDEO_PRESTREAM (`VideoHeader`, optional): frame rate and size, in place of the options.
    Input side packets: OUTPUT_FILE_PATH (str): its ending is video_format.
    Options (mediapipe.OpenCvVideoEncoderCalculatorOptions):
        codec: four characters, such as "mp4v". video_format: such as "mp4".
        fps, width, height: without VIDEO_PRESTREAM.

    ::

        node {
          calculator: "OpenCvVideoEncoderCalculator"
          input_stream: "VIDEO:video"
          input_stream: "VIDEO_PRESTREAM:header"
          input_side_packet: "OUTPUT_FILE_PATH:path"
          options {
            [mediapipe.OpenCvVideoEncoderCalculatorOptions.ext] {
              codec: "mp4v"
              video_format: "mp4"
            }
          }
        }

    Source: MediaPipe ``calculators/video/opencv_video_encoder_calculator.cc``.
    """

    options = Options(_ENCODER)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["VIDEO"].set(ImageFrame)
        contract.inputs["VIDEO_PRESTREAM"].set(VideoHeader).optional()
        contract.input_side_packets["OUTPUT_FILE_PATH"].set(str)
        contract.input_side_packets["AUDIO_FILE_PATH"].set(str).optional()
        options = contract.options(_ENCODER)
        contract.require(
            len(options.codec) == 4, f'codec has four characters; it is "{options.codec}"'
        )
        contract.require(bool(options.video_format), "video_format is needed")
        contract.require(
            contract.inputs.has_tag("VIDEO_PRESTREAM")
            or (options.fps > 0 and options.width > 0 and options.height > 0),
            "without VIDEO_PRESTREAM, fps, width and height are needed, each above 0",
        )

    def open(self, cc: CalculatorContext) -> None:
        options = self.options
        self._path: str = cc.input_side_packets["OUTPUT_FILE_PATH"].value
        if Path(self._path).suffix != f".{options.video_format}":
            raise GraphError(
                f"the file of a video in the format {options.video_format} ends in "
                f'".{options.video_format}": "{self._path}" does not',
                code=Code.INVALID_ARGUMENT,
            )
        self._writer: Any = None
        if not cc.inputs.has_tag("VIDEO_PRESTREAM"):
            self._begin(options.fps, (options.width, options.height))

    def _begin(self, rate: float, size: tuple[int, int]) -> None:
        cv2 = opencv()
        code = cv2.VideoWriter_fourcc(*self.options.codec)
        self._size = size
        self._writer = cv2.VideoWriter(self._path, code, rate, size)
        if not self._writer.isOpened():
            raise GraphError(
                f'"{self._path}" cannot be written as {self.options.codec}',
                code=Code.FAILED_PRECONDITION,
            )

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs.has_tag("VIDEO_PRESTREAM") and not cc.inputs["VIDEO_PRESTREAM"].is_empty():
            header: VideoHeader = cc.inputs["VIDEO_PRESTREAM"].value
            self._begin(header.frame_rate, (header.width, header.height))
        if cc.inputs["VIDEO"].is_empty():
            return
        frame: ImageFrame = cc.inputs["VIDEO"].value
        if self._writer is None or (frame.width, frame.height) != self._size:
            raise GraphError(
                "a frame came before the header, or has another size", code=Code.INVALID_ARGUMENT
            )
        self._writer.write(_bgr(frame))

    def close(self, cc: CalculatorContext) -> None:
        if self._writer is not None:
            self._writer.release()


def _bgr(frame: ImageFrame) -> Any:
    cv2 = opencv()
    codes = {
        ImageFormat.SRGB: cv2.COLOR_RGB2BGR,
        ImageFormat.SRGBA: cv2.COLOR_RGBA2BGR,
        ImageFormat.GRAY8: cv2.COLOR_GRAY2BGR,
    }
    if frame.image_format not in codes:
        raise GraphError(
            f"frames of the format {frame.image_format.name} cannot be written; the formats are "
            f"{', '.join(known.name for known in codes)}",
            code=Code.INVALID_ARGUMENT,
        )
    return cv2.cvtColor(frame.numpy_view(), codes[frame.image_format])


CALCULATORS: tuple[type[Calculator], ...] = (
    OpenCvVideoDecoderCalculator,
    OpenCvVideoEncoderCalculator,
)
