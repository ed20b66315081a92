"""Blocks and tools of requests to Anthropic's ``/messages``, and its answers."""

from __future__ import annotations

from typing import Final

from calculators.kit.requests.schema import (
    Members,
    Schema,
    anything,
    array,
    const,
    flag,
    integer,
    nullable,
    one_of,
    record,
    ref,
    string,
    tagged,
    union,
    word,
)
from calculators.llm.api.anthropic.tools import KNOWN_TYPES
from calculators.llm.requests.tools import LONGEST_NAME, name_pattern

_TEXT: Final = ref("TextBlock")


_ANY_TEXT: Final = one_of(_TEXT, ref("OtherTextBlock"))
_RESULT_BLOCKS: Final = (
    *("TextBlock", "ImageBlock", "DocumentBlock", "SearchResultBlock"),
    *("ToolReferenceBlock", "OtherResultBlock"),
)
_RESULT_CONTENT: Final = nullable(one_of(string(), array(one_of(*map(ref, _RESULT_BLOCKS)))))
#: The types of blocks that users and results show the model.
_SHOWN_BLOCKS: Final = ("text", "image", "document", "search_result")
_LEFT_OUT: Final = "A block that this server does not know: left out with a warning."


#: The member of documents and search results that asks for citations.
_TOOL_CONFIG: Final = record({"enabled": {"type": ["boolean", "null"]}})
_CITES: Final = nullable(
    record({"enabled": nullable(flag("The answer cites passages by the numbers that it gives."))})
)


def _message(role: str, *blocks: str) -> Schema:
    block = one_of(*map(ref, blocks)) if len(blocks) > 1 else ref(blocks[0])
    return record(
        {"role": const(role), "content": one_of(string(), array(block))},
        required=("role", "content"),
    )


def _other(*known: str) -> Schema:
    return record(
        {"type": {"type": "string", "not": {"enum": [*known]}}}, _LEFT_OUT, required=("type",)
    )


MESSAGE_BLOCK_SCHEMAS: Final[dict[str, Schema]] = {
    **union(
        "ImageSource",
        LinkedImage=tagged("url", {"url": string()}),
        SentImage=tagged("base64", {"media_type": string(), "data": string()}),
        UploadedImage=tagged("file", {"file_id": string("Of a file of the client.")}),
    ),
    **union(
        "UserBlock",
        TextBlock=tagged("text", {"text": string()}),
        ImageBlock=tagged("image", {"source": ref("ImageSource")}),
        DocumentBlock=record(
            {
                "type": const("document"),
                "source": ref("DocumentSource"),
                "title": {"type": ["string", "null"]},
                "context": {"type": ["string", "null"]},
                "citations": _CITES,
            },
            "A document of text or a PDF.",
            required=("type", "source"),
        ),
        SearchResultBlock=record(
            {
                "type": const("search_result"),
                "source": string(),
                "title": {"type": ["string", "null"]},
                "content": array(_ANY_TEXT),
                "citations": _CITES,
            },
            required=("type", "source", "content"),
        ),
        ToolResultBlock=record(
            {
                "type": const("tool_result"),
                "tool_use_id": string(),
                "content": _RESULT_CONTENT,
                "is_error": {"type": ["boolean", "null"]},
            },
            required=("type", "tool_use_id"),
        ),
        OtherUserBlock=_other(*_SHOWN_BLOCKS, "tool_result"),
    ),
    **union(
        "AssistantBlock",
        SaidBlock=tagged("text", {"text": string()}),
        ThoughtBlock=tagged("thinking", {"thinking": string()}),
        RedactedBlock=tagged("redacted_thinking", {}),
        ElsewhereBlock=record(
            {
                "type": {
                    "type": "string",
                    "pattern": "^(server_tool_use|.*_tool_result)$",
                    "not": {"const": "mcp_tool_result"},
                }
            },
            "About a tool that ran at Anthropic; passed over.",
            required=("type",),
        ),
        ToolUseBlock=tagged("tool_use", {"id": string(), "name": string(), "input": anything()}),
        ServerToolUseBlock=tagged(
            "mcp_tool_use",
            {"id": string(), "name": string(), "server_name": string(), "input": anything()},
        ),
        ServerToolResultBlock=record(
            {
                "type": const("mcp_tool_result"),
                "tool_use_id": string(),
                "is_error": nullable(flag()),
                "content": _RESULT_CONTENT,
            },
            required=("type", "tool_use_id"),
        ),
        OtherSaidBlock=record(
            {
                "type": {
                    "type": "string",
                    "not": {"enum": ["text", "thinking", "tool_use", "mcp_tool_use"]},
                    "pattern": "^(?!.*_tool_result$)",
                }
            },
            _LEFT_OUT,
            required=("type",),
        ),
    ),
    "OtherTextBlock": _other("text"),
    "OtherResultBlock": _other(*_SHOWN_BLOCKS, "tool_reference"),
    **union(
        "DocumentSource",
        DocumentText=tagged("text", {"data": string()}),
        DocumentFile=tagged(
            "base64", {"media_type": string(), "data": string("A file of text, as Base64.")}
        ),
        DocumentUrl=tagged("url", {"url": string("Of a host in `--allowed_media_domains`.")}),
        UploadedDocument=tagged("file", {"file_id": string("Of a file of the client.")}),
        DocumentBlocks=tagged("content", {"content": one_of(string(), array(_ANY_TEXT))}),
    ),
    "ToolReferenceBlock": tagged("tool_reference", {"tool_name": string()}),
    "McpServer": record(
        {
            "type": {"type": ["string", "null"], "enum": ["url", None]},
            "name": string("The label of a server of the graph.", minLength=1),
            "url": {"type": ["string", "null"]},
            "tool_configuration": nullable(
                record(
                    {
                        "enabled": {"type": ["boolean", "null"]},
                        "allowed_tools": nullable(array(string())),
                    }
                )
            ),
        },
        required=("name",),
    ),
    "McpToolset": record(
        {
            "type": const("mcp_toolset"),
            "mcp_server_name": string("One of `mcp_servers`."),
            "default_config": nullable(_TOOL_CONFIG),
            "configs": nullable(
                anything("By the name of a tool.", additionalProperties=nullable(_TOOL_CONFIG))
            ),
            "cache_control": {},
        },
        "The choice of a server's tools.",
        required=("type", "mcp_server_name"),
    ),
    **union(
        "MessageParam",
        UserMessage=_message("user", "UserBlock"),
        AssistantMessage=_message("assistant", "AssistantBlock"),
        SystemMessage=_message("system", "TextBlock", "OtherTextBlock"),
    ),
    "MessageTool": record(
        {
            "type": {"type": ["string", "null"], "enum": ["custom", None]},
            "name": string(pattern=f"^{name_pattern(LONGEST_NAME)}$"),
            "description": {"type": ["string", "null"]},
            "input_schema": anything("The JSON schema of what it is given."),
            "strict": {"type": ["boolean", "null"]},
        },
        required=("name", "input_schema"),
    ),
    "AnthropicTool": record(
        {
            "type": string(pattern=KNOWN_TYPES),
            "name": string(pattern=f"^{name_pattern(LONGEST_NAME)}$"),
        },
        "A tool of the client with a schema that everyone knows.",
        required=("type", "name"),
    ),
    "HostedMessageTool": record(
        {
            "type": {
                "type": "string",
                "allOf": [
                    {"not": {"enum": ["custom", "mcp_toolset"]}},
                    {"not": {"pattern": KNOWN_TYPES}},
                ],
            }
        },
        "A tool that runs at Anthropic, such as `web_search_20250305`: left out with a warning.",
        required=("type",),
    ),
    **union(
        "MessageToolChoice",
        MessageToolMode=record(
            {
                "type": word(("auto", "any", "none")),
                "disable_parallel_tool_use": {"type": ["boolean", "null"]},
            },
            required=("type",),
        ),
        MessageChosenTool=record(
            {
                "type": const("tool"),
                "name": string(),
                "disable_parallel_tool_use": {"type": ["boolean", "null"]},
            },
            required=("type", "name"),
        ),
    ),
}

_STOP_REASON: Final = word(("end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"))
_ENDING: Final[Members] = {
    "stop_reason": nullable(_STOP_REASON),
    "stop_sequence": nullable(string()),
}
#: Schema of a refusal by a node of the graph.
_DETAILS: Final[Members] = {
    "stop_details": record(
        {
            "type": const("refusal"),
            "category": nullable(string()),
            "explanation": string(),
        },
        required=("type", "category", "explanation"),
    ),
}


def _citation(kind: str, unit: str) -> Schema:
    return record(
        {
            "type": const(kind),
            "cited_text": string("The passage, as the document has it."),
            "document_index": integer(minimum=0),
            "document_title": nullable(string()),
            "file_id": const(None),
            f"start_{unit}": integer(minimum=0),
            f"end_{unit}": integer("Not a part.", minimum=0),
        },
        required=("type", "cited_text", "document_index", f"start_{unit}", f"end_{unit}"),
    )


MESSAGES_ANSWER_SCHEMAS: Final[dict[str, Schema]] = {
    "CitingBlock": record(
        {"type": const("text"), "text": string(), "citations": array(ref("Citation"))},
        "A sentence with what it cites.",
        required=("type", "text", "citations"),
    ),
    "ThinkingBlock": tagged("thinking", {"thinking": string(), "signature": string()}),
    "AnswerBlock": one_of(
        ref("ThinkingBlock"),
        _TEXT,
        ref("CitingBlock"),
        ref("ToolUseBlock"),
        ref("ServerToolUseBlock"),
        ref("ServerToolResultBlock"),
    ),
    **union(
        "BlockDelta",
        ThinkingDelta=tagged("thinking_delta", {"thinking": string()}),
        SignatureDelta=tagged("signature_delta", {"signature": string()}),
        TextDelta=tagged("text_delta", {"text": string()}),
        InputDelta=tagged("input_json_delta", {"partial_json": string()}),
        CitationsDelta=tagged("citations_delta", {"citation": ref("Citation")}),
    ),
    **union(
        "Citation",
        CharCitation=_citation("char_location", "char_index"),
        PageCitation=_citation("page_location", "page_number"),
        BlockCitation=_citation("content_block_location", "block_index"),
        ResultCitation=record(
            {
                "type": const("search_result_location"),
                "cited_text": string(),
                "source": string(),
                "title": nullable(string()),
                "search_result_index": integer(minimum=0),
                "start_block_index": integer(minimum=0),
                "end_block_index": integer("Not a part.", minimum=0),
            },
            required=("type", "cited_text", "source", "search_result_index"),
        ),
    ),
    "MessageUsage": record(
        {
            "input_tokens": integer(minimum=0),
            "cache_creation_input_tokens": integer(minimum=0),
            "cache_read_input_tokens": integer(minimum=0),
            "output_tokens": integer(minimum=0),
        },
        required=(
            "input_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
            "output_tokens",
        ),
    ),
    "Message": record(
        {
            "id": string(),
            "type": const("message"),
            "role": const("assistant"),
            "model": string(),
            "content": array(ref("AnswerBlock")),
            **_ENDING,
            **_DETAILS,
            "usage": ref("MessageUsage"),
            "__verbose": ref("Verbose"),
        },
        required=("id", "type", "role", "model", "content", *_ENDING, "usage"),
    ),
    **union(
        "MessageEvent",
        MessageStart=tagged("message_start", {"message": ref("Message")}),
        BlockStart=tagged(
            "content_block_start",
            {"index": integer(minimum=0), "content_block": ref("AnswerBlock")},
        ),
        BlockGrowth=tagged(
            "content_block_delta", {"index": integer(minimum=0), "delta": ref("BlockDelta")}
        ),
        BlockStop=tagged("content_block_stop", {"index": integer(minimum=0)}),
        MessageDelta=record(
            {
                "type": const("message_delta"),
                "delta": record({**_ENDING, **_DETAILS}, required=tuple(_ENDING)),
                "usage": ref("MessageUsage"),
                "__verbose": ref("Verbose"),
            },
            required=("type", "delta", "usage"),
        ),
        MessageStop=tagged("message_stop", {}),
    ),
}

COUNT_TOKENS_ANSWER_SCHEMAS: Final[dict[str, Schema]] = {
    "TokenCount": record({"input_tokens": integer(minimum=0)}, required=("input_tokens",)),
}
