"""Sound files in their processes: errors of clients, and processes that die."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.speech.audio.sound import from_pcm16
from calculators.speech.audio.sound_reader import SoundReader
from tests.calculators.speech.audio.sounds import encoded, tone, wav
from tests.support.patience import PATIENCE


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
    file = await reader.open(content, sample_rate=16_000, max_seconds=120.0)
    parts = []
    while not file.is_at_end:
        parts.append(from_pcm16(await file.read()))
    await file.close()
    return np.concatenate(parts)


def test_short_and_long_files_are_read() -> None:
    async def scenario(reader: SoundReader) -> None:
        np.testing.assert_allclose(await read(reader, wav(tone(1.0))), tone(1.0), atol=1e-3)
        assert len(await read(reader, wav(tone(40.0, 44_100), 44_100))) == 640_000

    with_reader(scenario)


def test_a_file_is_read_as_far_as_its_samples_are_needed() -> None:
    async def scenario(reader: SoundReader) -> None:
        file = await reader.open(
            encoded(tone(100.0), format="FLAC"), sample_rate=16_000, max_seconds=120.0
        )
        assert file.seconds == pytest.approx(100.0)
        first = from_pcm16(await file.read())
        # A block is up to ten seconds; a slice ends with the one that makes it long enough.
        assert 10 <= len(first) / 16_000 <= 40
        np.testing.assert_allclose(first, tone(100.0)[: len(first)], atol=1e-3)
        await file.close()

    with_reader(scenario)


def test_two_files_are_read_in_turns() -> None:
    async def scenario(reader: SoundReader) -> None:
        low, high = tone(70.0), tone(70.0, hertz=880)
        files = [
            await reader.open(wav(each), sample_rate=16_000, max_seconds=120.0)
            for each in (low, high)
        ]
        parts: list[list[np.ndarray]] = [[], []]
        while not all(file.is_at_end for file in files):
            for file, read in zip(files, parts, strict=True):
                read.append(from_pcm16(await file.read()))
        for read, sound in zip(parts, (low, high), strict=True):
            np.testing.assert_allclose(np.concatenate(read), sound, atol=1e-3)

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


def test_the_cost_of_a_file_is_that_of_its_samples() -> None:
    async def scenario(reader: SoundReader) -> None:
        costs = []
        for rate, channels in ((16_000, 1), (600_000, 8)):
            silence = np.zeros((rate // 10, channels), np.float32)
            file = await reader.open(
                encoded(silence, rate, format="FLAC"), sample_rate=16_000, max_seconds=120.0
            )
            costs.append(file.cost)
            await file.close()
        assert costs[1] == pytest.approx(300 * costs[0])

    with_reader(scenario)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_process_is_replaced() -> None:
    async def scenario(reader: SoundReader) -> None:
        assert reader.pid is not None
        os.kill(reader.pid, signal.SIGKILL)
        assert len(await read(reader, wav(tone(0.1)))) == 1600

    with_reader(scenario)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_file_goes_on_where_its_process_was_killed() -> None:
    async def scenario(reader: SoundReader) -> None:
        file = await reader.open(wav(tone(100.0)), sample_rate=16_000, max_seconds=120.0)
        parts = []
        while not file.is_at_end:
            parts.append(from_pcm16(await file.read()))
            if len(parts) == 2:
                assert reader.pid is not None
                os.kill(reader.pid, signal.SIGKILL)
        np.testing.assert_allclose(np.concatenate(parts), tone(100.0), atol=1e-3)

    with_reader(scenario)
