"""`Blocks`: the output of a choice as a sequence of blocks, each of one kind.

OpenAI's responses and Anthropic's messages have this form: reasoning, texts and calls are blocks,
and each is opened once, grows, and is closed before the next one opens.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple

from calculators.language.delta import FinishReason, ToolCalled, ToolRan
from calculators.language.events import (
    Arguments,
    Content,
    OutputEvent,
    Reasoning,
    ToolCall,
    is_object,
)
from calculators.llm.answers.response import AnswerChoice


class BlockKind(Enum):
    """The kind of a block."""

    REASONING = auto()
    CONTENT = auto()
    CALL = auto()
    REFUSAL = auto()
    SERVER_CALL = auto()
    SERVER_RESULT = auto()
    SERVER_TOOLS = auto()


class OutputBlock:
    """One block.

    Attributes:
        index: the number of the block, from 0.
        name: of the called tool; "" for other kinds, as is ``call_id``.
        citations: what a text cites, as JSON of its API.
        server: the label of the server that has the tool, or that the tools are of.
        ran: the result of a call that this server ran; None while it runs, and for other kinds.
    """

    __slots__ = ("_pieces", "call_id", "citations", "index", "kind", "name", "ran", "server")

    def __init__(self, kind: BlockKind, index: int, name: str = "", call_id: str = "") -> None:
        self.kind = kind
        self.index = index
        self.name = name
        self.call_id = call_id
        self.citations: list[str] = []
        self.server = ""
        self.ran: ToolRan | None = None
        self._pieces: list[str] = []

    def add(self, text: str) -> None:
        """Append text."""
        self._pieces.append(text)

    @property
    def text(self) -> str:
        """The text so far; of a call the arguments."""
        return "".join(self._pieces)

    def is_cut(self, reason: FinishReason) -> bool:
        """Return whether an answer that ends in this block ended before the block was complete.

        A choice that a stop string ended within a call has the reason "stop" (`Choice.take`).
        """
        if self.kind is BlockKind.REFUSAL:
            return False
        is_call = self.kind is BlockKind.CALL and reason is FinishReason.STOP
        return reason.is_cut or (is_call and not is_object(self.text))


class BlockOpened(NamedTuple):
    """A block has begun."""

    block: OutputBlock


class BlockDelta(NamedTuple):
    """The open block has grown by ``text``."""

    block: OutputBlock
    text: str


class BlockClosed(NamedTuple):
    """The open block has ended. ``is_cut``: before it was complete."""

    block: OutputBlock
    is_cut: bool = False


Step = BlockOpened | BlockDelta | BlockClosed


class Blocks:
    """Turns events into blocks.

    White space alone opens no block: models write it between reasoning, answer and calls, and
    Anthropic's clients may not send such a block back. It is put before the next text of its kind.
    """

    __slots__ = ("_blank", "_blank_kind", "count", "open")

    def __init__(self) -> None:
        #: The block that can grow, if there is one.
        self.open: OutputBlock | None = None
        #: The number of blocks so far.
        self.count = 0
        self._blank: list[str] = []
        self._blank_kind = BlockKind.CONTENT

    def add(self, event: OutputEvent) -> Sequence[Step]:
        """Return the steps that an event makes."""
        if isinstance(event, Content):  # nearly all; a pattern takes three times as long
            return self._grow(BlockKind.CONTENT, event.text)
        match event:
            case Reasoning(text):
                return self._grow(BlockKind.REASONING, text)
            case Arguments(text):
                block = self.open
                assert block is not None
                assert block.kind is BlockKind.CALL
                block.add(text)
                return (BlockDelta(block, text),)
            case ToolCall(name, call_id):
                return self._begin(BlockKind.CALL, name, call_id)

    def begin_content(self) -> Sequence[Step]:
        """Open an empty block of text, for an answer that needs one."""
        return self._begin(BlockKind.CONTENT)

    def beside(self, kind: BlockKind) -> tuple[Sequence[Step], OutputBlock]:
        """Close the open block, and return a new one that no event makes grow."""
        block = OutputBlock(kind, self.count)
        self.count += 1
        self._blank = []
        return self.finish(), block

    def call_server(self, called: ToolCalled) -> tuple[Sequence[Step], OutputBlock]:
        """Close the open block, and return one for a call that this server begins."""
        steps, block = self.beside(BlockKind.SERVER_CALL)
        block.name, block.call_id, block.server = called.name, called.call_id, called.server
        block.add(called.arguments)
        return steps, block

    def cite(self, text: str, citations: Sequence[str]) -> Sequence[Step]:
        """Add a block of text with citations, as JSON of the API."""
        text = "".join([*self._blank, text]) if self._blank_kind is BlockKind.CONTENT else text
        steps = self._begin(BlockKind.CONTENT)
        block = steps[-1].block
        block.add(text)
        block.citations += citations
        return [*steps, BlockDelta(block, text), *self._close()]

    def refuse(self, text: str) -> Sequence[Step]:
        """Open a block with a refusal."""
        steps = [*self._begin(BlockKind.REFUSAL)]
        if text and self.open is not None:
            self.open.add(text)
            steps.append(BlockDelta(self.open, text))
        return steps

    def finish(self, *, is_cut: bool = False) -> Sequence[Step]:
        """Close the open block. ``is_cut``: the answer ended before the model was done."""
        return self._close(is_cut=is_cut)

    def _close(self, *, is_cut: bool = False) -> Sequence[Step]:
        block, self.open = self.open, None
        return () if block is None else (BlockClosed(block, is_cut),)

    def _grow(self, kind: BlockKind, text: str) -> Sequence[Step]:
        block = self.open
        if block is not None and block.kind is kind:
            block.add(text)
            return (BlockDelta(block, text),)
        if self._blank_kind is not kind:
            self._blank, self._blank_kind = [], kind
        self._blank.append(text)
        if text.isspace():
            return ()
        text = "".join(self._blank)
        steps = self._begin(kind)
        block = steps[-1].block
        block.add(text)
        return [*steps, BlockDelta(block, text)]

    def _begin(self, kind: BlockKind, name: str = "", call_id: str = "") -> Sequence[Step]:
        steps: list[Step] = [*self._close()]
        self.open = OutputBlock(kind, self.count, name, call_id)
        self.count += 1
        self._blank = []
        steps.append(BlockOpened(self.open))
        return steps


def blocks_of(choice: AnswerChoice, blocks: Blocks | None = None) -> list[OutputBlock]:
    """Return the blocks of a whole answer; ``blocks`` makes them, without any yet."""
    blocks = blocks or Blocks()
    found: list[OutputBlock] = []

    def take(steps: Sequence[Step], *more: OutputBlock) -> None:
        found.extend(step.block for step in steps if isinstance(step, BlockOpened))
        found.extend(more)

    for event in choice.events:
        if isinstance(event, ToolCalled):
            take(*blocks.call_server(event))
        elif isinstance(event, ToolRan):
            steps, result = blocks.beside(BlockKind.SERVER_RESULT)
            for block in found:
                if block.kind is BlockKind.SERVER_CALL and block.call_id == event.call_id:
                    block.ran = event
            result.ran = event
            take(steps, result)
        else:
            take(blocks.add(event))
    take(blocks.finish())
    return found
