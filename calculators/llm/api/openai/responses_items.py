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
from calculators.llm.api.openai.encrypted_reasoning import seal
from calculators.llm.requests.client_tools import (
    NO_FORMS,
    CallForm,
    CallKind,
    arguments_object,
    custom_input,
)

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
_CALL_PREFIXES: Final[Mapping[CallKind, str]] = {
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "local_shell_call": "lsh",
    "shell_call": "sh",
    "apply_patch_call": "apc",
}


def new_id(prefix: str) -> str:
    """Return an id of 128 random bits, ``msg_...``."""
    return f"{prefix}_{uuid.uuid4().hex}"


class Item:
    """A block with its id."""

    __slots__ = ("block", "form", "id", "is_sealed", "logprobs", "sources", "tools")

    def __init__(
        self,
        block: Block,
        sources: Sequence[Source] = (),
        forms: Mapping[str, CallForm] = NO_FORMS,
        *,
        is_sealed: bool = False,
    ) -> None:
        """Make the item of a block.

        Args:
            sources: the passages that a text may cite.
            forms: the forms of calls that are not plain, by the names that the model knows.
            is_sealed: reasoning has an opaque text with it, for clients that store nothing here.
        """
        self.block = block
        self.sources = sources
        self.is_sealed = is_sealed
        self.form = forms.get(block.name) or CallForm("function_call", block.name)
        is_call = block.kind is Kind.CALL
        self.id = new_id(_CALL_PREFIXES[self.form.kind] if is_call else _PREFIXES[block.kind])
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
                if status == "in_progress":
                    return f'{head},"type":"reasoning","summary":[]}}'
                sealed = f',"encrypted_content":{quote(seal(text))}' if self.is_sealed else ""
                return f'{head},"type":"reasoning","summary":[{summary_part(text)}]{sealed}}}'
            case Kind.CONTENT:
                parts = "" if status == "in_progress" else self.text_part()
                return f'{head},"type":"message","role":"assistant","content":[{parts}]}}'
            case Kind.REFUSAL:
                parts = "" if status == "in_progress" else refusal_part(text)
                return f'{head},"type":"message","role":"assistant","content":[{parts}]}}'
            case Kind.CALL:
                return f"{head}{self._call(text)}}}"
            case kind:
                raise AssertionError(f"{kind} is no item")

    def text_part(self) -> str:
        """Return the one part of a message that is complete."""
        text = self.block.text
        return text_part(text, self.logprobs, citations(text, self.sources))

    def _call(self, arguments: str) -> str:
        """Return the members of a call that the client runs."""
        form = self.form
        head = f',"type":"{form.kind}","call_id":{quote(self.block.call_id)}'
        if form.namespace:
            head += f',"namespace":{quote(form.namespace)}'
        match form.kind:
            case "function_call":
                return f'{head},"name":{quote(form.name)},"arguments":{quote(arguments)}'
            case "custom_tool_call":
                return f'{head},"name":{quote(form.name)},"input":{quote(custom_input(arguments))}'
            case "apply_patch_call":
                return f'{head},"operation":{_json(_operation(arguments_object(arguments)))}'
            case "shell_call":
                return f'{head},"action":{_json(_shell_action(arguments_object(arguments)))}'
            case "local_shell_call":
                return f'{head},"action":{_json(_local_action(arguments_object(arguments)))}'

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


# Calls of tools that are no functions -------------------------------------------------------------


def _texts(value: object) -> list[str]:
    """Return a list of texts out of what a model may write for one."""
    if isinstance(value, str):
        return [value]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _local_action(given: Mapping[str, Any]) -> dict[str, Any]:
    env = given.get("env")
    pairs = env.items() if isinstance(env, dict) else ()
    return {
        "type": "exec",
        "command": _texts(given.get("command")),
        "env": {name: value for name, value in pairs if isinstance(value, str)},
        "timeout_ms": _number(given.get("timeout_ms")),
        "user": _text_or_none(given.get("user")),
        "working_directory": _text_or_none(given.get("working_directory")),
    }


def _shell_action(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "commands": _texts(given.get("commands")),
        "timeout_ms": _number(given.get("timeout_ms")),
        "max_output_length": _number(given.get("max_output_length")),
    }


def _operation(given: Mapping[str, Any]) -> dict[str, Any]:
    made = {"type": str(given.get("type", "update_file")), "path": str(given.get("path", ""))}
    if made["type"] != "delete_file":
        made["diff"] = str(given.get("diff", ""))
    return made


def _json(value: Mapping[str, Any]) -> str:
    return _encode(value).decode()
