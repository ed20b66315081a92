"""Transcripts in the forms of answers: JSON, text, subtitles, events."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from calculators.kit.requests.http_answer import HttpAnswer
from calculators.speech.audio.speech_recognizer import Segment, Transcript
from calculators.speech.speech_to_text.languages import name_of
from calculators.speech.speech_to_text.request import AnswerFormat, SpeechRequest

_encode: Final = msgspec.json.Encoder().encode
_PLAIN: Final = "text/plain; charset=utf-8"
_VTT: Final = "text/vtt; charset=utf-8"


def whole_answer(transcript: Transcript, request: SpeechRequest) -> bytes | HttpAnswer:
    """The answer in the requested form.

    In JSON the text is the model's, with the blank that Whisper begins with, as OpenVINO Model
    Server's; in plain text and subtitles blanks around it are left out.
    """
    match request.format:
        case AnswerFormat.TEXT:
            return HttpAnswer(f"{transcript.text.strip()}\n".encode(), _PLAIN)
        case AnswerFormat.SRT:
            return HttpAnswer(_srt(transcript.segments).encode(), _PLAIN)
        case AnswerFormat.VTT:
            return HttpAnswer(_vtt(transcript.segments).encode(), _VTT)
        case AnswerFormat.JSON:
            return _encode({
                "text": transcript.text,
                **_times(transcript, request),
                "usage": _usage(transcript),
            })  # fmt: skip
        case AnswerFormat.VERBOSE_JSON:
            return _encode(_verbose(transcript, request))


def delta_event(piece: str) -> bytes:
    """The event for new text."""
    return _event({"type": "transcript.text.delta", "delta": piece, "logprobs": []})


def done_event(transcript: Transcript, request: SpeechRequest) -> bytes:
    """The last event of a stream, with the whole text."""
    return _event({
        "type": "transcript.text.done",
        "text": transcript.text,
        "logprobs": [],
        **_times(transcript, request),
    })  # fmt: skip


def _event(value: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % _encode(value)


def _verbose(transcript: Transcript, request: SpeechRequest) -> dict[str, Any]:
    temperature = request.settings.temperature
    answer: dict[str, Any] = {
        "task": "translate" if request.settings.translates else "transcribe",
        "language": name_of(transcript.language),
        "duration": round(transcript.seconds, 3),
        "text": transcript.text,
        "usage": _usage(transcript),
    }
    if request.tells_segments:
        answer["segments"] = [
            {
                "id": number,
                # The library reports neither the window of a segment nor these probabilities.
                "seek": 0,
                "start": _rounded(segment.start),
                "end": _rounded(segment.end),
                "text": segment.text,
                "tokens": segment.tokens,
                "temperature": temperature,
                "avg_logprob": 0.0,
                "compression_ratio": 0.0,
                "no_speech_prob": 0.0,
            }
            for number, segment in enumerate(transcript.segments)
        ]
    if request.tells_words:
        answer["words"] = _words(transcript)
    return answer


def _times(transcript: Transcript, request: SpeechRequest) -> dict[str, Any]:
    """Words and segments in OpenVINO Model Server's form, as requested."""
    times: dict[str, Any] = {}
    if request.tells_words:
        times["words"] = _words(transcript)
    if request.tells_segments:
        times["segments"] = [
            {"text": each.text, "start": _rounded(each.start), "end": _rounded(each.end)}
            for each in transcript.segments
        ]
    return times


def _words(transcript: Transcript) -> list[dict[str, Any]]:
    return [
        {"word": each.text, "start": _rounded(each.start), "end": _rounded(each.end)}
        for each in transcript.words
    ]


def _usage(transcript: Transcript) -> dict[str, Any]:
    return {"type": "duration", "seconds": round(transcript.seconds, 3)}


def _rounded(seconds: float) -> float:
    """Seconds without the noise of 32-bit floats."""
    return round(seconds, 3)


def _srt(segments: tuple[Segment, ...]) -> str:
    return "".join(
        f"{number}\n{_clock(each.start, ',')} --> {_clock(each.end, ',')}\n{_cue(each)}\n\n"
        for number, each in enumerate(segments, 1)
    )


def _vtt(segments: tuple[Segment, ...]) -> str:
    cues = (
        f"{_clock(each.start, '.')} --> {_clock(each.end, '.')}\n{_cue(each)}\n\n"
        for each in segments
    )
    return "WEBVTT\n\n" + "".join(cues)


def _cue(segment: Segment) -> str:
    """The text of a subtitle: one line, without the arrow that stands between times."""
    return " ".join(segment.text.split()).replace("-->", "->")


def _clock(seconds: float, point: str) -> str:
    milliseconds = max(0, round(seconds * 1000))
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{point}{rest % 1000:03}"
