"""Framing: frames arrive as they were sent, however the bytes are split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.kit.child_process.framing import (
    MAX_FRAME,
    SHORT,
    Frame,
    FrameBuffer,
    FramingError,
    framed,
)


def arrive(buffer: FrameBuffer, data: bytes, chunk: int = MAX_FRAME) -> list[Frame]:
    """Yield the frames that are complete as the bytes arrive, ``size`` at a time."""
    frames: list[Frame] = []
    while data:
        room = buffer.room()
        count = min(len(room), len(data), chunk)
        room[:count] = data[:count]
        frames += buffer.received(count)
        data = data[count:]
    return frames


def stream(*bodies: bytes) -> bytes:
    """Return the bytes that carry these messages."""
    return b"".join(bytes(piece) for body in bodies for piece in framed(body))


bodies = st.lists(st.binary(max_size=40), max_size=8)


@given(bodies, st.lists(st.integers(0, 30), max_size=20))
def test_frames_do_not_depend_on_how_the_bytes_were_split(
    sent: list[bytes], lengths: list[int]
) -> None:
    data = stream(*sent)
    buffer = FrameBuffer()
    got: list[Frame] = []
    for length in lengths:
        got += arrive(buffer, data[:length])
        data = data[length:]
    got += arrive(buffer, data)
    assert got == sent


def test_frames_arrive_byte_by_byte() -> None:
    buffer = FrameBuffer()
    got = [
        frame
        for byte in stream(b"hello", b"", b"x" * 300)
        for frame in arrive(buffer, bytes([byte]))
    ]
    assert got == [b"hello", b"", b"x" * 300]


def test_an_impossible_length_is_refused_before_its_bytes_arrive() -> None:
    buffer = FrameBuffer()
    assert arrive(buffer, stream(b"fine")) == [b"fine"]
    with pytest.raises(FramingError, match=str(MAX_FRAME)):
        arrive(buffer, (MAX_FRAME + 1).to_bytes(4, "little"))


@pytest.mark.parametrize("chunk", [1000, 262144, MAX_FRAME])
def test_long_and_short_frames_may_alternate(chunk: int) -> None:
    sent = [b"a", b"x" * SHORT, b"y" * (5 * SHORT + 1), b"", b"z" * (SHORT - 1), b"b"]
    assert arrive(FrameBuffer(), stream(*sent), chunk) == sent


def test_pieces_are_one_frame_and_long_ones_are_not_copied() -> None:
    long = memoryview(bytes(SHORT))
    pieces = framed(b"head", b"er", long, b"tail")
    assert pieces[1] is long
    assert [len(piece) for piece in pieces] == [4 + 6, SHORT, 4]
    sent = b"".join(pieces)
    assert arrive(FrameBuffer(), sent) == [b"header" + bytes(long) + b"tail"]
