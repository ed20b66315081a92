"""The limits of calls, and the cutting of longer texts."""

from __future__ import annotations

from typing import Final

from calculators.language.server_tools.messages import plain

#: Bytes of one message of a server, and of what a function prints: more ends the call.
MAX_MESSAGE: Final = 1024 * 1024
#: Characters of an error that the model gets.
MAX_ERROR: Final = 1000
#: Calls that an MCP server has at a time; further ones wait.
MAX_AT_ONCE: Final = 16
#: Tools that an MCP server may list.
MAX_TOOLS: Final = 512
#: Seconds after a call's limit in which its MCP server must show that it still answers.
ANSWER_SECONDS: Final = 5.0


def cut_output(text: str, limit: int) -> str:
    """The text, or its first ``limit`` bytes of UTF-8 that are whole characters, with a mark."""
    # A character has at least one byte, so no more of a gigabyte is encoded than is needed.
    encoded = text[: limit + 1].encode("utf-8", "replace")
    if len(encoded) <= limit:
        return plain(text)
    kept = encoded[:limit].decode("utf-8", "ignore")
    return f"{kept}\n[cut: the result is longer than {limit} bytes]"


def cut_error(text: str) -> str:
    """An error's text, in one piece that a model can read; never empty."""
    text = plain(text[: MAX_ERROR + 1]).strip() or "the tool failed without a reason"
    return text if len(text) <= MAX_ERROR else f"{text[:MAX_ERROR]}..."
