"""The OpenAPI description of a language model's endpoints."""

from __future__ import annotations

from calculators.llm.openapi.anthropic_operations import anthropic_operations
from calculators.llm.openapi.chat_schemas import CHAT_ANSWER_SCHEMAS, MESSAGE_SCHEMAS
from calculators.llm.openapi.completion_schemas import COMPLETION_ANSWER_SCHEMAS, TOKENIZE_SCHEMAS
from calculators.llm.openapi.generation_schemas import (
    STREAM_OPTIONS,
    USAGE_SCHEMAS,
    request_schemas,
)
from calculators.llm.openapi.messages_schemas import MESSAGE_BLOCK_SCHEMAS, MESSAGES_ANSWER_SCHEMAS
from calculators.llm.openapi.openai_operations import openai_operations
from calculators.llm.openapi.responses_events import RESPONSES_EVENT_SCHEMAS
from calculators.llm.openapi.responses_schemas import (
    RESPONSES_ANSWER_SCHEMAS,
    RESPONSES_INPUT_SCHEMAS,
)
from calculators.llm.openapi.structured_schemas import STRUCTURED_SCHEMAS
from calculators.llm.openapi.tool_schemas import TOOL_SCHEMAS
from calculators.tasks.operation import TaskDescription


def describe(model: str) -> TaskDescription:
    """All of it. ``model``: a name for the examples."""
    return TaskDescription(
        (*openai_operations(model), *anthropic_operations(model)),
        {
            **STREAM_OPTIONS,
            **STRUCTURED_SCHEMAS,
            **TOOL_SCHEMAS,
            **MESSAGE_SCHEMAS,
            **request_schemas(),
            **CHAT_ANSWER_SCHEMAS,
            **COMPLETION_ANSWER_SCHEMAS,
            **TOKENIZE_SCHEMAS,
            **RESPONSES_INPUT_SCHEMAS,
            **RESPONSES_ANSWER_SCHEMAS,
            **RESPONSES_EVENT_SCHEMAS,
            **MESSAGE_BLOCK_SCHEMAS,
            **MESSAGES_ANSWER_SCHEMAS,
            **USAGE_SCHEMAS,
        },
    )
