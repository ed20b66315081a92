"""Answers of ``/responses``, whole and as events.

The order of events is OpenAI's. Their numbers begin at 0 and go up by one. Reasoning is written as
its summary, which is where OpenVINO Model Server writes it and clients look for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from calculators.kit.requests.http_payload import RequestError
from calculators.language.delta import (
    Begun,
    FinishReason,
    TokenLogprob,
    ToolCalled,
    ToolRan,
    Usage,
    Verbose,
)
from calculators.language.events import Content, OutputEvent, Refused
from calculators.language.generation_request import Source, Speech, ToolServer
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
    DONE,
    AnswerChoice,
    AnswerDetails,
    SpokenBase64,
    answering_model,
    logprob_items_json,
    quote,
)
from calculators.llm.api.openai.responses_object import (
    ResponseItem,
    ResponsesObject,
    audio_part,
    citations,
    new_id,
    refusal_part,
    response_usage_json,
    seal,
    summary_part,
    text_part,
)
from calculators.llm.api.openai.responses_request import COMPACTION
from calculators.llm.requests.client_tools import NO_FORMS, CustomInput, call_forms, custom_input
from calculators.llm.requests.sampling import SEALED_REASONING


class Echoed(Protocol):
    """The part of a request that its answer needs.

    Attributes:
        echo: the members that the answer repeats, as JSON values.
    """

    @property
    def model(self) -> str: ...

    @property
    def logprobs(self) -> bool: ...

    @property
    def echo(self) -> Mapping[str, Any]: ...


class ResponsesAnswerWriter:
    """An `AnswerWriter` of one response; it has one choice.

    Items are in the order in which the model wrote them, in the events and in the object at the
    end. An empty answer has an empty message.
    """

    __slots__ = (
        "_blocks",
        "_calls",
        "_custom",
        "_done",
        "_forms",
        "_is_sealed",
        "_item",
        "_logprobs",
        "_object",
        "_reason",
        "_sequence",
        "_servers",
        "_sound",
        "_sources",
        "_speech",
        "details",
        "wants_logprobs",
    )

    def __init__(
        self,
        request: Echoed,
        verbose: Verbose | None = None,
        *,
        response_id: str = "",
        created: int | None = None,
        servers: Sequence[ToolServer] = (),
        sources: Sequence[Source] = (),
        seals_reasoning: bool = False,
        speech: Speech | None = None,
    ) -> None:
        """Make the writer.

        Args:
            response_id, created: see `ResponsesObject`.
            servers: those whose tools the answer lists.
            sources: passages that the text may cite.
            seals_reasoning: reasoning has the opaque text that a client may send back.
            speech: the sound that the client asks for.
        """
        tools: Sequence[Mapping[str, Any]] = request.echo.get("tools", ())
        self._forms = call_forms(tools) if tools else NO_FORMS
        self._is_sealed = seals_reasoning
        #: The text of the custom tool's call that grows.
        self._custom = CustomInput()
        self._sources = sources
        self.wants_logprobs = request.logprobs
        self.details: AnswerDetails | None = None
        self._object = ResponsesObject(
            request.model, request.echo, response_id=response_id, created=created
        )
        self._object.verbose = verbose
        self._blocks = Blocks()
        #: The item that grows, and the complete ones as JSON.
        self._item: ResponseItem | None = None
        self._done: list[str] = []
        #: The calls that this server runs now, by their ids.
        self._calls: dict[str, ResponseItem] = {}
        self._servers = servers
        self._speech = speech
        #: The sound of the message that grows.
        self._sound: SpokenBase64 | None = None
        #: Log-probabilities of tokens whose text has not been sent.
        self._logprobs: list[TokenLogprob] = []
        self._reason = FinishReason.STOP
        self._sequence = 0

    @property
    def verbose(self) -> Verbose | None:
        return self._object.verbose

    @verbose.setter
    def verbose(self, verbose: Verbose | None) -> None:
        self._object.verbose = verbose

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        choice = choices[0]
        listed = [item.json("completed") for item in self._list_tools()]
        blocks = blocks_of(choice)
        items = [self._item_of(each) for each in blocks if each.kind is not BlockKind.SERVER_RESULT]
        if choice.refusal is not None and not items:
            [opened, *_] = Blocks().refuse(choice.refusal.text)
            items.append(ResponseItem(opened.block, self._object.ids))
        elif not items:
            [opened, *_] = Blocks().begin_content()
            items.append(ResponseItem(opened.block, self._object.ids))
        for item in items:
            if item.block.kind is BlockKind.CONTENT:
                item.logprobs = choice.logprobs or []
        if choice.sound is not None:
            self._give_sound(items, choice.sound)
        is_cut = items[-1].block.is_cut(choice.finish_reason)
        written = [item.json("completed") for item in items[:-1]]
        written.append(items[-1].json("incomplete" if is_cut else "completed"))
        return self._object.ended([*listed, *written], choice.finish_reason, usage)

    def _item_of(self, block: OutputBlock) -> ResponseItem:
        ids = self._object.ids
        return ResponseItem(block, ids, self._sources, self._forms, is_sealed=self._is_sealed)

    def start(self, usage: Usage) -> str:
        response = f'"response":{self._object.started()}'
        written = [
            self._event("response.created", response),
            self._event("response.in_progress", response),
        ]
        for item in self._list_tools():
            place = _place(item)
            written += [
                self._open(item),
                self._event("response.mcp_list_tools.in_progress", place),
                self._event("response.mcp_list_tools.completed", place),
                self._close(item, is_cut=False),
            ]
        return "".join(written)

    def _list_tools(self) -> list[ResponseItem]:
        """Return an item for each server that the client named, before all others."""
        items: list[ResponseItem] = []
        for server in self._servers:
            _, block = self._blocks.beside(BlockKind.SERVER_TOOLS)
            block.server = server.label
            items.append(ResponseItem(block, self._object.ids))
            items[-1].tools = server.tools
        return items

    def begin(self, index: int) -> str:
        return ""

    def more(
        self, index: int, events: Sequence[OutputEvent], logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        if logprobs is not None:
            self._logprobs += logprobs
        written = [self._write(step) for event in events for step in self._blocks.add(event)]
        if events and not isinstance(events[-1], Content):
            self._logprobs.clear()  # only tokens of text have a place for them
        return "".join(written)

    def tool(self, item: ToolCalled | ToolRan) -> str:
        if isinstance(item, ToolRan):
            return self._end_call(item)
        steps, block = self._blocks.call_server(item)
        self._calls[item.call_id] = call = ResponseItem(block, self._object.ids)
        place = _place(call)
        return "".join(
            [
                *map(self._write, steps),
                self._open(call),
                self._event("response.mcp_call.in_progress", place),
                self._event(
                    "response.mcp_call_arguments.delta", f'{place},"delta":{quote(block.text)}'
                ),
                self._event(
                    "response.mcp_call_arguments.done", f'{place},"arguments":{quote(block.text)}'
                ),
            ]
        )

    def _end_call(self, ran: ToolRan) -> str:
        call = self._calls.pop(ran.call_id)
        call.block.ran = ran
        word = "completed" if ran.error is None else "failed"
        ended = self._event(f"response.mcp_call.{word}", _place(call))
        return ended + self._close(call, is_cut=False)

    def _give_sound(self, items: Sequence[ResponseItem], sound: SpokenBase64) -> None:
        """Put the sound of an answer into its last message."""
        messages = [item for item in items if item.block.kind is BlockKind.CONTENT]
        if messages and self._speech is not None:
            last = messages[-1]
            part = audio_part(sound.whole(self._speech.format), last.block.text)
            last.sound = part, not self._speech.has_text

    def speak(self, index: int, pcm: bytes) -> str:
        opened = ""
        if self._item is None or self._item.block.kind is not BlockKind.CONTENT:
            opened = "".join(map(self._write, self._blocks.begin_content()))
        assert self._item is not None
        self._sound = self._sound or SpokenBase64()
        return opened + self._more_sound(self._item, self._sound.keep(pcm))

    def _more_sound(self, item: ResponseItem, data: str) -> str:
        more = f'{_place(item)},"content_index":1,"delta":"{data}"'
        return self._event("response.audio.delta", more) if data else ""

    def _end_sound(self, item: ResponseItem) -> str:
        """Return the last events of a message's sound, which becomes a part of the item."""
        sound, self._sound = self._sound, None
        if sound is None:
            return ""
        rest = self._more_sound(item, sound.rest())
        self._give_sound([item], sound)
        return rest + self._event("response.audio.done", f'{_place(item)},"content_index":1')

    def refuse(self, index: int, refused: Refused) -> str:
        if self._has_output:
            return ""
        return "".join(map(self._write, self._blocks.refuse(refused.text)))

    def finish(self, index: int, reason: FinishReason, stop_string: str | None = None) -> str:
        self._reason = reason
        steps: list[Step] = []
        if not self._has_output:
            steps += self._blocks.begin_content()
        steps += self._blocks.finish(
            is_cut=reason.is_cut if self._item is None else self._item.block.is_cut(reason)
        )
        return "".join(map(self._write, steps))

    @property
    def _has_output(self) -> bool:
        return self._blocks.count > len(self._servers)

    def end(self, usage: Usage) -> str:
        kind = "incomplete" if self._reason.is_cut else "completed"
        response = self._object.ended(self._done, self._reason, usage)
        return self._event(f"response.{kind}", f'"response":{response}') + DONE

    def failure(self, error: RequestError) -> str:
        items = self._done
        if self._item is not None:
            items = [*items, self._item.json("incomplete")]
        # Clients expect the first two events before any other.
        start = "" if self._sequence else self.start(Usage(0, 0))
        response = self._object.failed(items, error)
        return start + self._event("response.failed", f'"response":{response}') + DONE

    def _event(self, kind: str, members: str) -> str:
        number = self._sequence
        self._sequence = number + 1
        return f'event: {kind}\ndata: {{"type":"{kind}","sequence_number":{number},{members}}}\n\n'

    def _write(self, step: Step) -> str:
        match step:
            case BlockDelta(block, text):
                assert self._item is not None
                return self._grow(self._item, text)
            case BlockOpened(block):
                self._item = self._item_of(block)
                self._custom = CustomInput()
                return self._open(self._item)
            case BlockClosed(_, is_cut):
                assert self._item is not None
                item, self._item = self._item, None
                ended = self._end_text(item)
                if item.block.kind is BlockKind.CONTENT:
                    ended += self._end_sound(item)
                return ended + self._close(item, is_cut=is_cut)

    def _open(self, item: ResponseItem) -> str:
        added = self._event(
            "response.output_item.added",
            f'"output_index":{item.block.index},"item":{item.json("in_progress")}',
        )
        place = _place(item)
        match item.block.kind:
            case BlockKind.REASONING:
                part = f'{place},"summary_index":0,"part":{summary_part("")}'
                return added + self._event("response.reasoning_summary_part.added", part)
            case BlockKind.CONTENT:
                part = f'{place},"content_index":0,"part":{text_part("")}'
                return added + self._event("response.content_part.added", part)
            case BlockKind.REFUSAL:
                part = f'{place},"content_index":0,"part":{refusal_part("")}'
                return added + self._event("response.content_part.added", part)
            case _:
                return added

    def _grow(self, item: ResponseItem, text: str) -> str:
        more = f'{_place(item)},"delta":{quote(text)}'
        match item.block.kind:
            case BlockKind.REASONING:
                return self._event(
                    "response.reasoning_summary_text.delta", f'{more},"summary_index":0'
                )
            case BlockKind.CONTENT:
                fresh, self._logprobs = self._logprobs, []
                item.logprobs += fresh
                listed = logprob_items_json(fresh)
                return self._event(
                    "response.output_text.delta",
                    f'{more},"content_index":0,"logprobs":[{listed}]',
                )
            case BlockKind.REFUSAL:
                return self._event("response.refusal.delta", f'{more},"content_index":0')
            case _:
                return self._grow_call(item, text)

    def _grow_call(self, item: ResponseItem, text: str) -> str:
        """Return the events of further arguments; actions are written when they are complete."""
        match item.form.kind:
            case "function_call":
                kind = "response.function_call_arguments.delta"
            case "custom_tool_call":
                kind = "response.custom_tool_call_input.delta"
                text = self._custom.add(text)
            case _:
                return ""
        return self._event(kind, f'{_place(item)},"delta":{quote(text)}') if text else ""

    def _end_arguments(self, item: ResponseItem) -> str:
        arguments = item.block.text
        place = _place(item)
        match item.form.kind:
            case "function_call":
                return self._event(
                    "response.function_call_arguments.done",
                    f'{place},"name":{quote(item.form.name)},"arguments":{quote(arguments)}',
                )
            case "custom_tool_call":
                kind = "response.custom_tool_call_input"
                rest = self._custom.end()
                # The numbers of events go up with each that is made.
                last = (
                    self._event(f"{kind}.delta", f'{place},"delta":{quote(rest)}') if rest else ""
                )
                done = f'{place},"input":{quote(custom_input(arguments))}'
                return last + self._event(f"{kind}.done", done)
            case _:
                return ""

    def _end_text(self, item: ResponseItem) -> str:
        text = item.block.text
        place = _place(item)
        match item.block.kind:
            case BlockKind.REASONING:
                place += ',"summary_index":0'
                return self._event(
                    "response.reasoning_summary_text.done", f'{place},"text":{quote(text)}'
                ) + self._event(
                    "response.reasoning_summary_part.done", f'{place},"part":{summary_part(text)}'
                )
            case BlockKind.CONTENT:
                place += ',"content_index":0'
                listed = logprob_items_json(item.logprobs)
                return (
                    self._cite(item)
                    + self._event(
                        "response.output_text.done",
                        f'{place},"text":{quote(text)},"logprobs":[{listed}]',
                    )
                    + self._event(
                        "response.content_part.done",
                        f'{place},"part":{item.text_part()}',
                    )
                )
            case BlockKind.REFUSAL:
                place += ',"content_index":0'
                return self._event(
                    "response.refusal.done", f'{place},"refusal":{quote(text)}'
                ) + self._event(
                    "response.content_part.done", f'{place},"part":{refusal_part(text)}'
                )
            case _:
                return self._end_arguments(item)

    def _cite(self, item: ResponseItem) -> str:
        """Return the events about the passages that a complete text cites."""
        return "".join(
            self._event(
                "response.output_text.annotation.added",
                f'{_place(item)},"content_index":0,"annotation_index":{number}'
                f',"annotation":{annotation}',
            )
            for number, annotation in enumerate(citations(item.block.text, item.sources))
        )

    def _close(self, item: ResponseItem, *, is_cut: bool) -> str:
        done = item.json("incomplete" if is_cut else "completed")
        self._done.append(done)
        return self._event(
            "response.output_item.done", f'"output_index":{item.block.index},"item":{done}'
        )


def _place(item: ResponseItem) -> str:
    return f'"item_id":"{item.id}","output_index":{item.block.index}'


class _AskedResponse(NamedTuple):
    model: str
    logprobs: bool
    echo: Mapping[str, Any]


class CompactionWriter(ResponsesAnswerWriter):
    """Writes a compacted conversation, which is never a stream."""

    __slots__ = ("_request",)

    def __init__(self, begun: Begun) -> None:
        self._request = begun.request
        super().__init__(_AskedResponse(answering_model(begun), logprobs=False, echo={}))

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        request = self._request
        items = [_message(each) for each in request.echo[COMPACTION]]
        summary = choices[0].content or choices[0].reasoning
        items.append(
            f'{{"id":"{new_id("cmp")}","type":"compaction"'
            f',"encrypted_content":{quote(seal(summary))}}}'
        )
        return (
            f'{{"id":"{request.id}","object":"response.compaction","created_at":{request.created}'
            f',"output":[{",".join(items)}],"usage":{response_usage_json(usage)}}}'
        )


def _message(item: Mapping[str, Any]) -> str:
    content = item.get("content")
    if isinstance(content, str):
        content = [{"type": "input_text", "text": content}]
    shown = {
        "id": item.get("id") or new_id("msg"),
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": content,
    }
    return json.dumps(shown)


def responses_writer(begun: Begun) -> ResponsesAnswerWriter:
    """Return the writer of an answer that begins."""
    request = begun.request
    if COMPACTION in request.echo:
        return CompactionWriter(begun)
    echo = request.echo
    if begun.sampling is not None:
        echo = {
            **echo,
            "max_output_tokens": begun.sampling.max_tokens,
            "temperature": begun.sampling.temperature,
            "top_p": begun.sampling.top_p,
        }
    asked = _AskedResponse(answering_model(begun), request.wants_logprobs, echo)
    return ResponsesAnswerWriter(
        asked,
        response_id=request.id,
        created=request.created,
        servers=request.tool_servers,
        sources=begun.sources,
        seals_reasoning=SEALED_REASONING in (request.sampling.get("include") or ()),
        speech=request.speech,
    )
