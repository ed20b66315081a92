"""Frames come out as they went in, however the bytes were split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.llm.child.framing import MAX_FRAME, FrameBuffer, FramingError, framed

bodies = st.lists(st.binary(max_size=40), max_size=8)


@given(bodies, st.lists(st.integers(0, 30), max_size=20))
def test_frames_do_not_depend_on_how_the_bytes_were_split(
    sent: list[bytes], lengths: list[int]
) -> None:
    data = b"".join(map(framed, sent))
    buffer = FrameBuffer()
    got: list[bytes] = []
    for length in lengths:
        got += buffer.feed(data[:length])
        data = data[length:]
    got += buffer.feed(data)
    assert got == sent


def test_every_byte_on_its_own() -> None:
    buffer = FrameBuffer()
    got = [
        frame
        for byte in framed(b"hello") + framed(b"") + framed(b"x" * 300)
        for frame in buffer.feed(bytes([byte]))
    ]
    assert got == [b"hello", b"", b"x" * 300]


def test_a_length_that_no_message_has_is_refused_before_its_bytes_come() -> None:
    buffer = FrameBuffer()
    assert list(buffer.feed(framed(b"fine"))) == [b"fine"]
    with pytest.raises(FramingError, match=str(MAX_FRAME)):
        list(buffer.feed((MAX_FRAME + 1).to_bytes(4, "little")))
