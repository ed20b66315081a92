"""The interface of output parsers: the one thing that an author of another parser needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from calculators.llm.parsers.events import OutputEvent


class OutputParser(ABC):
    """Reads one answer as it grows.

    What comes out is certain: no event is taken back by a later one, and the events of all chunks
    together do not depend on where the text was cut into chunks. Text that is not what the parser
    looks for is `Content`; no input raises, none is lost.

    Attributes:
        special_tokens: of the tokenizer, as text, that have to stand in the text for the parser to
            work. All other special tokens are left out of the text before it comes here, unless
            the client asked to see them.
    """

    special_tokens: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def feed(self, text: str) -> list[OutputEvent]:
        """What this text, after that before, makes certain; maybe nothing."""

    @abstractmethod
    def finish(self) -> list[OutputEvent]:
        """What is left when nothing follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterForm:
    """How arguments are written one by one, where they are no JSON object.

    A parameter is ``begin``, with its name for ``NAME``, its value as JSON, and ``end``.

    Attributes:
        separator: between two of them.
        text_end: what ends a string that is written as it is, after ``text_begin``; "" where
            strings are JSON, too.
    """

    begin: str
    end: str
    separator: str = ""
    text_begin: str = ""
    text_end: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallForm:
    """How a model writes calls of tools, for grammars that make it do so.

    Calls are ``opening``, calls with ``separator`` between them, ``closing``. A call is ``begin``,
    with the tool's name for ``NAME``, then the arguments, then ``end``.

    Attributes:
        trigger: what a model writes only when it has begun to call.
        parameters: None where the arguments are a JSON object.
        only_one: there can be no second call.
    """

    trigger: str
    begin: str
    end: str
    separator: str = "\n"
    opening: str = ""
    closing: str = ""
    parameters: ParameterForm | None = None
    only_one: bool = False


class ToolParser(OutputParser):
    """Finds calls of tools in text without reasoning: `Content`, `ToolCall` and `Arguments`.

    Attributes:
        call_form: None where no grammar can be made for it.
    """

    call_form: ClassVar[CallForm | None] = None

    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """``tools``: JSON schema of the parameters by name of the tool, as the request has them."""
        self.tools = tools or {}


class ReasoningParser(OutputParser):
    """Takes reasoning out of text: `Reasoning`, and `Content` for all the rest, calls included.

    Attributes:
        start_tags: a prompt that ends in one of these, white space aside, has begun the reasoning.
        end_tag: what ends it.
        turn: what the model writes between the end of its reasoning and what follows; None is some
            white space.
        answer_start: what it writes before its answer, other than a call.
    """

    start_tags: ClassVar[tuple[str, ...]] = ()
    end_tag: ClassVar[str] = ""
    turn: ClassVar[str | None] = None
    answer_start: ClassVar[str] = ""

    def __init__(self, *, is_open: bool = False) -> None:
        """``is_open``: the text begins inside the reasoning."""
        self.is_open = is_open
