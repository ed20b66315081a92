"""Files of sound: each format is decoded again, by libsndfile or by FFmpeg."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np
import pytest
import soundfile

from calculators.speech.audio.sound import Samples, Sound, can_change_tempo, change_tempo
from calculators.speech.audio.writing import FLOAT_WAV, FORMATS, PCM_RATE, SoundFormat, write_sound

SECONDS = 2.5
PITCH = 440.0
ALL = [*FORMATS.values(), FLOAT_WAV]


def tone(rate: int, seconds: float = SECONDS) -> Samples:
    times = np.arange(int(rate * seconds)) / rate
    return np.asarray(0.5 * np.sin(2 * np.pi * PITCH * times), np.float32)


def decoded(data: bytes, format: SoundFormat) -> tuple[Any, int]:
    """Return samples and their rate."""
    if format.name == "pcm":
        return np.frombuffer(data, "<i2") / 32768.0, PCM_RATE
    if format.name in ("wav", "float32", "opus"):
        found: tuple[Any, int] = soundfile.read(io.BytesIO(data))
        return found
    av = pytest.importorskip("av", reason="needs the extra av")
    with av.open(io.BytesIO(data)) as container:
        frames = list(container.decode(audio=0))
    made = np.concatenate([frame.to_ndarray().reshape(-1) for frame in frames])
    return made / (32768.0 if made.dtype.kind == "i" else 1.0), frames[0].sample_rate


def pitch_of(samples: Any, rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples))
    return float(np.argmax(spectrum) * rate / len(samples))


def skip_without_encoder(format: SoundFormat) -> None:
    if format.name == "aac":
        pytest.importorskip("av", reason="needs the extra av")


@pytest.mark.parametrize("format", ALL, ids=lambda each: each.name)
@pytest.mark.parametrize("rate", [16000, 24000, 22050])
@pytest.mark.parametrize("part", [0, 1000, 16000])
def test_a_file_has_the_sound_that_was_written(format: SoundFormat, rate: int, part: int) -> None:
    skip_without_encoder(format)
    samples = tone(rate)
    if part:
        writer = format.writer(rate)
        parts = [writer.write(samples[at : at + part]) for at in range(0, len(samples), part)]
        data = b"".join(parts) + writer.finish()
    else:
        data = write_sound(Sound(samples, rate), format)
    found, found_rate = decoded(data, format)
    # Encoders with frames add silence: MP3 1,152 samples, several times, and AAC 1,024.
    assert len(found) / found_rate == pytest.approx(SECONDS, abs=0.25)
    assert pitch_of(found, found_rate) == pytest.approx(PITCH, abs=2.0)
    assert np.abs(found).max() == pytest.approx(0.5, abs=0.08)
    if format.name in ("wav", "float32", "flac"):
        assert found_rate == rate
        np.testing.assert_allclose(found, samples, atol=1e-4)


@pytest.mark.parametrize("format", ALL, ids=lambda each: each.name)
def test_sound_leaves_before_its_end_is_known(format: SoundFormat) -> None:
    skip_without_encoder(format)
    writer = format.writer(16000)
    first = b"".join(writer.write(tone(16000, 1.0)) for _ in range(3))
    rest = writer.finish()
    assert len(first) > len(rest)


@pytest.mark.parametrize("name", ["mp3", "flac"])
def test_a_whole_file_says_how_long_it_is(name: str) -> None:
    data = write_sound(Sound(tone(16000), 16000), FORMATS[name])
    assert soundfile.info(io.BytesIO(data)).duration == pytest.approx(SECONDS, abs=0.01)


def test_a_whole_wav_file_is_read_by_pythons_own_module() -> None:
    data = write_sound(Sound(tone(16000), 16000), FORMATS["wav"])
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 16000)
        assert file.getnframes() == 16000 * SECONDS


def test_samples_that_are_no_numbers_are_silent_and_others_are_bounded() -> None:
    samples = np.array([np.nan, np.inf, -np.inf, 3.0, -3.0, 0.25], np.float32)
    data = write_sound(Sound(samples, 16000), FORMATS["wav"])
    found = np.frombuffer(data[-12:], "<i2")
    assert found.tolist() == [0, 32767, -32767, 32767, -32767, 8192]


@pytest.mark.parametrize("format", ALL, ids=lambda each: each.name)
def test_no_sound_is_a_file_too(format: SoundFormat) -> None:
    skip_without_encoder(format)
    nothing = np.zeros(0, np.float32)
    assert isinstance(write_sound(Sound(nothing, 16000), format), bytes)
    writer = format.writer(16000)
    assert isinstance(writer.write(nothing) + writer.finish(), bytes)


@pytest.mark.skipif(not can_change_tempo(), reason="needs the extra av")
@pytest.mark.parametrize("tempo", [0.25, 0.5, 0.8, 1.0, 1.5, 2.0, 4.0])
def test_speech_becomes_faster_and_keeps_its_pitch(tempo: float) -> None:
    made = change_tempo(tone(16000), 16000, tempo)
    assert made.dtype == np.float32
    assert len(made) / 16000 == pytest.approx(SECONDS / tempo, abs=0.1)
    assert pitch_of(made, 16000) == pytest.approx(PITCH, abs=3.0)
    assert len(change_tempo(np.zeros(0, np.float32), 16000, tempo)) == 0
