"""`OutputParsers`: the parsers that understand the answers of one model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calculators.llm.parsers.output_stream import OutputStream
from calculators.llm.parsers.parser import ReasoningParser, ToolParser


@dataclass(frozen=True, slots=True)
class OutputParsers:
    """The classes of both; None where there is none."""

    tool: type[ToolParser] | None = None
    reasoning: type[ReasoningParser] | None = None

    @property
    def special_tokens(self) -> frozenset[str]:
        """The tokens that have to stand in the text for the parsers."""
        parsers = [parser for parser in (self.tool, self.reasoning) if parser is not None]
        return frozenset[str]().union(*(parser.special_tokens for parser in parsers))

    def start(
        self, *, tools: Mapping[str, Mapping[str, Any]] | None, prompt: str = ""
    ) -> OutputStream:
        """The parsers of one answer.

        ``tools``: JSON schema of the parameters by name, {} for a tool without; None when the
        request has no tools: then calls are text like any other. ``prompt``: what the model was
        given; it may have begun the reasoning.
        """
        reasoning, tool = None, None
        if self.reasoning is not None:
            reasoning = self.reasoning(is_open=self.reasoning_is_open(prompt))
        if self.tool is not None and tools is not None:
            tool = self.tool(tools)
        return OutputStream(reasoning, tool)

    def reasoning_is_open(self, prompt: str) -> bool:
        """Does an answer to ``prompt`` begin inside the reasoning?"""
        if self.reasoning is None or not self.reasoning.start_tags:
            return False
        # A tag may itself end in white space, which templates write or leave out.
        tags = tuple(tag.rstrip() for tag in self.reasoning.start_tags)
        return prompt.rstrip().endswith(tags)
