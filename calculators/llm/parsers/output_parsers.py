"""`OutputParsers`: the parsers that understand the answers of one model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calculators.llm.parsers.open_reasoning import OpenReasoning
from calculators.llm.parsers.output_stream import OutputStream
from calculators.llm.parsers.parser import ReasoningParser, ToolParser


@dataclass(frozen=True, slots=True)
class OutputParsers:
    """The parsers of one model, as classes. None: no parser.

    Attributes:
        special_tokens: the special tokens that the parsers must see in the text.
    """

    tool: type[ToolParser] | None = None
    reasoning: type[ReasoningParser] | None = None
    special_tokens: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        found = frozenset[str]()
        if self.tool is not None:
            found |= self.tool.special_tokens
        if self.reasoning is not None:
            found |= self.reasoning.special_tokens
        object.__setattr__(self, "special_tokens", found)

    def start(
        self, *, tools: Mapping[str, Mapping[str, Any]] | None, prompt: str = ""
    ) -> OutputStream:
        """Make the parsers of one answer.

        Args:
            tools: the JSON schema of the parameters by the tool's name, {} for a tool without
                parameters. None when the request has no tools: then calls are plain text.
            prompt: the text before the answer, which may have begun the reasoning.
        """
        reasoning, tool = None, None
        if self.reasoning is not None:
            reasoning = self.reasoning(is_open=self.reasoning_is_open(prompt))
        if self.tool is not None and tools is not None:
            tool = self.tool(tools)
        if reasoning is not None:
            reasoning.feeds_tools = tool is not None
        in_reasoning = None
        if self.tool is not None and tools and reasoning is not None and self.tool.heads:
            in_reasoning = OpenReasoning(self.tool, tools, self.tool.heads)
        return OutputStream(reasoning, tool, in_reasoning)

    def reasoning_is_open(self, prompt: str) -> bool:
        """Return True if an answer to ``prompt`` begins inside the reasoning."""
        if self.reasoning is None or not self.reasoning.start_tags:
            return False
        # A tag may itself end in white space, which templates write or leave out.
        tags = tuple(map(str.rstrip, self.reasoning.start_tags))
        return prompt.rstrip().endswith(tags)
