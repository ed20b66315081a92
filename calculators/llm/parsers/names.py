"""The names of our own output parsers, in the order of the documentation.

Each is a module of `calculators.llm.parsers.tool` or `calculators.llm.parsers.reasoning`. Imports
nothing: the help of the command line lists the names without loading a parser.
"""

from __future__ import annotations

from typing import Final

TOOL_PARSERS: Final = (
    "hermes3",
    "llama3",
    "phi4",
    "mistral",
    "devstral",
    "qwen3coder",
    "gptoss",
    "lfm2",
    "gemma4",
    "onyx",
    "minicpm5",
)
REASONING_PARSERS: Final = ("qwen3", "gptoss", "lfm2", "gemma4", "onyx", "minicpm5")
