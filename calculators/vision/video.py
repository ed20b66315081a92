"""Calculators that read and write video files, by OpenCV, and make the headers of videos."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Final

from calculators.core.headers import VideoHeader
from calculators.images.image.image_frame import ImageFormat, ImageFrame
from calculators.images.image.video_file import VideoReader, VideoWriter
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
    Stop,
    Timestamp,
)
from protos import messages

_LOG = logging.getLogger(__name__)
_ENCODER = messages.OpenCvVideoEncoderCalculatorOptions


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
        self._video = video = VideoReader(cc.input_side_packets["INPUT_FILE_PATH"].value)
        self._frames = iter(video)
        if cc.outputs.has_tag("VIDEO_PRESTREAM"):
            seconds = video.count / video.frame_rate
            kind = ImageFormat.SRGB.value
            header = VideoHeader(kind, video.width, video.height, seconds, video.frame_rate)
            cc.outputs["VIDEO_PRESTREAM"].add(header, Timestamp.PRESTREAM)
            cc.outputs["VIDEO_PRESTREAM"].close()

    def process(self, cc: CalculatorContext) -> None:
        for time, frame in self._frames:
            cc.outputs["VIDEO"].add(frame, time)
            return
        read, count = self._video.frames, self._video.count
        if read < count:
            _LOG.warning("the video ends after %d of %d frames", read, count)
        raise Stop

    def close(self, cc: CalculatorContext) -> None:
        self._video.close()


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
        self._writer: VideoWriter | None = None
        if not cc.inputs.has_tag("VIDEO_PRESTREAM"):
            self._begin(options.fps, (options.width, options.height))

    def _begin(self, rate: float, size: tuple[int, int]) -> None:
        self._writer = VideoWriter(self._path, self.options.codec, rate, size)

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs.has_tag("VIDEO_PRESTREAM") and not cc.inputs["VIDEO_PRESTREAM"].is_empty():
            header: VideoHeader = cc.inputs["VIDEO_PRESTREAM"].value
            self._begin(header.frame_rate, (header.width, header.height))
        if cc.inputs["VIDEO"].is_empty():
            return
        if self._writer is None:
            raise GraphError(
                "a frame came before the header of VIDEO_PRESTREAM", code=Code.INVALID_ARGUMENT
            )
        self._writer.write(cc.inputs["VIDEO"].value)

    def close(self, cc: CalculatorContext) -> None:
        if self._writer is not None:
            self._writer.close()


_PRESTREAM: Final = messages.VideoPreStreamCalculatorOptions


class VideoPreStreamCalculator(Calculator):
    """Makes the header of a video of its first frame.

    Inputs, the first alone, or the others:
        #0 (`ImageFrame`).
        FRAME (`ImageFrame`).
        VIDEO_PRESTREAM (`VideoHeader`): frame rate and duration; one packet at PRESTREAM.
    Outputs: #0 (`VideoHeader`): one packet at PRESTREAM, with format and size of the first frame.
    Options (mediapipe.VideoPreStreamCalculatorOptions):
        fps: value, or ratio with numerator and denominator: the frame rate without VIDEO_PRESTREAM.

    ::

        node {
          calculator: "VideoPreStreamCalculator"
          input_stream: "frames"
          output_stream: "header"
          options { [mediapipe.VideoPreStreamCalculatorOptions.ext] { fps { value: 30 } } }
        }

    Source: MediaPipe ``calculators/video/video_pre_stream_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs = contract.inputs
        if inputs.tags() == [""]:
            inputs[0].set(ImageFrame)
        else:
            inputs["FRAME"].set(ImageFrame)
            inputs["VIDEO_PRESTREAM"].set(VideoHeader)
        contract.outputs[0].set(VideoHeader)

    def open(self, cc: CalculatorContext) -> None:
        fps = cc.options(_PRESTREAM).fps
        rate = fps.value
        if not fps.HasField("value") and fps.ratio.numerator > 0 and fps.ratio.denominator > 0:
            rate = fps.ratio.numerator / fps.ratio.denominator
        has_header = cc.inputs.has_tag("VIDEO_PRESTREAM")
        self._header: VideoHeader | None = VideoHeader(frame_rate=0.0 if has_header else rate)

    def process(self, cc: CalculatorContext) -> None:
        if self._header is None:
            return
        has_header = cc.inputs.has_tag("VIDEO_PRESTREAM")
        frames = cc.inputs["FRAME" if has_header else 0]
        if has_header:
            given = cc.inputs["VIDEO_PRESTREAM"]
            if given.is_empty() is (cc.time == Timestamp.PRESTREAM):
                raise GraphError(
                    "VIDEO_PRESTREAM has one packet, at PRESTREAM, and FRAME none there",
                    code=Code.INTERNAL,
                )
            if not given.is_empty():
                self._header = given.value
        if not self._header.frame_rate:
            raise GraphError(
                "the frame rate is not known: it comes with the header of VIDEO_PRESTREAM, at "
                "PRESTREAM, or from the option fps",
                code=Code.INTERNAL,
            )
        if frames.is_empty():
            return
        frame: ImageFrame = frames.value
        found = replace(
            self._header,
            format=frame.image_format.value,
            width=frame.width,
            height=frame.height,
        )
        cc.outputs[0].add(found, Timestamp.PRESTREAM)
        self._header = None


VIDEOS: tuple[type[Calculator], ...] = (
    OpenCvVideoDecoderCalculator,
    OpenCvVideoEncoderCalculator,
    VideoPreStreamCalculator,
)
