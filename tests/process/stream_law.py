"""The law of streams of OpenAI endpoints, and a reader that checks it.

In this order: per choice first a role (chat only), then content, then exactly one finish reason;
then the usage if it was requested; then ``[DONE]``. Or, from any point on, one error and then
``[DONE]``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

DONE: Final = "[DONE]"
FINISH_REASONS: Final = frozenset({"stop", "length", "tool_calls", "content_filter"})


@dataclass
class StreamedChoice:
    """The sum of the events of one choice."""

    text: str = ""
    pieces: list[str] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    finish_reasons: list[str] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)


@dataclass
class Streamed:
    """The content of a lawful stream."""

    choices: dict[int, StreamedChoice]
    usage: dict[str, int] | None
    error: dict[str, Any] | None
    chunks: list[dict[str, Any]]

    @property
    def text(self) -> str:
        """Return the text of the only choice."""
        (choice,) = self.choices.values()
        return choice.text

    @property
    def finish_reason(self) -> str:
        """Return the finish reason of the only choice."""
        (choice,) = self.choices.values()
        return choice.finish_reasons[0]


def read_stream(body: bytes, *, choices: int = 1, usage: bool = False) -> Streamed:
    """Check a whole stream; ``choices`` and ``usage`` are those of the request.

    Raises:
        AssertionError: the stream breaks the law.
    """
    *events, last = events_of(body)
    assert last == DONE
    assert DONE not in events
    chunks = [json.loads(event) for event in events]
    error = chunks.pop()["error"] if "error" in chunks[-1] else None
    assert not any("error" in chunk for chunk in chunks), "an error is the last event but [DONE]"
    if error is not None:
        assert set(error) == {"message", "type", "param", "code"}
    _check_heads(chunks)
    told = _usage_of(chunks)
    read = _choices_of(chunks if told is None else chunks[:-1], is_whole=error is None)
    if error is None:
        assert (told is not None) == usage
        assert sorted(read) == list(range(choices))
    return Streamed(read, told, error, chunks)


def events_of(body: bytes) -> list[str]:
    """Return the data of each event (a line ``data: `` and an empty line), without comments."""
    text = body.decode()
    assert text.endswith("\n\n")
    events = [block for block in text[:-2].split("\n\n") if not block.startswith(":")]
    for event in events:
        assert event.startswith("data: ")
        assert "\n" not in event
    return [event.removeprefix("data: ") for event in events]


def _check_heads(chunks: list[dict[str, Any]]) -> None:
    """Check that every chunk has the head of the first one."""
    heads = {
        tuple(chunk[name] for name in ("id", "object", "created", "model")) for chunk in chunks
    }
    assert len(heads) <= 1
    for identity, kind, created, model in heads:
        prefix = {"chat.completion.chunk": "chatcmpl-", "text_completion": "cmpl-"}[kind]
        assert identity.startswith(prefix)
        assert type(created) is int
        assert model


def _usage_of(chunks: list[dict[str, Any]]) -> dict[str, int] | None:
    """Return the usage, which is in one last chunk without choices."""
    told = [chunk for chunk in chunks if not chunk["choices"]]
    assert told in ([], chunks[-1:])
    for chunk in chunks[:-1]:
        assert chunk.get("usage") is None
    if not told:
        return None
    usage: dict[str, int] = told[0]["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    return usage


def _choices_of(chunks: list[dict[str, Any]], *, is_whole: bool) -> dict[int, StreamedChoice]:
    read: dict[int, StreamedChoice] = {}
    for chunk in chunks:
        (choice,) = chunk["choices"]
        so_far = read.setdefault(choice["index"], StreamedChoice())
        assert not so_far.finish_reasons, "nothing comes after a finish reason"
        is_chat = chunk["object"] == "chat.completion.chunk"
        if is_chat:
            _take_delta(so_far, choice["delta"])
        piece = choice["delta"].get("content", "") if is_chat else choice["text"]
        if piece:
            so_far.pieces.append(piece)
            so_far.text += piece
        if choice["logprobs"] is not None:
            so_far.logprobs.append(choice["logprobs"])
        if choice["finish_reason"] is not None:
            so_far.finish_reasons.append(choice["finish_reason"])
    for so_far in read.values():
        assert set(so_far.finish_reasons) <= FINISH_REASONS
        assert len(so_far.finish_reasons) == 1 or not is_whole
    return read


def _take_delta(so_far: StreamedChoice, delta: dict[str, Any]) -> None:
    """Check that the role is in the choice's first chunk, and only there."""
    # A sampled text may contain the tags of reasoning.
    assert set(delta) <= {"role", "content", "reasoning_content"}
    assert ("role" in delta) == (not so_far.roles)
    if "role" in delta:
        assert delta["role"] == "assistant"
        so_far.roles.append(delta["role"])
