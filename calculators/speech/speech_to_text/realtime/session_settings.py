"""The settings of a session, read from ``session.update`` and ``transcription_session.update``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import Enumeration, Integer, Number, Reader
from calculators.speech.audio.speech_recognizer import SpeechSettings
from calculators.speech.speech_to_text.realtime.audio_format import FORMATS, PCM, AudioFormat
from calculators.speech.speech_to_text.realtime.voice_detector import VoiceSettings

_THRESHOLD: Final = Number(minimum=0, maximum=1)
_PADDING: Final = Integer(maximum=5000)
_SILENCE: Final = Integer(minimum=100, maximum=10_000)
_NOISE_REDUCTIONS: Final = Enumeration(("near_field", "far_field"))
_LONGEST_TEXT: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """The settings of a session.

    Attributes:
        format: of the sound that is appended.
        voice: when speech begins and ends; None: the client commits.
        speech: the settings of each recognition.
        model: the model's name as the client wrote it; "".
        transcribes: False: committed sound gets no text.
        noise_reduction: as the client wrote it; it has no effect.
        include: as the client wrote it; it has no effect.
    """

    format: AudioFormat = PCM
    voice: VoiceSettings | None = field(default_factory=VoiceSettings)
    speech: SpeechSettings = field(default_factory=SpeechSettings)
    model: str = ""
    transcribes: bool = True
    noise_reduction: str | None = None
    include: tuple[str, ...] = ()


def updated(settings: SessionSettings, session: Mapping[str, Any]) -> SessionSettings:
    """Return the settings after ``session.update``; members that are absent stay as they are.

    Raises:
        RequestError: a member is wrong; ``param`` is its path.
    """
    kind = fields.string(session, "type", "session.type")
    if kind not in (None, "transcription"):
        raise fields.invalid(
            "session.type", "only transcription is served: this model does not speak"
        )
    audio = fields.json_object(session, "audio", "session.audio") or {}
    given = fields.json_object(audio, "input", "session.audio.input") or {}
    return with_input(settings, session, given, "session.audio.input")


def with_input(
    settings: SessionSettings, session: Mapping[str, Any], given: Mapping[str, Any], at: str
) -> SessionSettings:
    """Return settings changed by the sound's object of a session, ``given``, which is at ``at``.

    Raises:
        RequestError: a member is wrong; ``param`` is its path.
    """
    settings = _with_include(settings, session)
    if given.get("format") is not None:
        settings = replace(settings, format=read_format(given, at))
    return _with_rest(
        settings,
        given,
        at,
        transcription="transcription",
        noise_reduction="noise_reduction",
    )


def updated_as_before(settings: SessionSettings, session: Mapping[str, Any]) -> SessionSettings:
    """Return the settings after ``transcription_session.update``, the older form.

    Raises:
        RequestError: a member is wrong; ``param`` is its path.
    """
    settings = _with_include(settings, session)
    name = fields.string(session, "input_audio_format", "session.input_audio_format")
    if name is not None:
        Enumeration([each.old_name for each in FORMATS]).read(name, "session.input_audio_format")
        settings = replace(settings, format=_by(name, "old_name"))
    return _with_rest(
        settings,
        session,
        "session",
        transcription="input_audio_transcription",
        noise_reduction="input_audio_noise_reduction",
    )


def described(settings: SessionSettings) -> dict[str, object]:
    """Return the members of a session object."""
    return {
        "type": "transcription",
        "object": "realtime.transcription_session",
        "audio": {"input": described_input(settings)},
        "include": list(settings.include) or None,
    }


def described_input(settings: SessionSettings) -> dict[str, object]:
    """Return the object of the sound that the client appends."""
    return {
        "format": settings.format.described(),
        "transcription": _transcription_object(settings),
        "noise_reduction": _noise_object(settings),
        "turn_detection": _voice_object(settings.voice),
    }


def described_as_before(settings: SessionSettings) -> dict[str, object]:
    """Return the members of a session object in the older form."""
    return {
        "object": "realtime.transcription_session",
        "input_audio_format": settings.format.old_name,
        "input_audio_transcription": _transcription_object(settings),
        "input_audio_noise_reduction": _noise_object(settings),
        "turn_detection": _voice_object(settings.voice),
        "include": list(settings.include) or None,
    }


def _with_rest(
    settings: SessionSettings,
    given: Mapping[str, Any],
    at: str,
    *,
    transcription: str,
    noise_reduction: str,
) -> SessionSettings:
    if "turn_detection" in given:
        settings = replace(settings, voice=_voice(given, f"{at}.turn_detection"))
    if noise_reduction in given:
        path = f"{at}.{noise_reduction}"
        noise = fields.json_object(given, noise_reduction, path) or {}
        kind = fields.string(noise, "type", f"{path}.type")
        if kind is not None:
            _NOISE_REDUCTIONS.read(kind, f"{path}.type")
        settings = replace(settings, noise_reduction=kind)
    if transcription in given:
        settings = _with_transcription(settings, given, transcription, f"{at}.{transcription}")
    return settings


def _with_include(settings: SessionSettings, session: Mapping[str, Any]) -> SessionSettings:
    include = fields.array(session, "include", "session.include")
    if include is None:
        return settings
    if not all(isinstance(each, str) and len(each) < _LONGEST_TEXT for each in include[:10]):
        raise fields.invalid("session.include", "expected strings")
    return replace(settings, include=tuple(include[:10]))


def _with_transcription(
    settings: SessionSettings, given: Mapping[str, Any], name: str, path: str
) -> SessionSettings:
    asked = fields.json_object(given, name, path)
    if asked is None:
        return replace(settings, transcribes=False)
    texts = {}
    for each in ("model", "language", "prompt"):
        text = fields.string(asked, each, f"{path}.{each}")
        if text is not None and len(text) > _LONGEST_TEXT:
            raise fields.invalid(f"{path}.{each}", f"more than {_LONGEST_TEXT} characters")
        texts[each] = text
    language = texts["language"]
    if language is None and (languages := _strings(asked, "languages", path)):
        # Several may be spoken: the model decides.
        language = languages[0] if len(languages) == 1 else ""
    hotwords = _strings(asked, "keywords", path)
    old = settings.speech
    speech = replace(
        old,
        language=old.language if language is None else language,
        prompt=old.prompt if texts["prompt"] is None else texts["prompt"],
        hotwords=old.hotwords if hotwords is None else ", ".join(hotwords),
    )
    model = settings.model if texts["model"] is None else texts["model"]
    return replace(settings, speech=speech, model=model, transcribes=True)


def _strings(asked: Mapping[str, Any], name: str, path: str) -> list[str] | None:
    found = fields.array(asked, name, f"{path}.{name}")
    if found is None:
        return None
    if not all(isinstance(each, str) for each in found):
        raise fields.invalid(f"{path}.{name}", "expected strings")
    if sum(map(len, found)) > _LONGEST_TEXT:
        raise fields.invalid(f"{path}.{name}", f"more than {_LONGEST_TEXT} characters")
    return found


def _voice(given: Mapping[str, Any], path: str) -> VoiceSettings | None:
    asked = fields.json_object(given, "turn_detection", path)
    if asked is None:
        return None
    kind = fields.string(asked, "type", f"{path}.type")
    if kind not in (None, "server_vad"):
        raise fields.invalid(f"{path}.type", 'only "server_vad" is served, or null')
    settings = VoiceSettings()
    read: dict[str, Reader] = {
        "threshold": _THRESHOLD,
        "prefix_padding_ms": _PADDING,
        "silence_duration_ms": _SILENCE,
    }
    values = {
        name: reader.read(asked[name], f"{path}.{name}")
        for name, reader in read.items()
        if asked.get(name) is not None
    }
    return replace(settings, **values)


def read_format(given: Mapping[str, Any], at: str) -> AudioFormat:
    """Return the format that the member ``format`` of an object names.

    Raises:
        RequestError: there is no such format.
    """
    path = f"{at}.format"
    asked = fields.json_object(given, "format", path) or {}
    name = fields.string(asked, "type", f"{path}.type")
    if name is None:
        return PCM
    Enumeration([each.type for each in FORMATS]).read(name, f"{path}.type")
    found = _by(name, "type")
    rate = asked.get("rate")
    if rate is not None and rate != found.rate:
        raise fields.invalid(f"{path}.rate", f"{found.type} has {found.rate}")
    return found


def _by(name: str, attribute: str) -> AudioFormat:
    return next(each for each in FORMATS if getattr(each, attribute) == name)


def _transcription_object(settings: SessionSettings) -> dict[str, Any] | None:
    if not settings.transcribes:
        return None
    return {
        "model": settings.model or None,
        "language": settings.speech.language or None,
        "prompt": settings.speech.prompt,
    }


def _noise_object(settings: SessionSettings) -> dict[str, Any] | None:
    return None if settings.noise_reduction is None else {"type": settings.noise_reduction}


def _voice_object(voice: VoiceSettings | None) -> dict[str, Any] | None:
    if voice is None:
        return None
    return {
        "type": "server_vad",
        "threshold": voice.threshold,
        "prefix_padding_ms": voice.prefix_padding_ms,
        "silence_duration_ms": voice.silence_duration_ms,
    }


def check_model(settings: SessionSettings, served: str) -> None:
    """Check that a session asks for the model that its connection has.

    Raises:
        RequestError: it names another one.
    """
    if settings.model and served and settings.model != served:
        raise RequestError(
            f'this connection has the model "{served}": name it, or none',
            param="session.audio.input.transcription.model",
        )
