"""`graphrt run --video`: the frames of a video into a graph, the graph's images into a video."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

from calculators.images.image.image_frame import ImageFrame
from calculators.images.image.video_file import VideoReader, VideoWriter
from graph_runtime import GraphError, Packet, ValidatedGraph
from servers.cli.feed import AddPacket, FeedLine
from servers.cli.messages import CommandFailed, print_warning

#: The codec of written videos, by the ending of the file.
_CODECS: Final = {".mp4": "mp4v", ".avi": "MJPG", ".mkv": "MJPG"}
#: Tags of inputs of images.
_TAGS: Final = ("IMAGE", "VIDEO")
#: Seconds between two lines of progress.
_STEP: Final = 0.2


class VideoRun:
    """The videos of one run: one that is read, and one that may be written.

    Raises:
        CommandFailed: a file cannot be used, or the graph has no single input of images.
    """

    def __init__(self, plan: ValidatedGraph, path: str, written: str | None) -> None:
        self._stream = _image_input(plan)
        try:
            self._video = VideoReader(path)
        except GraphError as error:
            raise CommandFailed(f"`--video {path}`: {error}") from None
        self._path = path
        self._written = written
        if written is not None and Path(written).suffix not in _CODECS:
            raise CommandFailed(
                f"`--write-video {written}`: the file ends in one of {', '.join(_CODECS)}", status=2
            )
        self._writer: VideoWriter | None = None
        self._source = ""

    def lines(self, terminal: TextIO | None = None) -> Iterator[FeedLine]:
        """Yield the frames as operations of a feed; show the progress on a terminal."""
        terminal = sys.stderr if terminal is None else terminal
        started, shown = time.monotonic(), 0.0
        is_watched = terminal.isatty()
        for at, frame in self._video:
            yield FeedLine(
                f"{self._path}: frame {self._video.frames}",
                AddPacket(self._stream, Packet(frame, at)),
            )
            now = time.monotonic()
            if is_watched and now - shown > _STEP:
                shown = now
                rate = self._video.frames / (now - started)
                count = max(self._video.count, self._video.frames)
                terminal.write(
                    f"\r\x1b[Kframe {self._video.frames} of {count}, {rate:.1f} per second"
                )
                terminal.flush()
        if is_watched:
            terminal.write("\r\x1b[K")
            terminal.flush()
        if self._video.frames < self._video.count:
            print_warning(
                f"{self._path} ends after {self._video.frames} of {self._video.count} frames"
            )

    def take(self, stream: str, packet: Packet) -> bool:
        """Write a packet to the video if it is an image; return whether it was.

        Raises:
            GraphError: the video cannot be written, or the image is of another size.
        """
        if self._written is None or packet.is_empty():
            return False
        frame = packet.value
        if not isinstance(frame, ImageFrame):
            return False
        if self._writer is None:
            size = (frame.width, frame.height)
            codec = _CODECS[Path(self._written).suffix]
            self._writer = VideoWriter(self._written, codec, self._video.frame_rate, size)
            self._source = stream
        if stream != self._source:
            return False
        self._writer.write(frame)
        return True

    def close(self) -> None:
        """Finish the files."""
        self._video.close()
        if self._writer is not None:
            self._writer.close()
        elif self._written is not None:
            print_warning(f"no image came out of the graph: {self._written} was not written")


def _image_input(plan: ValidatedGraph) -> str:
    """The graph's only input stream, or the only one of images."""
    inputs = list(plan.graph_inputs)
    found = inputs
    if len(inputs) > 1:
        found = [
            each
            for each in inputs
            if each.tag in _TAGS or ImageFrame in getattr(each.packet_type.root(), "types", ())
        ]
    if len(found) != 1:
        names = ", ".join(each.name for each in inputs) or "none"
        raise CommandFailed(
            "--video needs a graph with one input stream of images (tag IMAGE or VIDEO); the input "
            f"streams are: {names}"
        )
    return str(found[0].name)
