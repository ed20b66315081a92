"""Requests to ``/v3/audio/transcriptions`` and ``/v3/audio/translations``, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from calculators.kit.requests.fields import check_most, invalid
from calculators.kit.requests.form_members import form_members
from calculators.kit.requests.http_payload import MultipartForm, RequestError
from calculators.kit.requests.members import (
    ABOUT_THE_CLIENT,
    BOOLEAN,
    STRING,
    Enumeration,
    Members,
    Number,
    Standing,
    Value,
    honoured,
    ignored,
    read_members,
    refused,
    table,
)
from calculators.kit.requests.schema import array, const, one_of, record, string, word
from calculators.speech.audio.speech_recognizer import SpeechSettings

TRANSCRIPTIONS: Final = "/audio/transcriptions"
TRANSLATIONS: Final = "/audio/translations"

_FILE: Final = "file"
#: Characters of a prompt; Whisper keeps its last 220 tokens.
_LONGEST_PROMPT: Final = 8192
#: Words that a request may ask the model to expect, and characters of each.
_MOST_WORDS: Final = 256
_LONGEST_WORD: Final = 256
_SEGMENT: Final = "segment"
_WORD: Final = "word"
_TEMPERATURE: Final = Number(minimum=0, maximum=2)


class AnswerFormat(StrEnum):
    """The form of an answer."""

    JSON = "json"
    TEXT = "text"
    SRT = "srt"
    VERBOSE_JSON = "verbose_json"
    VTT = "vtt"


#: The forms of a text that is sent as it comes.
_STREAMED: Final = (AnswerFormat.JSON, AnswerFormat.TEXT)


def _text(longest: int) -> Value:
    def check(value: Any, path: str) -> str:
        text = STRING.read(value, path)
        check_most(path, len(text), "characters", longest)
        return text

    return Value(string(maxLength=longest), check)


def _temperature(value: Any, path: str) -> float:
    if isinstance(value, str):
        raise RequestError(
            "Invalid temperature type. It must be a number",
            param=path,
            detail="Invalid temperature type.",
        )
    return _TEMPERATURE.read(value, path)


def _times(value: Any, path: str) -> list[str]:
    if not isinstance(value, list) or not all(each in (_SEGMENT, _WORD) for each in value):
        allowed = f'Allowed types: "{_SEGMENT}", "{_WORD}"'
        raise RequestError(f"Invalid timestamp_granularities type. {allowed}", param=path)
    return value


def _words(value: Any, path: str) -> list[str]:
    if not isinstance(value, list):
        raise invalid(path, "expected an array of words")
    check_most(path, len(value), "words", _MOST_WORDS)
    each = _text(_LONGEST_WORD)
    return [each.read(text, f"{path}[{place}]") for place, text in enumerate(value)]


_WORDS: Final = Value(array(string(maxLength=_LONGEST_WORD), maxItems=_MOST_WORDS), _words)

_COMMON: Final[Members] = table(
    honoured("model", STRING, "The name of the model.", is_required=True, minLength=1),
    honoured(
        _FILE,
        Value(string(contentMediaType="application/octet-stream")),
        "A file of sound: wav, mp3, flac, ogg; with PyAV on the server m4a, mp4 and webm too.",
        is_required=True,
    ),
    honoured(
        "language",
        _text(64),
        'The spoken language: "en", "english" or "en-US". By default the model finds out.',
    ),
    honoured(
        "prompt",
        _text(_LONGEST_PROMPT),
        "Text that was said before, or that shows spellings and style.",
    ),
    honoured("hotwords", _text(_LONGEST_PROMPT), "Words to expect in all of the sound."),
    honoured("keywords", _WORDS, "OpenAI's name for hotwords, one by one."),
    honoured(
        "response_format",
        Enumeration(tuple(AnswerFormat)),
        "json is the default; text, srt and vtt are plain text.",
    ),
    honoured(
        "temperature",
        Value(_TEMPERATURE.schema(""), _temperature),
        "0, the default, chooses the likeliest words; above it they are drawn.",
    ),
    honoured("timeout", Value()),  # the front reads it, and knows the schema
    ABOUT_THE_CLIENT,
    ignored("chooses how a sound is cut, which the model does itself", "chunking_strategy"),
    refused("is not supported: no log-probabilities are known", "include"),
    refused(
        "is not supported: speakers are not distinguished",
        "known_speaker_names known_speaker_references",
    ),
)

TRANSCRIPTION_MEMBERS: Final[Members] = table(
    _COMMON,
    honoured("languages", _WORDS, "Languages that may be spoken; one is as good as language."),
    honoured(
        "timestamp_granularities",
        Value(array(word((_SEGMENT, _WORD))), _times),
        "The times to find; also written timestamp_granularities[]. Words need a node with "
        "enable_word_timestamps.",
    ),
    honoured(
        "stream",
        BOOLEAN,
        "Send the text as it comes, as server-sent events.",
        beside=one_of(
            record({"stream": one_of(const(None), const(False))}),
            record({"response_format": one_of(const(None), word(_STREAMED))}),
        ),
    ),
)
TRANSLATION_MEMBERS: Final[Members] = table(
    _COMMON,
    honoured("stream", BOOLEAN, "Only false: a translation is sent as a whole.", const=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechRequest:
    """A file to turn into text.

    Attributes:
        content: the bytes of the file.
        is_stream: send the text as it comes.
        tells_segments, tells_words: put their times into an answer in JSON.
    """

    content: bytes
    settings: SpeechSettings
    format: AnswerFormat
    is_stream: bool
    tells_segments: bool
    tells_words: bool


def parse_speech_request(form: MultipartForm | None, path: str) -> SpeechRequest:
    """Return the request in a form. ``path``: of the request, without its query.

    Raises:
        RequestError: INVALID_ARGUMENT, with the field that is wrong, or that is not known.
    """
    if form is None:
        raise RequestError(
            "Failed to parse multipart data: the body must be a form, with "
            "Content-Type: multipart/form-data"
        )
    translates = path.endswith(TRANSLATIONS)
    known = TRANSLATION_MEMBERS if translates else TRANSCRIPTION_MEMBERS
    read = read_members(form_members(_without_ignored(form, known), known), known)
    format = AnswerFormat(read.get("response_format", AnswerFormat.JSON))
    is_stream: bool = read.get("stream", False)
    if is_stream and translates:
        raise RequestError("streaming is not supported for translations endpoint", param="stream")
    if is_stream and format not in _STREAMED:
        raise RequestError(
            f"a stream has the form of events, not {format}: leave response_format out, or stream",
            param="response_format",
        )
    times: Sequence[str] = read.get("timestamp_granularities", ())
    is_verbose = format is AnswerFormat.VERBOSE_JSON
    tells_segments = _SEGMENT in times or (is_verbose and not times)
    tells_words = _WORD in times
    return SpeechRequest(
        content=_content(form),
        settings=SpeechSettings(
            language=_language(read),
            prompt=read.get("prompt", ""),
            hotwords=", ".join(filter(None, (read.get("hotwords"), *read.get("keywords", ())))),
            temperature=read.get("temperature", 0.0),
            translates=translates,
            segments=tells_segments or format in (AnswerFormat.SRT, AnswerFormat.VTT),
            words=tells_words,
        ),
        format=format,
        is_stream=is_stream,
        tells_segments=tells_segments,
        tells_words=tells_words,
    )


def _language(read: dict[str, Any]) -> str:
    language: str = read.get("language", "")
    languages: Sequence[str] = read.get("languages", ())
    return languages[0] if not language and len(languages) == 1 else language


def _without_ignored(form: MultipartForm, known: Members) -> MultipartForm:
    """Leave out the parts of objects without an effect, as in ``chunking_strategy[type]``."""
    ignored_names = {
        name for name, member in known.items() if member.standing is Standing.WITHOUT_EFFECT
    }
    fields = {
        name: texts
        for name, texts in form.fields.items()
        if name.partition("[")[0] not in ignored_names
    }
    return MultipartForm(fields, form.files)


def _content(form: MultipartForm) -> bytes:
    files = form.files.get(_FILE, ())
    if len(files) != 1:
        found = f"{len(files)} files" if files else "no file"
        raise RequestError(
            f"File parsing fails: the form has {found} in its field file, and needs one",
            param=_FILE,
        )
    content: bytes = files[0].content
    if not content:
        raise RequestError("File parsing fails: the file is empty", param=_FILE)
    return content
