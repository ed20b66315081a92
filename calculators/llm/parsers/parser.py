"""The interface of output parsers, for authors of parsers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from calculators.language.events import OutputEvent


class OutputParser(ABC):
    """Reads one answer as it grows.

    Events are final: none is taken back by a later one, and the events of all chunks together do
    not depend on where the text was cut into chunks. Text that the parser does not look for is
    `Content`. No input raises, and no text is lost.

    Attributes:
        special_tokens: texts of the tokenizer's special tokens that the parser needs in its input.
            Other special tokens are removed before, unless the client asked to see them.
    """

    special_tokens: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def feed(self, text: str) -> list[OutputEvent]:
        """Return the events that the next chunk of text makes certain; maybe none."""

    @abstractmethod
    def finish(self) -> list[OutputEvent]:
        """Return the remaining events, at the end of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterForm:
    """The form of arguments that are written one by one, not as a JSON object.

    A parameter is ``begin``, with its name for ``NAME``, its value as JSON, and ``end``.

    Attributes:
        separator: between two parameters.
        text_end: ends a string that is written as it is, after ``text_begin``; "" where strings are
            written as JSON.
    """

    begin: str
    end: str
    separator: str = ""
    text_begin: str = ""
    text_end: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallForm:
    """The form in which a model writes calls of tools, for grammars that enforce it.

    Calls are ``opening``, calls with ``separator`` between them, ``closing``. A call is ``begin``,
    with the tool's name for ``NAME``, then the arguments, then ``end``.

    Attributes:
        trigger: text that a model writes only at the beginning of a call.
        parameters: None where the arguments are a JSON object.
        only_one: the form has no place for a second call.
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
        call_form: None if no grammar can be made for the form.
        heads: marks with which calls begin, that stand nowhere else.
    """

    call_form: ClassVar[CallForm | None] = None
    heads: ClassVar[tuple[str, ...]] = ()

    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """``tools``: the JSON schema of the parameters by the tool's name, from the request."""
        self.tools = tools or {}


class ReasoningParser(OutputParser):
    """Takes reasoning out of text: `Reasoning`, and `Content` for all the rest, calls included.

    Attributes:
        start_tags: a prompt that ends in one of these, white space aside, has begun the reasoning.
        end_tag: ends the reasoning.
        turn: the text that the model writes between its reasoning and what follows; None stands for
            white space.
        answer_start: the text that the model writes before an answer that is not a call.
        feeds_tools: a tool parser reads the content.
    """

    start_tags: ClassVar[tuple[str, ...]] = ()
    end_tag: ClassVar[str] = ""
    turn: ClassVar[str | None] = None
    answer_start: ClassVar[str] = ""
    feeds_tools: bool = True

    def __init__(self, *, is_open: bool = False) -> None:
        """``is_open``: the text begins inside the reasoning. Later, that it is inside."""
        self.is_open = is_open
