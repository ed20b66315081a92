"""Answers of ``/messages``, whole and as events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.server_secret import signature
from calculators.language.delta import (
    Begun,
    FinishReason,
    TokenLogprob,
    ToolCalled,
    ToolRan,
    Usage,
    Verbose,
)
from calculators.language.events import OutputEvent, Reasoning, Refused
from calculators.llm.answers.blocks import (
    BlockClosed,
    BlockDelta,
    BlockKind,
    BlockOpened,
    Blocks,
    OutputBlock,
    Step,
    blocks_of,
)
from calculators.llm.answers.response import (
    AnswerChoice,
    AnswerDetails,
    answering_model,
    object_json,
    quote,
    verbose_json,
)
from calculators.llm.api.anthropic.citations import CitedBlocks, CitedPassage

_STOP_REASONS: Final = {
    FinishReason.STOP: "end_turn",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.CONTENT_FILTER: "refusal",
}

_DELTAS: Final = {
    BlockKind.REASONING: '"thinking_delta","thinking":',
    BlockKind.CONTENT: '"text_delta","text":',
    BlockKind.CALL: '"input_json_delta","partial_json":',
    BlockKind.SERVER_CALL: '"input_json_delta","partial_json":',
}


class Thinking(Protocol):
    """The part of a request that its answer needs.

    Attributes:
        shows_thinking: the answer shows the reasoning.
        passages: what the answer may cite; () where nothing asks for citations.
    """

    @property
    def model(self) -> str: ...

    @property
    def shows_thinking(self) -> bool: ...

    @property
    def passages(self) -> Sequence[CitedPassage]: ...


class MessagesAnswerWriter:
    """An `AnswerWriter` of one message.

    The input of a call is streamed as the model writes it. In a whole answer it must be an object.
    Arguments that are not an object, because the model stopped early or wrote something else,
    become ``{"INVALID_JSON": text}``, the form in which Anthropic's clients show such arguments to
    the model. No tool accepts that object, and nothing is lost; an empty object would look like a
    call without arguments.
    """

    __slots__ = (
        "_blocks",
        "_ending",
        "_head",
        "_refused",
        "_shows_thinking",
        "details",
        "verbose",
        "wants_logprobs",
    )

    def __init__(
        self, request: Thinking, verbose: Verbose | None = None, *, message_id: str
    ) -> None:
        """``message_id``: the value of ``id``, ``msg_...``."""
        self.wants_logprobs = False
        self.details: AnswerDetails | None = None
        self._head = (
            f'{{"id":"{message_id}","type":"message","role":"assistant"'
            f',"model":{quote(request.model)}'
        )
        self._shows_thinking = request.shows_thinking
        self.verbose = verbose
        self._refused: Refused | None = None
        self._blocks = CitedBlocks(request.passages) if request.passages else Blocks()
        self._ending = _ending(None, None)

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        choice = choices[0]
        blocks = [
            _whole_block(block)
            for block in blocks_of(choice, self._blocks)
            if self._shows_thinking or block.kind is not BlockKind.REASONING
        ]
        ending = _ending(choice.finish_reason, choice.stop_string, choice.refusal)
        verbose = verbose_json(self.verbose)
        content = ",".join(blocks)
        return f'{self._head},"content":[{content}],{ending},"usage":{_usage(usage)}{verbose}}}'

    def start(self, usage: Usage) -> str:
        message = f'{self._head},"content":[],{self._ending},"usage":{_usage(usage)}}}'
        return _event("message_start", f'"message":{message}')

    def begin(self, index: int) -> str:
        return ""

    def more(
        self, index: int, events: Sequence[OutputEvent], logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        if not self._shows_thinking:
            events = [event for event in events if not isinstance(event, Reasoning)]
        return "".join([_written(step) for event in events for step in self._blocks.add(event)])

    def tool(self, item: ToolCalled | ToolRan) -> str:
        if isinstance(item, ToolCalled):
            steps, block = self._blocks.call_server(item)
            arguments = json.dumps(json.loads(object_json(block.text)), ensure_ascii=False)
            more: tuple[Step, ...] = (BlockDelta(block, arguments),)
        else:
            steps, block = self._blocks.beside(BlockKind.SERVER_RESULT)
            block.ran = item
            more = ()
        return "".join(map(_written, [*steps, BlockOpened(block), *more, BlockClosed(block)]))

    def speak(self, index: int, pcm: bytes) -> str:
        return ""

    def refuse(self, index: int, refused: Refused) -> str:
        """Keep the refusal for the event of `end`."""
        self._refused = refused
        return ""

    def finish(self, index: int, reason: FinishReason, stop_string: str | None = None) -> str:
        """Close the open block; the reason goes into the event of `end`."""
        self._ending = _ending(reason, stop_string, self._refused)
        return "".join(map(_written, self._blocks.finish()))

    def end(self, usage: Usage) -> str:
        verbose = verbose_json(self.verbose)
        members = f'"delta":{{{self._ending}}},"usage":{_usage(usage)}{verbose}'
        return _event("message_delta", members) + _event("message_stop")

    def failure(self, error: RequestError) -> str:
        return ""  # the front knows the form, and the request's id


def _written(step: Step) -> str:
    match step:
        case BlockDelta(block, text):
            return _event(
                "content_block_delta",
                f'"index":{block.index},"delta":{{"type":{_DELTAS[block.kind]}{quote(text)}}}',
            )
        case BlockOpened(block):
            started = _block(block, "", "{}")
            return _event("content_block_start", f'"index":{block.index},"content_block":{started}')
        case BlockClosed(block):
            stop = _event("content_block_stop", f'"index":{block.index}')
            for citation in reversed(block.citations):
                delta = f'{{"type":"citations_delta","citation":{citation}}}'
                stop = (
                    _event("content_block_delta", f'"index":{block.index},"delta":{delta}') + stop
                )
            if block.kind is not BlockKind.REASONING:
                return stop
            delta = f'{{"type":"signature_delta","signature":"{_signature(block.text)}"}}'
            return _event("content_block_delta", f'"index":{block.index},"delta":{delta}') + stop


def _signature(thoughts: str) -> str:
    """Return the signature of a block, or "" for an empty one, which a stream begins with.

    Nothing here reads it, but some clients send only signed thoughts back as the model's: without
    a signature Pydantic AI makes them the user's.
    """
    return signature(thoughts.encode("utf-8", "surrogatepass")).hex() if thoughts else ""


def _event(kind: str, members: str = "") -> str:
    return f'event: {kind}\ndata: {{"type":"{kind}"{"," if members else ""}{members}}}\n\n'


def _whole_block(block: OutputBlock) -> str:
    text = block.text
    is_call = block.kind in (BlockKind.CALL, BlockKind.SERVER_CALL)
    return _block(block, text, object_json(text) if is_call else "")


def _block(block: OutputBlock, text: str, call_input: str) -> str:
    match block.kind:
        case BlockKind.REASONING:
            signed = _signature(text)
            return f'{{"type":"thinking","thinking":{quote(text)},"signature":"{signed}"}}'
        case BlockKind.CONTENT | BlockKind.REFUSAL:
            if not block.citations:
                return f'{{"type":"text","text":{quote(text)}}}'
            # A stream begins with none, and adds one after the other.
            cited = ",".join(block.citations) if text else ""
            return f'{{"type":"text","text":{quote(text)},"citations":[{cited}]}}'
        case BlockKind.CALL:
            return (
                f'{{"type":"tool_use","id":{quote(block.call_id)},"name":{quote(block.name)}'
                f',"input":{call_input}}}'
            )
        case BlockKind.SERVER_CALL:
            return (
                f'{{"type":"mcp_tool_use","id":{quote(block.call_id)},"name":{quote(block.name)}'
                f',"server_name":{quote(block.server)},"input":{call_input}}}'
            )
        case _:
            assert block.ran is not None
            is_error = block.ran.error is not None
            text = block.ran.output if block.ran.error is None else block.ran.error
            return (
                f'{{"type":"mcp_tool_result","tool_use_id":{quote(block.ran.call_id)}'
                f',"is_error":{"true" if is_error else "false"}'
                f',"content":[{{"type":"text","text":{quote(text)}}}]}}'
            )


def _ending(
    reason: FinishReason | None, stop_string: str | None, refused: Refused | None = None
) -> str:
    """Return the members about the end of an answer."""
    if reason is None:
        return '"stop_reason":null,"stop_sequence":null'
    if reason is FinishReason.STOP and stop_string is not None:
        return f'"stop_reason":"stop_sequence","stop_sequence":{quote(stop_string)}'
    ending = f'"stop_reason":"{_STOP_REASONS[reason]}","stop_sequence":null'
    if refused is None or reason is not FinishReason.CONTENT_FILTER:
        return ending
    category = "null" if refused.category is None else quote(refused.category)
    return (
        f'{ending},"stop_details":{{"type":"refusal","category":{category}'
        f',"explanation":{quote(refused.text)}}}'
    )


def _usage(usage: Usage) -> str:
    """Return the object of the member ``usage``; cached tokens are counted apart."""
    cached = usage.cached_tokens or 0
    return (
        f'{{"input_tokens":{usage.prompt_tokens - cached},"cache_creation_input_tokens":0'
        f',"cache_read_input_tokens":{cached},"output_tokens":{usage.completion_tokens}}}'
    )


class _AskedMessage(NamedTuple):
    model: str
    shows_thinking: bool
    passages: Sequence[CitedPassage]


def messages_writer(begun: Begun) -> MessagesAnswerWriter:
    """Return the writer of an answer that begins."""
    request = begun.request
    passages = [each for each in request.sources if isinstance(each, CitedPassage)]
    asked = _AskedMessage(answering_model(begun), request.shows_thinking, passages)
    return MessagesAnswerWriter(asked, message_id=request.id)
