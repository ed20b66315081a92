"""Requests to ``/chat/completions`` and ``/completions``, and their answers."""

from __future__ import annotations

from typing import Final

from calculators.images.media.image import MAX_FPS, MAX_FRAMES
from calculators.kit.requests.schema import (
    Schema,
    anything,
    array,
    const,
    integer,
    nullable,
    number,
    one_of,
    record,
    ref,
    request,
    string,
    tagged,
    union,
    word,
)
from calculators.llm.openapi.generation_schemas import (
    FILE,
    FINISH_REASON,
    HAS_FILE,
    PROMPT_TOKEN_IDS,
    TOKEN_IDS,
)
from calculators.llm.requests.messages import VIDEO_TYPES
from calculators.llm.requests.tools import CHAT_NAME, name_pattern

_HEAD: Final[dict[str, Schema]] = {
    "id": string(),
    "created": integer("Unix time in seconds."),
    "model": string(),
    "system_fingerprint": nullable(string("Changes when the same seed may answer otherwise.")),
}
#: Members of messages that clients send back, which are not refused for their type.
_TEXT: Final[Schema] = {"description": "A text; of something else no use is made."}
_PARTS: Final = [
    "text",
    "input_text",
    "output_text",
    "image_url",
    "input_image",
    "input_audio",
    "audio_url",
    *VIDEO_TYPES,
    "file",
    "input_file",
    "refusal",
]
_TOKENS: Final = array(ref("TokenLogprob"))
_VIDEO: Final = one_of(string(), array(string(), minItems=1, maxItems=MAX_FRAMES), ref("VideoUrl"))
VIDEO_PART: Final = record(
    {
        "type": word(VIDEO_TYPES),
        "video_url": _VIDEO,
        "video": _VIDEO,
        "fps": nullable(
            number(
                "Frames per second that the model gets of a file, or that the frames have.",
                exclusiveMinimum=0,
                maximum=MAX_FPS,
            )
        ),
    },
    "Only for a model that takes videos.",
    required=("type",),
    anyOf=[record({name: _VIDEO}, required=(name,)) for name in ("video_url", "video")],
)

_SOUND: Final = {
    "id": string(),
    "data": string("In Base64."),
    "transcript": string(),
    "expires_at": integer("Nothing is kept: the time of the answer."),
}
_SPOKEN: Final = "The text as sound, if the request asks for it with `modalities`."

MESSAGE_SCHEMAS: Final[dict[str, Schema]] = {
    "VideoUrl": record(
        {
            "url": one_of(string("Of a file."), array(string(), minItems=1, maxItems=MAX_FRAMES)),
        },
        "An address, or one for each frame.",
        required=("url",),
    ),
    "AudioData": record(
        {"data": string("A sound file in Base64, or its `data:` URL; its content says its form.")},
        "Only for a model that hears.",
        required=("data",),
    ),
    **union(
        "ContentPart",
        TextPart=record(
            {"type": word(("text", "input_text", "output_text")), "text": string()},
            required=("type", "text"),
        ),
        ImagePart=record(
            {
                "type": word(("image_url", "input_image")),
                "image_url": one_of(string(), ref("ImageUrl")),
            },
            required=("type", "image_url"),
        ),
        VideoPart=VIDEO_PART,
        AudioPart=tagged("input_audio", {"input_audio": ref("AudioData")}),
        AudioUrlPart=tagged(
            "audio_url",
            {"audio_url": record({"url": string("A `data:` URL.")}, required=("url",))},
        ),
        FilePart=tagged(
            "file",
            {"file": record(FILE, anyOf=HAS_FILE)},
        ),
        FlatFilePart=record(
            {"type": const("input_file"), **FILE}, required=("type",), anyOf=HAS_FILE
        ),
        SaidRefusalPart=tagged("refusal", {"refusal": string()}),
        OtherPart=record(
            {"type": {"type": "string", "not": {"enum": _PARTS}}},
            "A part that this server does not know: left out with a warning.",
            required=("type",),
        ),
    ),
    "SaidToolCall": record(
        {
            "id": _TEXT,
            "function": record(
                {
                    "name": string(),
                    "arguments": {"description": "A JSON object, mostly as text."},
                },
                required=("name",),
            ),
        },
        required=("function",),
    ),
    "ChatMessage": request(
        {
            "role": string("`system`, `developer`, `user`, `assistant`, `tool`, or another word."),
            "content": one_of(
                string(),
                array(one_of(ref("ContentPart"), string())),
                about="Must be there, if only as null, but in messages of the assistant.",
            ),
            "reasoning_content": _TEXT,
            "reasoning": _TEXT,
            "function_call": record(
                {
                    "name": string(),
                    "arguments": {"description": "A JSON object, mostly as text."},
                },
                "The predecessor of `tool_calls`.",
                required=("name",),
            ),
            "tool_calls": array(ref("SaidToolCall")),
            "tool_call_id": _TEXT,
            "name": _TEXT,
        },
        required=("role",),
        anyOf=[{"properties": {"role": const("assistant")}}, {"required": ["content"]}],
    ),
}

_GRAMMAR: Final = record(
    {"syntax": word(("lark", "regex")), "definition": string()}, required=("syntax", "definition")
)
CHAT_TOOL_SCHEMAS: Final[dict[str, Schema]] = {
    "CustomChatTool": record(
        {
            "type": const("custom"),
            "custom": record(
                {
                    "name": string(pattern=f"^{name_pattern(CHAT_NAME)}$"),
                    "description": {"type": ["string", "null"]},
                    "format": nullable(
                        one_of(tagged("text", {}), tagged("grammar", {"grammar": _GRAMMAR}))
                    ),
                },
                required=("name",),
            ),
        },
        "A tool that takes a text.",
        required=("type", "custom"),
    ),
    "ChosenCustomTool": record(
        {"type": const("custom"), "custom": record({"name": string()}, required=("name",))},
        "The tool to call.",
        required=("type", "custom"),
    ),
    "AllowedChatTools": record(
        {
            "type": const("allowed_tools"),
            "allowed_tools": record(
                {"mode": word(("auto", "required")), "tools": nullable(array(ref("AllowedTool")))},
                required=("mode",),
            ),
        },
        required=("type", "allowed_tools"),
    ),
    "CustomToolCall": record(
        {
            "id": string(),
            "type": const("custom"),
            "custom": record({"name": string(), "input": string()}, required=("name", "input")),
        },
        required=("id", "type", "custom"),
    ),
}

CHAT_ANSWER_SCHEMAS: Final[dict[str, Schema]] = {
    "TokenLogprob": record(
        {
            "token": string(),
            "logprob": number(),
            "bytes": array(integer(minimum=0, maximum=255)),
            "top_logprobs": array(anything(), maxItems=0),
        },
        required=("token", "logprob", "bytes", "top_logprobs"),
    ),
    "ChatLogprobs": record(
        {"content": _TOKENS, "refusal": {"type": "null"}}, required=("content", "refusal")
    ),
    "ChatCompletion": record(
        {
            **_HEAD,
            "object": const("chat.completion"),
            "choices": array(
                record(
                    {
                        "index": integer(minimum=0),
                        "message": record(
                            {
                                "role": const("assistant"),
                                "content": nullable(string()),
                                "reasoning_content": string(),
                                "reasoning": string("The same."),
                                "refusal": nullable(string("Of a node of the graph.")),
                                "audio": record(_SOUND, _SPOKEN, required=tuple(_SOUND)),
                                "tool_calls": array(one_of(ref("ToolCall"), ref("CustomToolCall"))),
                                "function_call": record(
                                    {"name": string(), "arguments": string()},
                                    "Of a request with `functions`.",
                                    required=("name", "arguments"),
                                ),
                            },
                            required=("role", "content", "refusal"),
                        ),
                        "logprobs": nullable(ref("ChatLogprobs")),
                        "finish_reason": FINISH_REASON,
                        "token_ids": TOKEN_IDS,
                    },
                    required=("index", "message", "logprobs", "finish_reason"),
                )
            ),
            "usage": ref("CompletionUsage"),
            "prompt_token_ids": PROMPT_TOKEN_IDS,
            "__verbose": ref("Verbose"),
        },
        required=(*_HEAD, "object", "choices", "usage"),
    ),
    "ChatCompletionChunk": record(
        {
            **_HEAD,
            "object": const("chat.completion.chunk"),
            "choices": array(
                record(
                    {
                        "index": integer(minimum=0),
                        "delta": record(
                            {
                                "role": const("assistant"),
                                "content": string(),
                                "reasoning_content": string(),
                                "reasoning": string("The same."),
                                "refusal": string(),
                                "audio": record(_SOUND, _SPOKEN, required=("id",)),
                                "function_call": record(
                                    {"name": string(), "arguments": string()},
                                    "Of a request with `functions`.",
                                    required=("arguments",),
                                ),
                                "tool_calls": array(
                                    record(
                                        {
                                            "index": integer(minimum=0),
                                            "id": string(),
                                            "type": word(("function", "custom")),
                                            "function": record(
                                                {"name": string(), "arguments": string()},
                                                required=("arguments",),
                                            ),
                                            "custom": record(
                                                {"name": string(), "input": string()},
                                                required=("input",),
                                            ),
                                        },
                                        required=("index",),
                                    )
                                ),
                            },
                        ),
                        "logprobs": nullable(ref("ChatLogprobs")),
                        "finish_reason": nullable(FINISH_REASON),
                        "token_ids": TOKEN_IDS,
                    },
                    required=("index", "delta", "logprobs", "finish_reason"),
                )
            ),
            "usage": nullable(ref("CompletionUsage")),
            "prompt_token_ids": PROMPT_TOKEN_IDS,
            "__verbose": ref("Verbose"),
        },
        required=(*_HEAD, "object", "choices"),
    ),
}


_NUMBER: Final = nullable(number())

COMPLETION_ANSWER_SCHEMAS: Final[dict[str, Schema]] = {
    "CompletionLogprobs": record(
        {
            "tokens": array(string()),
            "token_logprobs": array(_NUMBER),
            "top_logprobs": nullable(
                array(nullable(anything(additionalProperties={"type": "number"})))
            ),
            "text_offset": array(integer(minimum=0)),
        },
        required=("tokens", "token_logprobs", "top_logprobs", "text_offset"),
    ),
    "Completion": record(
        {
            "id": string(),
            "object": const("text_completion"),
            "created": integer("Unix time in seconds."),
            "model": string(),
            "system_fingerprint": nullable(string()),
            "choices": array(
                record(
                    {
                        "index": integer(minimum=0),
                        "text": string(),
                        "logprobs": nullable(ref("CompletionLogprobs")),
                        "finish_reason": nullable(FINISH_REASON),
                        "prompt_token_ids": PROMPT_TOKEN_IDS,
                        "token_ids": TOKEN_IDS,
                    },
                    required=("index", "text", "logprobs", "finish_reason"),
                )
            ),
            "usage": nullable(ref("CompletionUsage")),
            "__verbose": ref("Verbose"),
        },
        "A whole answer, or what an event of a stream says.",
        required=("id", "object", "created", "model", "system_fingerprint", "choices"),
    ),
}
