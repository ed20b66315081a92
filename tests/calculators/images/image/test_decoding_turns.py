"""Whose image is decoded next, and how many decoded ones there may be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event
from typing import Any

import numpy as np
import pytest

from calculators.images.image import decoding_turns
from calculators.images.image.decoding_turns import (
    LARGE_PIXELS,
    decode_in_turn,
    frame_in_turn,
    pixels_in,
)
from calculators.images.image.encoded_image import decode_image
from calculators.images.image.image_frame import ImageError, ImageFormat, ImageFrame
from calculators.kit.requests.client_identity import ClientIdentity
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import RequestRecord, set_current_record
from tests.calculators.images.media.pictures import picture, scanned_jpeg
from tests.support.patience import PATIENCE

_LARGE = LARGE_PIXELS + 1


def run(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario, PATIENCE))


def frame() -> ImageFrame:
    return ImageFrame.owning(ImageFormat.SRGB, np.zeros((100, 100, 3), np.uint8))


async def decoded(client: str, decode: Callable[[], Any], pixels: int) -> Any:
    set_current_record(RequestRecord(client, client=ClientIdentity(client)))
    return await frame_in_turn(decode, pixels)


def test_a_client_with_many_large_images_does_not_delay_the_first_one_of_another() -> None:
    order: list[str] = []
    may_end = Event()

    def slow(client: str) -> ImageFrame:
        may_end.wait(PATIENCE)
        order.append(client)
        return frame()

    async def scenario() -> None:
        asks = [decoded("a", lambda: slow("a"), _LARGE) for _ in range(4)]
        tasks = [asyncio.create_task(ask) for ask in asks]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(decoded("b", lambda: slow("b"), _LARGE)))
        # A small one does not wait for any of them.
        small = await decoded("c", frame, 100)
        assert small.width == 100
        assert not order
        may_end.set()
        await asyncio.gather(*tasks)
        assert order[:2] == ["a", "b"]

    run(scenario())


def test_images_that_wait_end_with_their_request() -> None:
    may_end = Event()

    async def scenario() -> None:
        first = asyncio.create_task(decode_in_turn(lambda: may_end.wait(PATIENCE), _LARGE))
        never = asyncio.create_task(decode_in_turn(pytest.fail, _LARGE))
        await asyncio.sleep(0)
        never.cancel()
        may_end.set()
        assert await first
        with pytest.raises(asyncio.CancelledError):
            await never

    run(scenario())


def test_decoded_frames_have_bounded_room_until_they_are_freed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoding_turns, "ROOM_BYTES", 50_000)
    monkeypatch.setattr(decoding_turns, "ROOM_SECONDS", 0.01)

    async def scenario() -> None:
        kept = [await decoded("a", frame, 100) for _ in range(2)]
        view = kept[0].numpy_view()
        with pytest.raises(RequestError, match="memory for decoded images") as caught:
            await decoded("b", frame, 100)
        assert caught.value.retry_after
        kept.clear()  # one of them has a view still
        assert (await decoded("b", frame, 100)).width == 100
        assert view.shape == (100, 100, 3)
        monkeypatch.setattr(decoding_turns, "ROOM_SECONDS", PATIENCE)
        kept = [await decoded("a", frame, 100)]
        waiting = asyncio.create_task(decoded("b", frame, 100))
        while decoding_turns._decoding().room._waiting is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert not waiting.done()
        kept.clear()
        assert (await waiting).width == 100

    run(scenario())


def test_a_program_that_runs_graphs_itself_may_keep_any_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoding_turns, "ROOM_BYTES", 1)

    async def scenario() -> None:
        kept = [await frame_in_turn(frame, 100) for _ in range(3)]
        assert len(kept) == 3

    run(scenario())


def test_pixels_are_read_from_the_header() -> None:
    assert pixels_in(picture(30, 20)) == 600
    assert pixels_in(picture(30, 20, "JPEG")) == 600
    assert pixels_in(b"no picture") == 0


def test_a_jpeg_of_many_scans_is_refused_before_it_is_decoded() -> None:
    """A scan of 59 bytes passes over all pixels: 150 kB took 20 seconds."""
    with pytest.raises(ImageError, match="scans of 16000000 pixels"):
        decode_image(scanned_jpeg(4000, 100))
    assert decode_image(scanned_jpeg(64, 100)).width == 64
