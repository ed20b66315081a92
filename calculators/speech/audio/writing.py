"""Files of sound written: whole, or in parts while the sound is still being made.

Sound of one channel. libsndfile encodes, through the package soundfile; AAC needs the package av.
The packages are imported with the first sound: servers without speech do not load them.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from calculators.speech.audio.sound import Samples, Sound

#: Samples per second of ``pcm``, as in OpenAI's API.
PCM_RATE: Final = 24000
#: Sizes in the head of a WAV file whose end is not known yet.
_UNKNOWN: Final = 0xFFFFFFFF
#: Opus has lower rates too, at which libsndfile 1.2.2 makes a click at the beginning.
_OPUS_RATES: Final = (24000, 48000)
_MP3_RATES: Final = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
_AAC_RATES: Final = (*_MP3_RATES, 64000, 88200, 96000)


class UnavailableFormatError(Exception):
    """A package that encodes the format is not installed; the text names it."""


class SoundWriter(Protocol):
    """Encodes sound that arrives in parts. The parts of the file follow each other.

    Attributes:
        sample_rate: samples per second of the file, in Hz.
    """

    @property
    def sample_rate(self) -> int: ...

    def write(self, samples: Samples) -> bytes:
        """Add samples (float32, shape ``[N]``); return what is encoded by now, maybe nothing."""

    def finish(self) -> bytes:
        """End the sound; return the rest of the file. Nothing may be called afterwards."""


@dataclass(frozen=True, slots=True)
class SoundFormat:
    """One format of files.

    Attributes:
        name: OpenAI's name, or ``float32`` for WAV with 32-bit floats.
        content_type: the media type.
        writer: makes a writer for sound of a sample rate in Hz; raises `UnavailableFormatError`.
        whole: makes a whole file, if that differs from the parts of a writer.
        has_length: the head of a file has the length of the sound, which is unknown in a file
            written in parts. Some programs need it.
    """

    name: str
    content_type: str
    writer: Callable[[int], SoundWriter]
    whole: Callable[[Sound], bytes] | None = None
    has_length: bool = False


def write_sound(sound: Sound, format: SoundFormat) -> bytes:
    """Return a whole file.

    Raises:
        UnavailableFormatError: a package is not installed.
    """
    if format.whole is not None:
        return format.whole(sound)
    writer = format.writer(sound.sample_rate)
    return writer.write(sound.samples) + writer.finish()


class _Resampler:
    """Changes the sample rate of sound that arrives in parts."""

    def __init__(self, source: int, target: int) -> None:
        self._stream: Any = None
        if source != target:
            import soxr

            self._stream = soxr.ResampleStream(source, target, 1, dtype="float32")

    def convert(self, samples: Samples, *, is_last: bool = False) -> Samples:
        if self._stream is None:
            return samples
        converted: Samples = self._stream.resample_chunk(samples, last=is_last)
        return converted


class _PlainWriter:
    """Samples without compression; ``head`` comes before the first of them."""

    def __init__(self, source_rate: int, rate: int, dtype: str, head: bytes = b"") -> None:
        self.sample_rate = rate
        self._dtype = dtype
        self._head = head
        self._resampler = _Resampler(source_rate, rate)

    def write(self, samples: Samples) -> bytes:
        head, self._head = self._head, b""
        return head + _as_stored(self._resampler.convert(samples), self._dtype)

    def finish(self) -> bytes:
        nothing = np.zeros(0, np.float32)
        last = self._resampler.convert(nothing, is_last=True)
        return self._head + _as_stored(last, self._dtype)


def pcm_writer(source_rate: int, rate: int) -> SoundWriter:
    """Return a writer of 16-bit samples, little-endian, without a head; both rates in Hz."""
    return _PlainWriter(source_rate, rate, "<i2")


@dataclass(frozen=True, slots=True)
class _LibraryFormat:
    """A format as libsndfile knows it.

    Attributes:
        rates: its sample rates in Hz; none if it has any.
        options: of the encoder.
    """

    format: str
    subtype: str
    rates: tuple[int, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def rate(self, source_rate: int) -> int:
        return _nearest(source_rate, self.rates) if self.rates else source_rate

    def open(self, file: Any, rate: int) -> Any:
        import soundfile

        return soundfile.SoundFile(
            file,
            "w",
            samplerate=rate,
            channels=1,
            format=self.format,
            subtype=self.subtype,
            **self.options,
        )

    def whole(self, sound: Sound) -> bytes:
        rate = self.rate(sound.sample_rate)
        samples = sound.samples
        if rate != sound.sample_rate:
            import soxr

            samples = soxr.resample(samples, sound.sample_rate, rate)
        written = io.BytesIO()
        with self.open(written, rate) as file:
            file.write(_within_bounds(samples))
        return written.getvalue()


class _LibraryWriter:
    """A format of libsndfile, which writes into memory.

    Some formats end with corrections of their head; these are dropped, as the head is sent by then.
    Such a file says that its length is unknown.
    """

    def __init__(self, source_rate: int, format: _LibraryFormat) -> None:
        self.sample_rate = format.rate(source_rate)
        self._resampler = _Resampler(source_rate, self.sample_rate)
        self._sink = _Sink()
        self._file = format.open(self._sink, self.sample_rate)

    def write(self, samples: Samples) -> bytes:
        self._file.write(_within_bounds(self._resampler.convert(samples)))
        return self._sink.take()

    def finish(self) -> bytes:
        last = self._resampler.convert(np.zeros(0, np.float32), is_last=True)
        self._file.write(_within_bounds(last))
        self._file.close()
        return self._sink.take()


class _Sink:
    """A file in memory whose beginning has been taken away; writes before that are dropped."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._taken = 0
        self._place = 0

    def take(self) -> bytes:
        """Return what has been written since the last call."""
        taken = bytes(self._kept)
        self._taken += len(taken)
        self._kept.clear()
        return taken

    def write(self, data: Any) -> int:
        piece = bytes(data)
        begin = self._place - self._taken
        self._place += len(piece)
        if begin >= 0:
            self._kept[begin : begin + len(piece)] = piece
        elif begin + len(piece) > 0:
            self._kept[: begin + len(piece)] = piece[-begin:]
        return len(piece)

    def seek(self, offset: int, whence: int = 0) -> int:
        end = self._taken + len(self._kept)
        self._place = offset + (0, self._place, end)[whence]
        return self._place

    def tell(self) -> int:
        return self._place

    def flush(self) -> None:
        """Do nothing: writes are not buffered."""


class _AacWriter:
    """AAC in ADTS frames, by FFmpeg."""

    def __init__(self, source_rate: int) -> None:
        try:
            import av
        except ImportError:
            raise UnavailableFormatError(
                "aac needs a package that is not installed on this server: "
                "pip install 'graphrt[av]'; wav, pcm, flac, mp3 and opus need none"
            ) from None
        self.sample_rate = _nearest(source_rate, _AAC_RATES)
        self._resampler = _Resampler(source_rate, self.sample_rate)
        self._sink = _Sink()
        self._av = av
        self._container = av.open(self._sink, "w", format="adts")
        self._stream: Any = self._container.add_stream("aac", rate=self.sample_rate)
        self._stream.layout = "mono"
        self._written = 0

    def write(self, samples: Samples) -> bytes:
        self._encode(self._resampler.convert(samples))
        return self._sink.take()

    def finish(self) -> bytes:
        self._encode(self._resampler.convert(np.zeros(0, np.float32), is_last=True))
        for packet in self._stream.encode(None):
            self._container.mux(packet)
        self._container.close()
        return self._sink.take()

    def _encode(self, samples: Samples) -> None:
        if not len(samples):
            return
        values = _within_bounds(samples).reshape(1, -1)
        frame = self._av.AudioFrame.from_ndarray(values, format="fltp", layout="mono")
        frame.sample_rate = self.sample_rate
        frame.pts = self._written
        self._written += len(samples)
        for packet in self._stream.encode(frame):
            self._container.mux(packet)


def _within_bounds(samples: Samples) -> Samples:
    """Return the samples within -1 and 1; those that are not numbers are silent."""
    bounded: Samples = np.clip(np.nan_to_num(samples, posinf=1.0, neginf=-1.0), -1.0, 1.0)
    return bounded


def _as_stored(samples: Samples, dtype: str) -> bytes:
    """Return samples as little-endian ``<f4`` or ``<i2``."""
    values = samples if dtype == "<f4" else np.rint(_within_bounds(samples) * 32767.0)
    stored: bytes = values.astype(dtype).tobytes()
    return stored


def _wav_head(rate: int, dtype: str, size: int) -> bytes:
    """Return the first bytes of a WAV file of one channel.

    ``size``: bytes of the samples, or `_UNKNOWN`, which readers take for "up to the end".
    """
    is_float = dtype == "<f4"
    width = 4 if is_float else 2
    form = struct.pack("<HHIIHH", 3 if is_float else 1, 1, rate, rate * width, width, 8 * width)
    chunks = b"fmt " + struct.pack("<I", len(form)) + form
    if is_float:
        # Formats other than PCM have an empty extension and the number of samples, by the standard.
        form += struct.pack("<H", 0)
        count = 0 if size == _UNKNOWN else size // width
        chunks = b"fmt " + struct.pack("<I", len(form)) + form
        chunks += b"fact" + struct.pack("<II", 4, count)
    whole = _UNKNOWN if size == _UNKNOWN else 4 + len(chunks) + 8 + size
    return b"RIFF" + struct.pack("<I", whole) + b"WAVE" + chunks + b"data" + struct.pack("<I", size)


def _nearest(rate: int, rates: tuple[int, ...]) -> int:
    """Return the smallest of ``rates`` that keeps all frequencies, or the greatest."""
    return next((each for each in sorted(rates) if each >= rate), max(rates))


def _wav(name: str, dtype: str) -> SoundFormat:
    def whole(sound: Sound) -> bytes:
        samples = _as_stored(sound.samples, dtype)
        return _wav_head(sound.sample_rate, dtype, len(samples)) + samples

    def writer(rate: int) -> SoundWriter:
        return _PlainWriter(rate, rate, dtype, _wav_head(rate, dtype, _UNKNOWN))

    return SoundFormat(name, "audio/wav", writer, whole, has_length=True)


def _by_library(
    name: str, content_type: str, format: _LibraryFormat, *, has_length: bool = False
) -> SoundFormat:
    def writer(rate: int) -> SoundWriter:
        return _LibraryWriter(rate, format)

    return SoundFormat(name, content_type, writer, format.whole, has_length)


#: WAV with 32-bit floats, as OpenVINO Model Server answers.
FLOAT_WAV: Final = _wav("float32", "<f4")

# A constant bit rate, by which players find the length and places of a file without an index.
_MP3: Final = _LibraryFormat(
    "MP3",
    "MPEG_LAYER_III",
    _MP3_RATES,
    {"bitrate_mode": "CONSTANT", "compression_level": 0.5},
)

#: OpenAI's formats by name.
FORMATS: Final[Mapping[str, SoundFormat]] = {
    each.name: each
    for each in (
        _by_library("mp3", "audio/mpeg", _MP3),
        _by_library("opus", "audio/ogg", _LibraryFormat("OGG", "OPUS", _OPUS_RATES)),
        SoundFormat("aac", "audio/aac", _AacWriter),
        _by_library("flac", "audio/flac", _LibraryFormat("FLAC", "PCM_16"), has_length=True),
        _wav("wav", "<i2"),
        SoundFormat("pcm", "audio/pcm", lambda rate: pcm_writer(rate, PCM_RATE)),
    )
}
