"""The OpenAPI description of ``/v3/audio/transcriptions`` and ``/v3/audio/translations``."""

from __future__ import annotations

from typing import Any, Final

from calculators.kit.requests.schema import (
    Schema,
    array,
    const,
    integer,
    number,
    one_of,
    record,
    ref,
    string,
    tagged,
)
from calculators.kit.tasks.endpoint import ErrorForm
from calculators.kit.tasks.operation import (
    EVENTS,
    FORM,
    JSON,
    Operation,
    TaskDescription,
    answer,
    events,
    media,
    posted,
    prefixed,
    with_timeout,
)
from calculators.speech.speech_to_text.request import (
    TRANSCRIPTION_MEMBERS,
    TRANSCRIPTIONS,
    TRANSLATION_MEMBERS,
    TRANSLATIONS,
)

_SECONDS: Final = number("Seconds from the beginning of the sound.", minimum=0)
_TEXT: Final = string("As the model writes it; Whisper's begins with a blank.")

_ANSWER_SCHEMAS: Final[dict[str, Schema]] = {
    "TranscriptWord": record(
        {"word": string(), "start": _SECONDS, "end": _SECONDS}, required=("word", "start", "end")
    ),
    "TranscriptSegment": record(
        {
            "text": string(),
            "start": _SECONDS,
            "end": _SECONDS,
            "id": integer("In verbose_json, as all that follow.", minimum=0),
            "seek": integer("Always 0."),
            "tokens": array(integer()),
            "temperature": number(),
            "avg_logprob": number("Always 0: it is not known."),
            "compression_ratio": number("Always 0: it is not known."),
            "no_speech_prob": number("Always 0: it is not known."),
        },
        required=("text", "start", "end"),
    ),
    "Transcription": record(
        {
            "text": _TEXT,
            "words": array(ref("TranscriptWord"), "If they were requested."),
            "segments": array(ref("TranscriptSegment"), "If they were requested."),
            "usage": record(
                {"type": const("duration"), "seconds": number(minimum=0)},
                required=("type", "seconds"),
            ),
            "task": string("In verbose_json: transcribe or translate."),
            "language": string('In verbose_json: "english".'),
            "duration": number("In verbose_json: seconds.", minimum=0),
        },
        required=("text", "usage"),
    ),
    "TranscriptTextDelta": tagged(
        "transcript.text.delta", {"delta": string(), "logprobs": array({})}
    ),
    "TranscriptTextDone": tagged("transcript.text.done", {"text": _TEXT, "logprobs": array({})}),
    "TranscriptEvent": one_of(ref("TranscriptTextDelta"), ref("TranscriptTextDone")),
}


def describe(model: str) -> TaskDescription:
    """Operations and schemas. ``model``: a name for the example."""
    whole = {
        JSON: media(ref("Transcription")),
        "text/plain": media(string("For text and srt.")),
        "text/vtt": media(string()),
    }
    streamed = {
        **whole,
        EVENTS: events("With stream: pieces of the text, then all of it.", ref("TranscriptEvent")),
    }
    return TaskDescription(
        (
            _operation(TRANSCRIPTIONS, "createTranscription", "Speech to text", streamed),
            _operation(TRANSLATIONS, "createTranslation", "Speech to English text", whole),
            Operation(
                method="get",
                paths=prefixed("/realtime"),
                id="openRealtimeTranscription",
                tag="OpenAI",
                summary="The text of speech while one speaks",
                about="A WebSocket with the events of OpenAI's Realtime API for transcription.",
                form=ErrorForm.OPENAI,
                runs_graph=True,
                errors=frozenset({426}),
                parameters=("Model", "Timeout"),
                answers={101: answer("The WebSocket is open.")},
            ),
        ),
        {
            "CreateTranscriptionRequest": with_timeout(TRANSCRIPTION_MEMBERS),
            "CreateTranslationRequest": with_timeout(TRANSLATION_MEMBERS),
            **_ANSWER_SCHEMAS,
        },
    )


def _operation(path: str, id: str, summary: str, content: dict[str, Any]) -> Operation:
    return posted(
        prefixed(path),
        id=id,
        summary=summary,
        body={FORM: media(ref(f"{id[0].upper()}{id[1:]}Request"))},
        answers={200: answer("The text.", content)},
    )
