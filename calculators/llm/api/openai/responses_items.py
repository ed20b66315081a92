"""The items of a response as JSON, one for each block."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from calculators.language.generation_request import Source
from calculators.language.token_logprob import TokenLogprob
from calculators.llm.answers.blocks import Block, Kind
from calculators.llm.answers.json_text import quote
from calculators.llm.answers.token_logprob import logprob_items_json
from calculators.llm.api.openai.citations import citations

_encode: Final = msgspec.json.Encoder().encode

Status = Literal["in_progress", "completed", "incomplete"]

_PREFIXES: Final = {
    Kind.REASONING: "rs",
    Kind.CONTENT: "msg",
    Kind.CALL: "fc",
    Kind.REFUSAL: "msg",
    Kind.SERVER_CALL: "mcp",
    Kind.SERVER_TOOLS: "mcpl",
}


def new_id(prefix: str) -> str:
    """Return an id of 128 random bits, ``msg_...``."""
    return f"{prefix}_{uuid.uuid4().hex}"


class Item:
    """A block with its id."""

    __slots__ = ("block", "id", "logprobs", "sources", "tools")

    def __init__(self, block: Block, sources: Sequence[Source] = ()) -> None:
        """``sources``: the passages that a text may cite."""
        self.block = block
        self.sources = sources
        self.id = new_id(_PREFIXES[block.kind])
        #: Log-probabilities of the tokens of a text, if the request asks for them.
        self.logprobs: list[TokenLogprob] = []
        #: The tools that a server offers.
        self.tools: Sequence[Mapping[str, Any]] = ()

    def json(self, status: Status) -> str:
        """Return the item as it is now; one in progress without its text.

        Reasoning has no status, because clients that gather a stream keep the first one they see.
        """
        text = "" if status == "in_progress" else self.block.text
        head = f'{{"id":"{self.id}"'
        if self.block.kind is Kind.SERVER_TOOLS:
            tools = [] if status == "in_progress" else [*map(_listed_tool, self.tools)]
            return (
                f'{head},"type":"mcp_list_tools","server_label":{quote(self.block.server)}'
                f',"tools":{_encode(tools).decode()},"error":null}}'
            )
        if self.block.kind is Kind.SERVER_CALL:
            return f"{head}{self._server_call(status)}}}"
        if self.block.kind is not Kind.REASONING:
            head += f',"status":"{status}"'
        match self.block.kind:
            case Kind.REASONING:
                parts = "" if status == "in_progress" else summary_part(text)
                return f'{head},"type":"reasoning","summary":[{parts}]}}'
            case Kind.CONTENT:
                parts = "" if status == "in_progress" else self.text_part()
                return f'{head},"type":"message","role":"assistant","content":[{parts}]}}'
            case Kind.REFUSAL:
                parts = "" if status == "in_progress" else refusal_part(text)
                return f'{head},"type":"message","role":"assistant","content":[{parts}]}}'
            case Kind.CALL:
                return (
                    f'{head},"type":"function_call","call_id":{quote(self.block.call_id)}'
                    f',"name":{quote(self.block.name)},"arguments":{quote(text)}}}'
                )
            case kind:
                raise AssertionError(f"{kind} is no item")

    def text_part(self) -> str:
        """Return the one part of a message that is complete."""
        text = self.block.text
        return text_part(text, self.logprobs, citations(text, self.sources))

    def _server_call(self, status: Status) -> str:
        """Return the members of a call that this server runs; its result says how it ended."""
        ran = self.block.ran
        text = "" if status == "in_progress" else self.block.text
        output, error = ("null", "null")
        word: str = status if ran is None else "completed"
        if ran is not None and ran.error is None:
            output = quote(ran.output)
        elif ran is not None and ran.error is not None:
            error, word = quote(ran.error), "failed"
        return (
            f',"type":"mcp_call","status":"{word}","server_label":{quote(self.block.server)}'
            f',"name":{quote(self.block.name)},"arguments":{quote(text)},"output":{output}'
            f',"error":{error},"approval_request_id":null'
        )


def _listed_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": tool["name"],
        "description": tool["description"],
        "input_schema": tool["parameters"],
        "annotations": None,
    }


def summary_part(text: str) -> str:
    """Return the one part of reasoning."""
    return f'{{"type":"summary_text","text":{quote(text)}}}'


def refusal_part(text: str) -> str:
    """Return the one part of a refusal."""
    return f'{{"type":"refusal","refusal":{quote(text)}}}'


def text_part(
    text: str, logprobs: Sequence[TokenLogprob] = (), annotations: Sequence[str] = ()
) -> str:
    """Return the one part of a message; ``annotations`` as JSON."""
    return (
        f'{{"type":"output_text","text":{quote(text)},"annotations":[{",".join(annotations)}]'
        f',"logprobs":[{logprob_items_json(logprobs)}]}}'
    )
