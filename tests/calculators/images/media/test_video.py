"""Videos become frames: which ones, how large, and what is refused."""

from __future__ import annotations

import base64
import io
import sys
from typing import Any

import numpy as np
import pytest

from calculators.images.media import video as video_module
from calculators.images.media.decoding import decode_images
from calculators.images.media.image import (
    MAX_FRAMES,
    MAX_VIDEO_PIXELS,
    EncodedImage,
    Image,
    VideoSampling,
)
from calculators.images.media.video import decode_video
from calculators.kit.requests.http_payload import RequestError
from tests.calculators.images.media.pictures import animation, picture
from tests.calculators.images.media.videos import BLUE, RED, video

GREEN = (30, 180, 40)
ALL = VideoSampling()


def frames_of(image: Image) -> Any:
    return np.frombuffer(image.pixels, np.uint8).reshape(-1, image.height, image.width, 3)


def colours_of(image: Image) -> list[str]:
    """Return the nearest of the colours for each frame."""
    known = {"red": RED, "blue": BLUE, "green": GREEN}
    means = frames_of(image).mean((1, 2))
    return [min(known, key=lambda name: np.abs(mean - known[name]).sum()) for mean in means]


@pytest.mark.parametrize(
    ("form", "codec"),
    [("mp4", "mpeg4"), ("mp4", "libx264"), ("mov", "libx264"), ("webm", "libvpx"),
     ("webm", "libvpx-vp9"), ("matroska", "libx264"), ("avi", "mpeg4"), ("gif", "gif")],
)  # fmt: skip
def test_frames_are_taken_at_equal_distances(form: str, codec: str) -> None:
    made = decode_video(video(form=form, codec=codec), ALL, MAX_VIDEO_PIXELS)
    assert (made.height, made.width) == (48, 64)
    assert colours_of(made) == ["red", "red", "blue", "blue"]
    assert made.fps == pytest.approx(2, rel=0.1)


def test_a_request_chooses_the_rate_and_the_part() -> None:
    file = video([RED, GREEN, BLUE], seconds=6)
    chosen = decode_video(file, VideoSampling(fps=5, start=2, end=4), MAX_VIDEO_PIXELS)
    assert colours_of(chosen) == ["green"] * 10
    assert chosen.fps == pytest.approx(5, rel=0.05)
    many = decode_video(file, VideoSampling(fps=60), MAX_VIDEO_PIXELS)
    assert len(frames_of(many)) == 60  # the file has no more


def test_a_long_video_has_no_more_frames_and_pixels_than_a_short_one() -> None:
    file = video([RED, BLUE], seconds=60, codec="libx264", size=(320, 240))
    made = decode_video(file, ALL, 1_000_000)
    assert len(frames_of(made)) == MAX_FRAMES
    assert made.pixel_count <= 1_000_000
    assert made.width / made.height == pytest.approx(4 / 3, rel=0.02)
    assert colours_of(made) == ["red"] * 32 + ["blue"] * 32


def test_a_file_without_its_length_has_frames_from_all_of_it() -> None:
    file = video([RED, BLUE], form="webm", codec="libvpx", seconds=80)
    # A length of 1.5 doubles, in an element that is passed over now.
    without = file.replace(b"\x44\x89\x88", b"\xec\x89\x88"[:1] + b"\x89\x88", 1)
    made = decode_video(without, ALL, MAX_VIDEO_PIXELS)
    assert MAX_FRAMES // 2 <= len(frames_of(made)) <= MAX_FRAMES
    colours = colours_of(made)
    assert abs(colours.count("red") - colours.count("blue")) <= 2


def test_much_to_decode_is_looked_at_by_its_key_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video_module, "MAX_DECODED_PIXELS", 64 * 48 * 30)
    made = decode_video(video(seconds=8, key_frames=20), ALL, MAX_VIDEO_PIXELS)
    assert colours_of(made) == ["red", "red", "blue", "blue"]


def test_telephones_pictures_are_upright() -> None:
    import av

    file, turned = io.BytesIO(video(size=(64, 48), codec="libx264")), io.BytesIO()
    source: Any
    container: Any
    with av.open(file) as source, av.open(turned, "w", format="mp4") as container:
        stream = container.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(source.streams.video[0]):
            if packet.dts is not None:
                packet.stream = stream
                container.mux(packet)
    data = turned.getvalue()
    # The display matrix of the track: a quarter turn.
    plain = bytes.fromhex("0001000000000000000000000000000000010000")
    quarter = bytes.fromhex("000000000001000000000000ffff000000000000")
    place = data.rindex(plain)
    made = decode_video(data[:place] + quarter + data[place + len(plain) :], ALL, MAX_VIDEO_PIXELS)
    assert (made.height, made.width) == (64, 48)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a video"),
        (b"#EXTM3U\nfile:///etc/passwd\n", "not a video: MP4, MOV"),
        (picture(), "not a video"),
        (video()[:600], "is broken|no pictures"),
        (video(form="webm", codec="libvpx")[:300], "is broken|no frame"),
        (b"\x00\x00\x00\x18ftypisom" + bytes(400), "broken|no pictures"),
        (video(size=(4, 900), codec="libx264"), "too narrow"),
        (video(form="matroska", codec="ffv1"), "the codec ffv1 are not read"),
    ],
    ids=["empty", "playlist", "picture", "cut", "cut webm", "zeros", "narrow", "codec"],
)
def test_what_is_no_video_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        decode_video(data, ALL, MAX_VIDEO_PIXELS)


def test_a_part_after_the_end_and_a_large_picture_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ValueError, match="ends at 2 seconds"):
        decode_video(video(), VideoSampling(start=3), MAX_VIDEO_PIXELS)
    monkeypatch.setattr(video_module, "MAX_FRAME_PIXELS", 64 * 48 - 1)
    with pytest.raises(ValueError, match="64 x 48 pixels"):
        decode_video(video(), ALL, MAX_VIDEO_PIXELS)
    monkeypatch.setattr(video_module, "SECONDS", -1.0)
    monkeypatch.setattr(video_module, "MAX_FRAME_PIXELS", 64 * 48)
    with pytest.raises(ValueError, match="takes too long"):
        decode_video(video(), ALL, MAX_VIDEO_PIXELS)


def test_without_pyav_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    file = b"\x00\x00\x00\x18ftypisom"
    with pytest.raises(ValueError, match=r"needs PyAV \(the extra av\)"):
        decode_video(file, ALL, MAX_VIDEO_PIXELS)


def test_pictures_and_videos_of_a_request_are_decoded_together() -> None:
    base64_video = base64.b64encode(video())
    images = [
        EncodedImage("a", picture(40, 30)),
        EncodedImage("b", base64_video, is_base64=True, video=ALL),
        EncodedImage("c", animation(), video=ALL),
    ]
    first, second, third = decode_images(images)
    assert (first.fps, first.width, first.height) == (0.0, 40, 30)
    assert len(frames_of(second)) == 4
    assert colours_of(third) == ["red", "blue"]


def test_pictures_are_the_frames_of_a_video() -> None:
    frames = tuple(EncodedImage(f"u[{n}]", picture(40, 30, colour=c)) for n, c in
                   enumerate((RED, BLUE, RED)))  # fmt: skip
    (made,) = decode_images([EncodedImage("u", b"", video=VideoSampling(3), frames=frames)])
    assert (colours_of(made), made.fps) == (["red", "blue", "red"], 3)
    other = (*frames, EncodedImage("u[3]", picture(30, 40)))
    with pytest.raises(RequestError, match="one size") as raised:
        decode_images([EncodedImage("u", b"", video=ALL, frames=other)])
    assert raised.value.param == "u[3]"
