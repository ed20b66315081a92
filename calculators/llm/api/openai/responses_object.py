"""The object of a response and its items, as JSON: the body of an answer, and part of some events.

Each block of the answer is one `ResponseItem`. A text's numbers that name passages become
annotations, and reasoning can be sealed: an opaque text by which a client without stored responses
gives it back (`seal`, `opened`).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
import time
import uuid
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from calculators.kit.requests.http_payload import RequestError, stem_of
from calculators.kit.requests.server_secret import SIGNATURE_BYTES, signature
from calculators.language.delta import FinishReason, TokenLogprob, Usage, Verbose
from calculators.language.generation_request import Source
from calculators.llm.answers.blocks import BlockKind, OutputBlock
from calculators.llm.answers.response import logprob_items_json, quote, verbose_json
from calculators.llm.requests.client_tools import (
    NO_FORMS,
    CallKind,
    ClientCallForm,
    arguments_object,
    custom_input,
)
from graph_runtime import Code

_MARK: Final = "grt1."
#: More than any reasoning: a text that claims more is not unpacked.
_MOST_BYTES: Final = 16 << 20


def seal(text: str) -> str:
    """Return the opaque text of reasoning."""
    packed = zlib.compress(text.encode())
    return _MARK + base64.urlsafe_b64encode(signature(packed) + packed).decode()


def opened(sealed: str) -> str | None:
    """Return the reasoning of an opaque text; None: it is not of this server, or is changed."""
    if not sealed.startswith(_MARK):
        return None
    try:
        content = base64.b64decode(sealed[len(_MARK) :], altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    tag, packed = content[:SIGNATURE_BYTES], content[SIGNATURE_BYTES:]
    if not hmac.compare_digest(tag, signature(packed)):
        return None
    return zlib.decompressobj().decompress(packed, _MOST_BYTES).decode()


#: ``[1]`` and ``[1, 3]``.
_MARKS: Final = re.compile(r"\[(\d{1,4}(?:\s?,\s?\d{1,4})*)\]")


def citations(text: str, sources: Sequence[Source]) -> list[str]:
    """Return an annotation as JSON for each number in brackets that is the mark of a source.

    ``index`` is the character of the text at which the bracket stands, as OpenAI's own answers
    have it.
    """
    by_mark = {source.mark: source for source in sources}
    if not by_mark:
        return []
    return [
        f'{{"type":"file_citation","file_id":{quote(source.id or source.name)}'
        f',"filename":{quote(source.name)},"index":{match.start()}}}'
        for match in _MARKS.finditer(text)
        for mark in match[1].split(",")
        if (source := by_mark.get(int(mark))) is not None
    ]


_encode: Final = msgspec.json.Encoder().encode

Status = Literal["in_progress", "completed", "incomplete"]

_PREFIXES: Final = {
    BlockKind.REASONING: "rs",
    BlockKind.CONTENT: "msg",
    BlockKind.CALL: "fc",
    BlockKind.REFUSAL: "msg",
    BlockKind.SERVER_CALL: "mcp",
    BlockKind.SERVER_TOOLS: "mcpl",
}
_CALL_PREFIXES: Final[Mapping[CallKind, str]] = {
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "local_shell_call": "lsh",
    "shell_call": "sh",
    "apply_patch_call": "apc",
    "tool_search_call": "tsc",
}


def new_id(prefix: str) -> str:
    """Return an id of 128 random bits, ``msg_...``."""
    return f"{prefix}_{uuid.uuid4().hex}"


class ItemIds:
    """Makes the ids of a response's items, which have its `stem_of` and their number."""

    __slots__ = ("_number", "_stem")

    def __init__(self, response_id: str) -> None:
        self._stem = stem_of(response_id) or uuid.uuid4().hex[:24]
        self._number = 0

    def new(self, prefix: str) -> str:
        """Return an id, ``msg_...``."""
        self._number += 1
        return f"{prefix}_{self._stem}{self._number:016x}"


class ResponseItem:
    """A block with its id."""

    __slots__ = ("block", "form", "id", "is_sealed", "logprobs", "sound", "sources", "tools")

    def __init__(
        self,
        block: OutputBlock,
        ids: ItemIds,
        sources: Sequence[Source] = (),
        forms: Mapping[str, ClientCallForm] = NO_FORMS,
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
        self.form = forms.get(block.name) or ClientCallForm("function_call", block.name)
        is_call = block.kind is BlockKind.CALL
        self.id = ids.new(_CALL_PREFIXES[self.form.kind] if is_call else _PREFIXES[block.kind])
        #: Log-probabilities of the tokens of a text, if the request asks for them.
        self.logprobs: list[TokenLogprob] = []
        #: The part with the sound of a text, or "", and whether it replaces the text's own part.
        self.sound: tuple[str, bool] = "", False
        #: The tools that a server offers.
        self.tools: Sequence[Mapping[str, Any]] = ()

    def json(self, status: Status) -> str:
        """Return the item as it is now; one in progress without its text.

        Reasoning has no status, because clients that gather a stream keep the first one they see.
        """
        text = "" if status == "in_progress" else self.block.text
        head = f'{{"id":"{self.id}"'
        if self.block.kind is BlockKind.SERVER_TOOLS:
            tools = [] if status == "in_progress" else [*map(_listed_tool, self.tools)]
            return (
                f'{head},"type":"mcp_list_tools","server_label":{quote(self.block.server)}'
                f',"tools":{_encode(tools).decode()},"error":null}}'
            )
        if self.block.kind is BlockKind.SERVER_CALL:
            return f"{head}{self._server_call(status)}}}"
        if self.block.kind is not BlockKind.REASONING:
            head += f',"status":"{status}"'
        match self.block.kind:
            case BlockKind.REASONING:
                if status == "in_progress":
                    return f'{head},"type":"reasoning","summary":[]}}'
                sealed = f',"encrypted_content":{quote(seal(text))}' if self.is_sealed else ""
                return f'{head},"type":"reasoning","summary":[{summary_part(text)}]{sealed}}}'
            case BlockKind.CONTENT:
                parts = "" if status == "in_progress" else self._parts()
                return f'{head},"type":"message","role":"assistant","content":[{parts}]}}'
            case BlockKind.REFUSAL:
                parts = "" if status == "in_progress" else refusal_part(text)
                return f'{head},"type":"message","role":"assistant","content":[{parts}]}}'
            case BlockKind.CALL:
                return f"{head}{self._call(text)}}}"
            case kind:
                raise AssertionError(f"{kind} is no item")

    def text_part(self) -> str:
        """Return the one part of a message that is complete."""
        text = self.block.text
        return text_part(text, self.logprobs, citations(text, self.sources))

    def _parts(self) -> str:
        sound, is_alone = self.sound
        if not sound:
            return self.text_part()
        return sound if is_alone else f"{self.text_part()},{sound}"

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
            case "tool_search_call":
                given = _json(arguments_object(arguments))
                return f'{head},"execution":"client","arguments":{given}'
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


def audio_part(data: str, transcript: str) -> str:
    """Return the part of a message with its sound, in Base64."""
    return f'{{"type":"output_audio","data":"{data}","transcript":{quote(transcript)}}}'


def text_part(
    text: str, logprobs: Sequence[TokenLogprob] = (), annotations: Sequence[str] = ()
) -> str:
    """Return the one part of a message; ``annotations`` as JSON."""
    return (
        f'{{"type":"output_text","text":{quote(text)},"annotations":[{",".join(annotations)}]'
        f',"logprobs":[{logprob_items_json(logprobs)}]}}'
    )


# Calls of tools that are not functions ------------------------------------------------------------


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


ResponseStatus = Literal["in_progress", "completed", "incomplete", "failed"]

_INCOMPLETE: Final = {
    FinishReason.LENGTH: "max_output_tokens",
    FinishReason.CONTENT_FILTER: "content_filter",
}
#: OpenAI knows few codes, and clients know no other; the rest are faults of the server.
_ERROR_CODES: Final = {
    Code.INVALID_ARGUMENT: "invalid_prompt",
    Code.OUT_OF_RANGE: "invalid_prompt",
    Code.RESOURCE_EXHAUSTED: "rate_limit_exceeded",
}


class ResponsesObject:
    """The object of one response; its constant members are written once."""

    __slots__ = ("_head", "_rest", "ids", "verbose")

    def __init__(
        self,
        model: str,
        echo: Mapping[str, Any],
        *,
        response_id: str = "",
        created: int | None = None,
    ) -> None:
        """Make the object of a response.

        Args:
            echo: the members of the request that the answer repeats.
            response_id: a new one if it is "".
            created: seconds since 1970; None is now.
        """
        created = int(time.time()) if created is None else created
        response_id = response_id or new_id("resp")
        self.ids: Final = ItemIds(response_id)
        self._head = (
            f'"id":"{response_id}","object":"response","created_at":{created}'
            f',"model":{quote(model)}'
        )
        #: The members that repeat the request's, each with a comma before it.
        self._rest = "".join(
            f",{quote(name)}:{json.dumps(value, separators=(',', ':'))}"
            for name, value in echo.items()
        )
        #: See `AnswerWriter`.
        self.verbose: Verbose | None = None

    def started(self) -> str:
        """Return the object before anything is generated."""
        return self._json("in_progress", ())

    def ended(self, items: Sequence[str], reason: FinishReason, usage: Usage) -> str:
        """Return the object at the end of the answer; ``items`` as JSON."""
        why = _INCOMPLETE.get(reason)
        status: ResponseStatus = "completed" if why is None else "incomplete"
        return self._json(status, items, why=why, usage=usage)

    def failed(self, items: Sequence[str], error: RequestError) -> str:
        """Return the object after an error; ``items`` as JSON."""
        code = _ERROR_CODES.get(error.code, "server_error")
        text = f'{{"code":"{code}","message":{quote(error.message)}}}'
        return self._json("failed", items, error=text)

    def _json(
        self,
        status: ResponseStatus,
        items: Sequence[str],
        *,
        why: str | None = None,
        error: str = "null",
        usage: Usage | None = None,
    ) -> str:
        completed = int(time.time()) if status == "completed" else "null"
        details = "null" if why is None else f'{{"reason":"{why}"}}'
        verbose = verbose_json(self.verbose) if usage is not None else ""
        return (
            f'{{{self._head},"status":"{status}","completed_at":{completed},"error":{error}'
            f',"incomplete_details":{details}{self._rest},"output":[{",".join(items)}]'
            f',"usage":{response_usage_json(usage)}{verbose}}}'
        )


def response_usage_json(usage: Usage | None) -> str:
    """Return the member ``usage``; null before the answer is complete."""
    if usage is None:
        return "null"
    heard, spoken = (
        "" if count is None else f',"audio_tokens":{count}'
        for count in (usage.heard_tokens, usage.spoken_tokens)
    )
    return (
        f'{{"input_tokens":{usage.prompt_tokens}'
        f',"input_tokens_details":{{"cached_tokens":{usage.cached_tokens or 0}'
        f',"cache_write_tokens":0{heard}}},"output_tokens":{usage.completion_tokens}'
        f',"output_tokens_details":{{"reasoning_tokens":{usage.reasoning_tokens or 0}{spoken}}}'
        f',"total_tokens":{usage.prompt_tokens + usage.completion_tokens}}}'
    )
