"""graphrt's output parsers by name, in the order of the documentation.

Each is listed here only, with the module of `calculators.llm.parsers` and the class in it: families
that write one form share a module. This module imports no parser, because the help of the command
line needs the names.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

TOOL_PARSERS: Final = MappingProxyType(
    {
        "hermes3": "json_calls:Hermes3ToolParser",
        "llama3": "json_calls:Llama3ToolParser",
        "phi4": "json_calls:Phi4ToolParser",
        "mistral": "mistral_calls:MistralToolParser",
        "devstral": "mistral_calls:DevstralToolParser",
        "qwen3coder": "xml_calls:Qwen3CoderToolParser",
        "gptoss": "harmony:GptOssToolParser",
        "lfm2": "block_calls:Lfm2ToolParser",
        "gemma4": "block_calls:Gemma4ToolParser",
        "onyx": "onyx:OnyxToolParser",
        "minicpm5": "xml_calls:MiniCpm5ToolParser",
    }
)
REASONING_PARSERS: Final = MappingProxyType(
    {
        "qwen3": "between_tags:ThinkParser",
        "gptoss": "harmony:GptOssReasoningParser",
        "lfm2": "between_tags:ThinkParser",
        "gemma4": "between_tags:Gemma4ReasoningParser",
        "onyx": "onyx:OnyxReasoningParser",
        "minicpm5": "between_tags:ThinkParser",
    }
)
