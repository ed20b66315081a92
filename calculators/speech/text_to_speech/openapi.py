"""The OpenAPI description of ``/v3/audio/speech`` and ``/v3/audio/voices``."""

from __future__ import annotations

from typing import Final

from calculators.kit.requests.schema import (
    Schema,
    array,
    const,
    integer,
    one_of,
    record,
    ref,
    string,
    tagged,
)
from calculators.kit.tasks.endpoint import ErrorForm
from calculators.kit.tasks.operation import (
    EVENTS,
    JSON,
    MediaType,
    Operation,
    TaskDescription,
    answer,
    events,
    media,
    posted,
    prefixed,
    with_timeout,
)
from calculators.speech.audio.writing import FORMATS
from calculators.speech.text_to_speech.request import SPEECH_MEMBERS

_SCHEMAS: Final[dict[str, Schema]] = {
    "SpeechAudioDeltaEvent": tagged(
        "speech.audio.delta", {"audio": string("A part of the file.", contentEncoding="base64")}
    ),
    "SpeechAudioDoneEvent": tagged(
        "speech.audio.done",
        {
            "usage": record(
                {
                    "input_tokens": integer("Characters of the input.", minimum=0),
                    "output_tokens": integer("20 for each second of sound.", minimum=0),
                    "total_tokens": integer(minimum=0),
                },
                required=("input_tokens", "output_tokens", "total_tokens"),
            )
        },
    ),
    "SpeechEvent": one_of(ref("SpeechAudioDeltaEvent"), ref("SpeechAudioDoneEvent")),
    "Voice": record({"id": string(), "name": string()}, required=("id", "name")),
    "VoiceList": record(
        {"object": const("list"), "voices": array(ref("Voice"))}, required=("object", "voices")
    ),
}


def describe(model: str) -> TaskDescription:
    """Operations and schemas. ``model``: a name for the example."""
    sound: dict[str, MediaType] = {
        each.content_type: media(string(format="binary")) for each in FORMATS.values()
    }
    speech = posted(
        prefixed("/audio/speech"),
        id="createSpeech",
        summary="Speech of a text",
        about="The sound is sent while later sentences are being made, except for WAV and FLAC "
        "without stream_format, which are sent whole.",
        body={
            JSON: media(
                ref("CreateSpeechRequest"),
                a_sentence={"model": model, "input": "Hello.", "response_format": "mp3"},
            )
        },
        answers={
            200: answer(
                "The sound.",
                {
                    **sound,
                    EVENTS: events("The parts of a file.", ref("SpeechEvent")),
                },
            )
        },
    )
    voices = Operation(
        method="get",
        paths=prefixed("/audio/voices"),
        id="listVoices",
        tag="OpenAI",
        summary="The voices of a model",
        form=ErrorForm.OPENAI,
        runs_graph=True,
        parameters=("Model",),
        answers={200: answer("The voices.", {JSON: media(ref("VoiceList"))})},
    )
    body = with_timeout(SPEECH_MEMBERS)
    return TaskDescription((speech, voices), {"CreateSpeechRequest": body, **_SCHEMAS})
