"""Contents, tools and configuration of Google's requests, and its answers."""

from __future__ import annotations

from typing import Final

from calculators.images.media.image import MAX_FPS
from calculators.kit.requests import schema
from calculators.kit.requests.members import body_schema
from calculators.llm.api.google.contents import DURATION
from calculators.llm.api.google.generate_content_request import (
    CONFIG_MEMBERS,
    MODE,
    THINKING_MEMBERS,
)
from calculators.llm.requests.tools import LONGEST_NAME, name_pattern

_PLAIN: Final = "Names may be written as in protobuf too, `inline_data`."
_NAME: Final = schema.string(pattern=f"^{name_pattern(LONGEST_NAME)}$")
#: Protobuf takes one for a list of one.
_PARTS: Final = schema.one_of(
    schema.array(schema.one_of(schema.ref("Part"), schema.string())), schema.ref("Part")
)

GOOGLE_SCHEMAS: Final[dict[str, schema.Schema]] = {
    "Content": schema.request(
        {
            "role": schema.word(("user", "model", "function", "tool")),
            "parts": _PARTS,
        }
    ),
    "SystemContent": schema.request(
        {"role": schema.string("Changes nothing."), "parts": _PARTS},
    ),
    "Part": schema.request(
        {
            "text": schema.string(),
            "thought": schema.flag("The text is the model's reasoning."),
            "thoughtSignature": {},
            "inlineData": schema.ref("Blob"),
            "fileData": schema.ref("FileData"),
            "videoMetadata": schema.ref("VideoMetadata"),
            "functionCall": schema.ref("GoogleFunctionCall"),
            "functionResponse": schema.ref("GoogleFunctionResponse"),
        },
        f"One of its members. {_PLAIN} Other parts are left out with a warning.",
    ),
    "Blob": schema.request(
        {
            "mimeType": schema.string("Of an image, a video, a sound, a text or a PDF."),
            "data": schema.string("The file in Base64."),
            "displayName": schema.string(),
        },
        required=("mimeType", "data"),
    ),
    "VideoMetadata": schema.request(
        {
            "fps": schema.number(
                "Frames per second that the model gets; 1 by default.",
                exclusiveMinimum=0,
                maximum=MAX_FPS,
            ),
            "startOffset": schema.string('Such as "12.5s".', pattern=DURATION),
            "endOffset": schema.string(pattern=DURATION),
        },
    ),
    "FileData": schema.request(
        {
            "mimeType": schema.string(),
            "fileUri": schema.string("Of a host in `--allowed_media_domains`."),
            "displayName": schema.string(),
        },
        required=("fileUri",),
    ),
    "GoogleFunctionCall": schema.request(
        {"id": schema.string(), "name": schema.string(), "args": schema.anything()},
        required=("name",),
    ),
    "GoogleFunctionResponse": schema.request(
        {
            "id": schema.string(
                "Of the call; without it the first one of the name that has no result."
            ),
            "name": schema.string(),
            "response": schema.anything(
                "`output` and `error` alone are shown to the model as texts."
            ),
            "parts": _PARTS,
        },
        required=("name",),
    ),
    "GoogleTool": schema.request(
        {"functionDeclarations": schema.array(schema.ref("FunctionDeclaration"))},
        "Tools that run at Google are left out with a warning.",
    ),
    "FunctionDeclaration": schema.request(
        {
            "name": _NAME,
            "description": schema.string(),
            "parameters": schema.anything("A `Schema` of Google's."),
            "parametersJsonSchema": schema.anything("A JSON schema; it wins."),
        },
        required=("name",),
    ),
    "GoogleToolConfig": schema.request(
        {
            "functionCallingConfig": schema.request(
                {
                    "mode": MODE.schema(""),
                    "allowedFunctionNames": schema.array(schema.string()),
                }
            )
        }
    ),
    "GenerationConfig": body_schema(CONFIG_MEMBERS),
    "ThinkingConfig": body_schema(THINKING_MEMBERS),
    "GenerateContentResponse": schema.record(
        {
            "candidates": schema.array(schema.ref("Candidate")),
            "usageMetadata": schema.ref("UsageMetadata"),
            "modelVersion": schema.string("The name of the model."),
            "responseId": schema.string(),
        },
        "In a stream `usageMetadata` is in the last one.",
        required=("candidates", "modelVersion", "responseId"),
    ),
    "Candidate": schema.record(
        {
            "content": schema.record(
                {"role": schema.const("model"), "parts": schema.array(schema.ref("AnswerPart"))},
                required=("role", "parts"),
            ),
            "finishReason": schema.word(
                ("STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL")
            ),
            "finishMessage": schema.string(),
            "index": schema.integer(minimum=0),
            "avgLogprobs": schema.number(),
            "logprobsResult": schema.record(
                {
                    "chosenCandidates": schema.array(
                        schema.record(
                            {"token": schema.string(), "logProbability": schema.number()},
                            required=("token", "logProbability"),
                        )
                    )
                },
                required=("chosenCandidates",),
            ),
        },
        required=("content", "index"),
    ),
    "AnswerPart": schema.one_of(
        schema.record(
            {
                "text": schema.string(),
                "thought": schema.flag(),
                "thoughtSignature": schema.string(),
            },
            required=("text",),
        ),
        schema.record(
            {
                "functionCall": schema.ref("AnswerFunctionCall"),
                "thoughtSignature": schema.string(),
            },
            required=("functionCall",),
        ),
    ),
    "AnswerFunctionCall": schema.record(
        {"id": schema.string(), "name": schema.string(), "args": schema.anything()},
        required=("id", "name", "args"),
    ),
    "UsageMetadata": schema.record(
        {
            "promptTokenCount": schema.integer(minimum=0),
            "cachedContentTokenCount": schema.integer(minimum=0),
            "candidatesTokenCount": schema.integer(minimum=0),
            "thoughtsTokenCount": schema.integer(minimum=0),
            "totalTokenCount": schema.integer(minimum=0),
        },
        required=("promptTokenCount", "candidatesTokenCount", "totalTokenCount"),
    ),
}
COUNT_SCHEMAS: Final[dict[str, schema.Schema]] = {
    "CountTokensResponse": schema.record(
        {"totalTokens": schema.integer(minimum=0)}, required=("totalTokens",)
    )
}
