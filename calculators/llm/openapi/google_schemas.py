"""Contents, tools and configuration of Google's requests, and its answers."""

from __future__ import annotations

from typing import Final

from calculators.kit.requests.members import body_schema
from calculators.kit.requests.schema import (
    Schema,
    anything,
    array,
    const,
    flag,
    integer,
    number,
    one_of,
    record,
    ref,
    request,
    string,
    word,
)
from calculators.llm.api.google.generate_content_request import CONFIG_MEMBERS, THINKING_MEMBERS
from calculators.llm.requests.tools import LONGEST_NAME, name_pattern

_PLAIN: Final = "Names may be written as in protobuf too, `inline_data`."
_NAME: Final = string(pattern=f"^{name_pattern(LONGEST_NAME)}$")

GOOGLE_SCHEMAS: Final[dict[str, Schema]] = {
    "Content": request(
        {"role": word(("user", "model", "function", "tool")), "parts": array(ref("Part"))}
    ),
    "Part": request(
        {
            "text": string(),
            "thought": flag("The text is the model's reasoning."),
            "thoughtSignature": {},
            "inlineData": ref("Blob"),
            "fileData": ref("FileData"),
            "functionCall": ref("GoogleFunctionCall"),
            "functionResponse": ref("GoogleFunctionResponse"),
        },
        f"One of its members. {_PLAIN} Other parts are left out with a warning.",
    ),
    "Blob": request(
        {
            "mimeType": string("Of an image, a sound, a text or a PDF."),
            "data": string("The file in Base64."),
            "displayName": string(),
        },
        required=("mimeType", "data"),
    ),
    "FileData": request(
        {
            "mimeType": string(),
            "fileUri": string("Of a host in `--allowed_media_domains`."),
            "displayName": string(),
        },
        required=("fileUri",),
    ),
    "GoogleFunctionCall": request(
        {"id": string(), "name": string(), "args": anything()}, required=("name",)
    ),
    "GoogleFunctionResponse": request(
        {
            "id": string("Of the call; without it the first one of the name that has no result."),
            "name": string(),
            "response": anything("`output` and `error` alone are shown to the model as texts."),
            "parts": array(ref("Part")),
        },
        required=("name",),
    ),
    "GoogleTool": request(
        {"functionDeclarations": array(ref("FunctionDeclaration"))},
        "Tools that run at Google are left out with a warning.",
    ),
    "FunctionDeclaration": request(
        {
            "name": _NAME,
            "description": string(),
            "parameters": anything("A `Schema` of Google's."),
            "parametersJsonSchema": anything("A JSON schema; it wins."),
        },
        required=("name",),
    ),
    "GoogleToolConfig": request(
        {
            "functionCallingConfig": request(
                {
                    "mode": word(("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")),
                    "allowedFunctionNames": array(string()),
                }
            )
        }
    ),
    "GenerationConfig": body_schema(CONFIG_MEMBERS),
    "ThinkingConfig": body_schema(THINKING_MEMBERS),
    "GenerateContentResponse": record(
        {
            "candidates": array(ref("Candidate")),
            "usageMetadata": ref("UsageMetadata"),
            "modelVersion": string("The name of the model."),
            "responseId": string(),
        },
        "In a stream `usageMetadata` is in the last one.",
        required=("candidates", "modelVersion", "responseId"),
    ),
    "Candidate": record(
        {
            "content": record(
                {"role": const("model"), "parts": array(ref("AnswerPart"))},
                required=("role", "parts"),
            ),
            "finishReason": word(("STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL")),
            "finishMessage": string(),
            "index": integer(minimum=0),
            "avgLogprobs": number(),
            "logprobsResult": record(
                {
                    "chosenCandidates": array(
                        record(
                            {"token": string(), "logProbability": number()},
                            required=("token", "logProbability"),
                        )
                    )
                },
                required=("chosenCandidates",),
            ),
        },
        required=("content", "index"),
    ),
    "AnswerPart": one_of(
        record(
            {"text": string(), "thought": flag(), "thoughtSignature": string()},
            required=("text",),
        ),
        record(
            {
                "functionCall": record(
                    {"id": string(), "name": string(), "args": anything()},
                    required=("id", "name", "args"),
                ),
                "thoughtSignature": string(),
            },
            required=("functionCall",),
        ),
    ),
    "UsageMetadata": record(
        {
            "promptTokenCount": integer(minimum=0),
            "cachedContentTokenCount": integer(minimum=0),
            "candidatesTokenCount": integer(minimum=0),
            "thoughtsTokenCount": integer(minimum=0),
            "totalTokenCount": integer(minimum=0),
        },
        required=("promptTokenCount", "candidatesTokenCount", "totalTokenCount"),
    ),
}
COUNT_SCHEMAS: Final[dict[str, Schema]] = {
    "CountTokensResponse": record({"totalTokens": integer(minimum=0)}, required=("totalTokens",))
}
