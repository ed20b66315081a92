"""Sound files in their processes: errors of clients, and processes that die."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from calculators.audio.pcm import from_pcm16
from calculators.audio.sound_reader import LONG_BYTES, SoundReader
from calculators.requests.http_payload import RequestError
from tests.calculators.audio.sounds import tone, wav
from tests.patience import PATIENCE


def with_reader(scenario: Callable[[SoundReader], Awaitable[None]]) -> None:
    async def run() -> None:
        reader = SoundReader("test")
        await reader.start()
        try:
            await scenario(reader)
        finally:
            await reader.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


async def read(reader: SoundReader, content: bytes) -> np.ndarray:
    return from_pcm16(await reader.read(content, sample_rate=16_000, max_seconds=120.0))


def test_short_and_long_files_are_read() -> None:
    async def scenario(reader: SoundReader) -> None:
        np.testing.assert_allclose(await read(reader, wav(tone(1.0))), tone(1.0), atol=1e-3)
        long = tone(40.0, 44_100)
        content = wav(long, 44_100)
        assert len(content) > LONG_BYTES
        assert len(await read(reader, content)) == 640_000

    with_reader(scenario)


def test_a_file_that_is_no_sound_is_refused_and_the_next_one_is_read() -> None:
    async def scenario(reader: SoundReader) -> None:
        for content in (b"no sound", wav(tone(130.0))):
            with pytest.raises(RequestError) as raised:
                await read(reader, content)
            assert raised.value.param == "file"
            assert "Received input file is not valid wav nor mp3" in str(raised.value)
        assert len(await read(reader, wav(tone(0.1)))) == 1600

    with_reader(scenario)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_process_is_replaced() -> None:
    async def scenario(reader: SoundReader) -> None:
        assert reader.pid is not None
        os.kill(reader.pid, signal.SIGKILL)
        assert len(await read(reader, wav(tone(0.1)))) == 1600

    with_reader(scenario)
