"""The whole document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from calculators.requests.schema import Schema
from servers.contract.product import NAME, version
from servers.fronts.http.settings import HttpSettings
from servers.fronts.openapi.anthropic_operations import anthropic_operations
from servers.fronts.openapi.chat_schemas import (
    CHAT_ANSWER_SCHEMAS,
    MESSAGE_SCHEMAS,
)
from servers.fronts.openapi.completion_schemas import (
    COMPLETION_ANSWER_SCHEMAS,
    TOKENIZE_SCHEMAS,
)
from servers.fronts.openapi.errors import ERROR_SCHEMAS, error_answers
from servers.fronts.openapi.generation_schemas import STREAM_OPTIONS, USAGE_SCHEMAS, request_schemas
from servers.fronts.openapi.graph_operations import GRAPH_SCHEMAS, graph_operations
from servers.fronts.openapi.keys import SECURITY_SCHEMES, Keys
from servers.fronts.openapi.kserve_operations import kserve_operations
from servers.fronts.openapi.kserve_schemas import KSERVE_SCHEMAS
from servers.fronts.openapi.messages_schemas import (
    MESSAGE_BLOCK_SCHEMAS,
    MESSAGES_ANSWER_SCHEMAS,
)
from servers.fronts.openapi.openai_operations import openai_operations
from servers.fronts.openapi.operation import Operation
from servers.fronts.openapi.parameters import HEADERS, PARAMETERS
from servers.fronts.openapi.responses_events import RESPONSES_EVENT_SCHEMAS
from servers.fronts.openapi.responses_schemas import (
    RESPONSES_ANSWER_SCHEMAS,
    RESPONSES_INPUT_SCHEMAS,
)
from servers.fronts.openapi.server_operations import SERVER_SCHEMAS, server_operations
from servers.fronts.openapi.structured_schemas import STRUCTURED_SCHEMAS
from servers.fronts.openapi.tool_schemas import TOOL_SCHEMAS

_ABOUT = """\
A server of graphs and models. GET answers HEAD too, and OPTIONS tells the methods of a path; \
another method gets 405 with `Allow`. Objects may get more members in later versions."""


def openapi_document(settings: HttpSettings, model: str = "demo") -> bytes:
    """The document of a front with these settings, as JSON.

    ``model``: a language model for its examples.
    """
    return json.dumps(describe(settings, model), separators=(",", ":")).encode()


def describe(settings: HttpSettings, model: str) -> dict[str, Any]:
    """The document."""
    keys = Keys(settings.access)
    operations = [
        *openai_operations(model),
        *anthropic_operations(model),
        *graph_operations(),
        *kserve_operations(model),
        *server_operations(),
    ]
    told = {(each.form, status) for each in operations for status in each.all_errors()}
    components: dict[str, Any] = {
        "schemas": _schemas(),
        "parameters": PARAMETERS,
        "headers": HEADERS,
        "responses": error_answers(settings, told),
    }
    if keys.are_needed:
        components["securitySchemes"] = SECURITY_SCHEMES
    return {
        "openapi": "3.1.0",
        "info": {
            "title": NAME,
            "version": version(),
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": _paths(operations, keys),
        "components": components,
    }


def _paths(operations: list[Operation], keys: Keys) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for operation in operations:
        for suffix, path in operation.paths.items():
            described = keys.added_to(operation.described(suffix, path), path, operation.form)
            paths.setdefault(path, {})[operation.method] = described
    return paths


def _schemas() -> dict[str, Schema]:
    return _merged(
        ERROR_SCHEMAS,
        STREAM_OPTIONS,
        STRUCTURED_SCHEMAS,
        TOOL_SCHEMAS,
        MESSAGE_SCHEMAS,
        request_schemas(),
        CHAT_ANSWER_SCHEMAS,
        COMPLETION_ANSWER_SCHEMAS,
        TOKENIZE_SCHEMAS,
        RESPONSES_INPUT_SCHEMAS,
        RESPONSES_ANSWER_SCHEMAS,
        RESPONSES_EVENT_SCHEMAS,
        MESSAGE_BLOCK_SCHEMAS,
        MESSAGES_ANSWER_SCHEMAS,
        USAGE_SCHEMAS,
        GRAPH_SCHEMAS,
        KSERVE_SCHEMAS,
        SERVER_SCHEMAS,
    )


def _merged(*groups: Mapping[str, Schema]) -> dict[str, Schema]:
    """All of them; two cannot have one name."""
    merged: dict[str, Schema] = {}
    for group in groups:
        twice = merged.keys() & group.keys()
        if twice:
            raise ValueError(f"schemas with one name: {sorted(twice)}")
        merged.update(group)
    return merged
