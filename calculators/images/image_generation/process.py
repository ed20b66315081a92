"""The process that draws: ``python -m calculators.images.image_generation.process DESCRIPTOR
PARENT``.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from calculators.images.image_generation.messages import (
    CancelDrawing,
    Continue,
    Draw,
    DrawingLoad,
    to_artist_decoder,
)
from calculators.kit.child_process.lean_openvino import load_failure
from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, StopChild
from calculators.kit.child_process.parent_connection import (
    ParentConnection,
    ParentGone,
    die_with_parent,
)

if TYPE_CHECKING:
    from calculators.images.image_generation.artist import Artist

#: Seconds between two signs of life during a long step.
_SIGN_SECONDS: Final = 1.0
#: Where Linux ends a process because memory is short, it is this one, and not the server.
_OOM_SCORE: Final = "500"


def main(descriptor: int, parent: int) -> int:
    """Load, then draw until the parent stops the process or is gone; return the exit code."""
    connection = ParentConnection(descriptor)
    try:
        die_with_parent(parent)
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")
        artist = _load(connection)
        if artist is None:
            return 1
        _run(artist, connection)
    except ParentGone:
        pass
    return 0


def _load(connection: ParentConnection) -> Artist | None:
    encode = msgspec.msgpack.encode
    load = _first_message(connection)
    if load.niceness:
        os.nice(load.niceness)
    try:
        # Imported here: the libraries take long to load, and may be what is broken.
        from calculators.images.image_generation.artist import Artist
        from calculators.images.image_generation.pipelines import Pipelines

        def report(phase: LoadingPhase) -> None:
            connection.send(encode(phase))

        pipelines = Pipelines(load, report)
    except Exception as error:
        connection.send(encode(LoadFailed(load_failure(load.model_path, error))))
        return None
    connection.send(encode(pipelines.ready()))
    return Artist(pipelines, connection.wake)


def _first_message(connection: ParentConnection) -> DrawingLoad:
    while True:
        for frame in connection.receive(wait=True):
            message = to_artist_decoder.decode(frame)
            assert isinstance(message, DrawingLoad), message
            return message


def _run(artist: Artist, connection: ParentConnection) -> None:
    encode = msgspec.msgpack.Encoder().encode
    while True:
        seconds = _SIGN_SECONDS if artist.is_busy else None
        for frame in connection.receive(wait=True, seconds=seconds):
            match to_artist_decoder.decode(frame):
                case StopChild():
                    return
                case Draw() as draw:
                    artist.begin(draw)
                case Continue(number=number):
                    artist.go_on(number)
                case CancelDrawing(number=number):
                    artist.cancel(number)
                case other:
                    raise AssertionError(other)
        for message in artist.take_news():
            connection.send(encode(message))


if __name__ == "__main__":
    # Skips the library's destructors, which are slow, and wait for a drawing.
    os._exit(main(int(sys.argv[1]), int(sys.argv[2])))
