"""VideoHeader: the header packet of a stream of video frames."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class VideoHeader:
    """The properties that all frames of a stream share.

    ``format`` is the number of an image format; ``width`` and ``height`` are in pixels,
    ``duration`` in seconds, ``frame_rate`` in frames per second. 0 means unknown.
    Source: MediaPipe ``framework/formats/video_stream_header.h``.
    """

    format: int = 0
    width: int = 0
    height: int = 0
    duration: float = 0.0
    frame_rate: float = 0.0
