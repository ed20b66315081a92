"""Reading sound files: one channel at one sample rate, in blocks.

Libraries in C decode clients' files here, so call this module in a child process only
(`calculators.speech.audio.sound_reader`).
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import soundfile
import soxr

from calculators.speech.audio.sound import HIGHEST_RATE, LOWEST_RATE, Samples, Sound

#: Seconds, and samples of all channels, that are decoded at a time: so a small file cannot fill the
#: memory.
_BLOCK_SECONDS: Final = 10
_BLOCK_SAMPLES: Final = 4 * 1024 * 1024
#: Channels of a file; libsndfile reads up to 1024.
MOST_CHANNELS: Final = 32
#: The beginnings of files that libsndfile may read; it knows more formats, which nobody speaks.
_SNDFILE: Final = (b"RIFF", b"RIFX", b"RF64", b"fLaC", b"OggS", b"ID3", b"FORM", b"caff", b".snd")
#: libsndfile's number of frames where the header has none.
_UNKNOWN_FRAMES: Final = 2**62
#: Bytes of a second of sound where no header tells the duration: 64 kbit/s.
_BYTES_PER_SECOND: Final = 8000
#: Processor seconds for a sample: an hour of stereo takes 7 as MP3 and 26 as Opus (soundfile 0.14,
#: soxr 1.1, a minute of noise and tones on an AMD EPYC); FLAC and WAV take less.
_COST_OF_SAMPLE: Final = 3e-8
_FORMATS: Final = "wav, mp3, flac, ogg, m4a, mp4 and webm files"


class SoundFileError(ValueError):
    """A file cannot be read as sound; the text is for the client, and completes "the file"."""


@dataclass(frozen=True, slots=True)
class SoundFile:
    """A file whose header was read.

    Attributes:
        sample_rate: samples per second.
        channels: their number.
        seconds: the duration by the header; an estimate where it has none.
        is_estimate: it has none.
    """

    sample_rate: int
    channels: int
    seconds: float
    is_estimate: bool
    _decoded: Iterator[Samples]

    @property
    def cost(self) -> float:
        """Processor seconds for a second of the sound, about."""
        return self.sample_rate * self.channels * _COST_OF_SAMPLE

    def blocks(self, *, sample_rate: int, max_seconds: float) -> Iterator[Samples]:
        """Yield the samples in blocks, each of shape (samples,); once.

        Args:
            sample_rate: that of the samples, in Hz; their one channel is the mean of the file's.
            max_seconds: the duration above which a file is refused, by its header or by its
                samples.

        Raises:
            SoundFileError: the file is broken, or too long.
        """
        if self.seconds > max_seconds and not self.is_estimate:
            raise _too_long(max_seconds)
        return self._bounded(sample_rate, max_seconds)

    def _bounded(self, sample_rate: int, max_seconds: float) -> Iterator[Samples]:
        left = int(max_seconds * sample_rate)
        for block in self._resampled(sample_rate):
            left -= len(block)
            if left < 0:
                raise _too_long(max_seconds)
            yield block

    def _resampled(self, sample_rate: int) -> Iterator[Samples]:
        if self.sample_rate == sample_rate:
            yield from self._decoded
            return
        resampler = soxr.ResampleStream(self.sample_rate, sample_rate, 1, dtype="float32")
        for block in self._decoded:
            yield resampler.resample_chunk(block)
        yield resampler.resample_chunk(np.zeros(0, np.float32), last=True)


def _too_long(max_seconds: float) -> SoundFileError:
    return SoundFileError(f"is longer than {max_seconds:.0f} s; split it")


def read_sound(content: bytes, *, sample_rate: int, max_seconds: float) -> Sound:
    """Return the sound of a whole file; the arguments are as for `SoundFile.blocks`.

    Raises:
        SoundFileError: as `open_sound` and `SoundFile.blocks`.
    """
    file = open_sound(content)
    blocks = list(file.blocks(sample_rate=sample_rate, max_seconds=max_seconds))
    samples = np.concatenate(blocks) if blocks else np.zeros(0, np.float32)
    return Sound(samples, sample_rate)


def open_sound(content: bytes) -> SoundFile:
    """Read a file's header.

    The file is WAV, MP3, FLAC, Ogg (Vorbis, Opus), AIFF, and with PyAV MP4, WebM or AAC too.

    Raises:
        SoundFileError: the file is none of these, or is broken.
    """
    start = content[:12]
    if start[4:8] == b"ftyp":
        return _opened_by_av(content, "mp4")
    if start.startswith(b"\x1a\x45\xdf\xa3"):
        return _opened_by_av(content, "matroska")
    # MPEG's frames begin with eleven set bits; AAC's have 00 where the others have their layer.
    is_mpeg = len(start) > 1 and start[0] == 0xFF and start[1] & 0xE0 == 0xE0
    if is_mpeg and start[1] & 0x06 == 0:
        return _opened_by_av(content, "aac")
    if not is_mpeg and not start.startswith(_SNDFILE):
        raise SoundFileError(f"is not sound that can be read; {_FORMATS} are")
    return _opened_by_sndfile(_with_length(content) if start.startswith(b"RIFF") else content)


def _opened_by_sndfile(content: bytes) -> SoundFile:
    try:
        file = soundfile.SoundFile(io.BytesIO(content))
    except soundfile.LibsndfileError as error:
        raise SoundFileError(f"cannot be read: {error.error_string}") from None
    _check(file.samplerate, file.channels)
    is_estimate = file.frames >= _UNKNOWN_FRAMES
    seconds = len(content) / _BYTES_PER_SECOND if is_estimate else file.frames / file.samplerate
    blocks = _sndfile_blocks(file)
    return SoundFile(file.samplerate, file.channels, seconds, is_estimate, blocks)


def _sndfile_blocks(file: Any) -> Iterator[Samples]:
    frames = min(file.samplerate * _BLOCK_SECONDS, _BLOCK_SAMPLES // file.channels)
    while True:
        try:
            block = file.read(frames, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            raise SoundFileError(f"is broken: {error.error_string}") from None
        if not len(block):
            return
        yield _mixed(block)


def _opened_by_av(content: bytes, container: str) -> SoundFile:
    try:
        import av
    except ImportError:
        raise SoundFileError(
            f"is in a container ({container}) that this server cannot open: install PyAV beside it "
            "(pip install graphrt[av]), or send wav, mp3, flac or ogg"
        ) from None
    try:
        # The container is named: FFmpeg's other formats include lists of further files to open.
        opened: Any = av.open(io.BytesIO(content), format=container)
    except (av.FFmpegError, ValueError) as error:
        raise SoundFileError(f"cannot be read: {_reason(error)}") from None
    if not opened.streams.audio:
        raise SoundFileError("has no sound in it")
    context = opened.streams.audio[0].codec_context
    _check(context.sample_rate, context.channels)
    # A stream of AAC has no header: FFmpeg guesses from its first frames.
    duration = None if container == "aac" else opened.duration
    is_estimate = not duration
    seconds = duration / av.time_base if duration else len(content) / _BYTES_PER_SECOND
    blocks = _av_blocks(opened, context.sample_rate)
    return SoundFile(context.sample_rate, context.channels, seconds, is_estimate, blocks)


def _av_blocks(opened: Any, sample_rate: int) -> Iterator[Samples]:
    import av

    mixer = av.AudioResampler(format="flt", layout="mono", rate=sample_rate)
    try:
        for frame in opened.decode(audio=0):
            for mixed in mixer.resample(frame):
                yield _of_frame(mixed)
        for mixed in mixer.resample(None):
            yield _of_frame(mixed)
    except (av.FFmpegError, ValueError) as error:
        if isinstance(error, SoundFileError):
            raise
        raise SoundFileError(f"is broken: {_reason(error)}") from None


def _of_frame(frame: Any) -> Samples:
    """Return the samples of PyAV's frame of one channel."""
    return _mixed(np.asarray(frame.to_ndarray(), np.float32).reshape(-1, 1))


def _check(sample_rate: int, channels: int) -> None:
    if not LOWEST_RATE <= sample_rate <= HIGHEST_RATE:
        raise SoundFileError(
            f"has {sample_rate} samples per second; {LOWEST_RATE} to {HIGHEST_RATE} can be read"
        )
    if channels > MOST_CHANNELS:
        raise SoundFileError(f"has {channels} channels; {MOST_CHANNELS} can be read")


def _mixed(block: Samples) -> Samples:
    """Return the mean of the channels. ``block``: shape ``[samples, channels]``."""
    mixed = block[:, 0] if block.shape[1] == 1 else block.mean(axis=1, dtype=np.float32)
    if not np.isfinite(mixed).all():
        raise SoundFileError("has samples that are not numbers (NaN or infinite)")
    return np.ascontiguousarray(mixed, np.float32)


def _with_length(content: bytes) -> bytes:
    """A WAV whose chunk of samples has a length: programs that write to a pipe leave 0."""
    place = 12
    while place + 8 <= len(content):
        length = int.from_bytes(content[place + 4 : place + 8], "little")
        if content[place : place + 4] == b"data":
            if length:
                break
            rest = (len(content) - place - 8).to_bytes(4, "little")
            return content[: place + 4] + rest + content[place + 8 :]
        place += 8 + length + length % 2
    return content


def _reason(error: Exception) -> str:
    """FFmpeg's words about an error, without the name of a file."""
    return str(getattr(error, "strerror", "") or "it is damaged")
