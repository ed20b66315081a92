"""The names of graphrt's output parsers, in the order of the documentation.

Each is a module of `calculators.llm.parsers.tool` or `calculators.llm.parsers.reasoning`, and is
listed here only. This module imports no parser: the help of the command line needs the names.
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
