"""Sound files: formats, channels, rates, and files that are none."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest

from calculators.speech.audio.reading import SoundFileError, read_sound
from calculators.speech.audio.sound import Sound, from_pcm16, resample, to_pcm16
from tests.calculators.speech.audio.sounds import encoded, silence, tone, wav, with_bytes

HOUR = 3600.0
#: Places in a WAV with the usual header of 44 bytes.
RIFF_LENGTH, CHANNELS, RATE, DATA_LENGTH = 4, 22, 24, 40


def read(content: bytes, max_seconds: float = HOUR) -> Sound:
    return read_sound(content, sample_rate=16_000, max_seconds=max_seconds)


def likeness(one: Sound, other: np.ndarray) -> float:
    """Return the correlation of two sounds, as far as both go."""
    length = min(len(one.samples), len(other))
    return float(np.corrcoef(one.samples[:length], other[:length])[0, 1])


@pytest.mark.parametrize(
    ("form", "exactness"),
    [
        ({"format": "WAV", "subtype": "PCM_16"}, 1e-4),
        ({"format": "WAV", "subtype": "PCM_U8"}, 1e-2),
        ({"format": "WAV", "subtype": "PCM_24"}, 1e-6),
        ({"format": "WAV", "subtype": "FLOAT"}, 0.0),
        ({"format": "WAV", "subtype": "ULAW"}, 3e-2),
        ({"format": "FLAC"}, 1e-4),
        ({"format": "AIFF"}, 1e-4),
    ],
)
def test_samples_are_those_of_the_file(form: dict[str, str], exactness: float) -> None:
    sound = read(encoded(tone(1.0), **form))
    assert sound.sample_rate == 16_000
    np.testing.assert_allclose(sound.samples, tone(1.0), atol=exactness)


@pytest.mark.parametrize(
    "form", [{"format": "MP3"}, {"format": "OGG", "subtype": "VORBIS"},
             {"format": "OGG", "subtype": "OPUS"}]
)  # fmt: skip
def test_compressed_sounds_are_read(form: dict[str, str]) -> None:
    sound = read(encoded(tone(2.0), **form))
    assert abs(sound.seconds - 2.0) < 0.1
    peak = np.abs(np.fft.rfft(sound.samples)).argmax() * 16_000 / len(sound.samples)
    assert abs(peak - 440.0) < 2.0


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100, 48_000])
def test_other_rates_are_resampled_without_mirrors(rate: int) -> None:
    sound = read(wav(tone(2.0, rate), rate))
    assert len(sound.samples) == 32_000
    assert likeness(sound, tone(2.0)) > 0.999
    if rate == 48_000:  # a tone above the new rate's half is gone, not folded into the rest
        high = read(wav(tone(2.0, rate, hertz=15_000.0), rate))
        assert np.abs(high.samples[1000:-1000]).max() < 0.01


def test_channels_are_mixed() -> None:
    left, right = tone(1.0), tone(1.0, hertz=1000.0)
    for content in (
        wav(np.stack([left, right], axis=1)),
        encoded(np.stack([left, right], axis=1), format="FLAC"),
    ):
        np.testing.assert_allclose(read(content).samples, (left + right) / 2, atol=1e-3)


def test_a_wav_from_a_pipe_or_with_more_behind_it_is_read() -> None:
    plain = wav(tone(1.0))
    for length in (b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\xff\xff\xff\x7f"):
        piped = with_bytes(with_bytes(plain, RIFF_LENGTH, length), DATA_LENGTH, length)
        np.testing.assert_allclose(read(piped).samples, tone(1.0), atol=1e-4)
    np.testing.assert_allclose(read(plain + b"LISTjunk" * 9).samples, tone(1.0), atol=1e-4)


@pytest.mark.parametrize("container", ["mp4", "webm", "adts"])
def test_containers_are_read_with_pyav(container: str) -> None:
    av = pytest.importorskip("av", reason="the extra av is not installed")
    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        codec = "libopus" if container == "webm" else "aac"
        stream = output.add_stream(codec, rate=48_000, layout="mono")
        samples = tone(2.0, 48_000).reshape(1, -1)
        for start in range(0, samples.shape[1], 960):
            frame = av.AudioFrame.from_ndarray(
                np.ascontiguousarray(samples[:, start : start + 960]), "fltp", "mono"
            )
            frame.sample_rate = 48_000
            frame.pts = start
            for packet in stream.encode(frame):
                output.mux(packet)
        for packet in stream.encode(None):
            output.mux(packet)
    sound = read(file.getvalue())
    assert abs(sound.seconds - 2.0) < 0.1
    peak = np.abs(np.fft.rfft(sound.samples)).argmax() * 16_000 / len(sound.samples)
    assert abs(peak - 440.0) < 2.0
    with pytest.raises(SoundFileError):
        read(file.getvalue()[:200])


def test_without_pyav_a_container_is_refused_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(SoundFileError, match=r"pip install graphrt\[av\]"):
        read(b"\x00\x00\x00\x20ftypM4A " + b"\x00" * 100)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"hello", "is not sound"),
        (b"", "is not sound"),
        (b"\x89PNG\r\n\x1a\n" + b"\x00" * 100, "is not sound"),
        (b"#EXTM3U\nfile:///etc/passwd\n", "is not sound"),
        (b"RIFF\x00\x00\x00\x00WAVE", "cannot be read"),
        (b"OggS" + b"\x00" * 100, "cannot be read"),
        (b"\xff\xfb" + b"\x00" * 100, "cannot be read"),
        (with_bytes(wav(tone(1.0)), RATE, struct.pack("<I", 1)), "has 1 samples per second"),
        (with_bytes(wav(tone(1.0)), RATE, struct.pack("<I", 0)), "cannot be read"),
        (with_bytes(wav(tone(1.0)), CHANNELS, struct.pack("<H", 0)), "cannot be read"),
        (encoded(tone(1.0), format="FLAC")[:9000], "is broken"),
        (encoded(np.full(100, np.nan, np.float32), format="WAV", subtype="FLOAT"), "not numbers"),
        (encoded(np.full(100, np.inf, np.float32), format="WAV", subtype="FLOAT"), "not numbers"),
    ],
)
def test_a_file_that_is_no_sound_is_refused_with_the_reason(content: bytes, words: str) -> None:
    with pytest.raises(SoundFileError, match=words) as raised:
        read(content)
    assert "BytesIO" not in str(raised.value)


def test_a_small_file_with_hours_of_sound_is_refused() -> None:
    content = silence(300)
    assert len(content) < 200_000
    with pytest.raises(SoundFileError, match="is longer than 60 s"):
        read(content, max_seconds=60.0)


def test_a_file_without_samples_is_an_empty_sound() -> None:
    assert len(read(wav(np.zeros(0, np.float32))).samples) == 0


def test_samples_survive_16_bits() -> None:
    samples = np.array([-2.0, -1.0, -0.5, 0.0, 0.25, 1.0, 3.0], np.float32)
    np.testing.assert_allclose(
        from_pcm16(to_pcm16(samples)), np.clip(samples, -1.0, 1.0), atol=1 / 32768
    )


def test_a_sound_of_no_possible_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="1000 to 768000 samples per second, not 0"):
        resample(Sound(tone(1.0), 0), 16_000)
    assert resample(Sound(tone(1.0, 24_000), 24_000), 16_000).seconds == 1.0
