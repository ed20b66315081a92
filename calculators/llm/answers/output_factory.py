"""`OutputFactory`: makes the outputs of the choices of one model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from calculators.llm.answers.choice_output import ChoiceOutput, Parser, RawText
from calculators.llm.answers.reasoning_count import ReasoningCount, turning_tokens
from calculators.llm.answers.response import Verbose
from calculators.llm.parsers.output_parsers import OutputParsers, TrimmedStream
from calculators.llm.requests.chat_request import ChatRequest
from calculators.llm.requests.generation_request import GenerationRequest
from calculators.llm.text.choice_text import ChoiceText
from calculators.llm.text.stop_strings import NO_STOPS, StopStrings
from calculators.llm.text.text_stream import DecodedText, TableText, TextStream
from calculators.llm.text.token_table import TokenTable


class _VisibleTokens(NamedTuple):
    """The visible text of tokens.

    Attributes:
        hidden: ids of tokens without text.
        turning: ids of tokens in which reasoning may begin or end; None: any.
        start: makes the decoder of one sequence.
    """

    hidden: frozenset[int]
    turning: frozenset[int] | None
    start: Callable[[], TextStream]


class OutputFactory:
    """Makes a `ChoiceOutput` for each choice of a request."""

    def __init__(
        self,
        tokens: TokenTable,
        parsers: OutputParsers,
        decode: Callable[..., Awaitable[str]],
    ) -> None:
        """Make the factory of one model.

        Args:
            decode: decodes ids, for vocabularies whose tokens have no text of their own; takes
                ``skip_special_tokens``.
        """
        self._tokens = tokens
        self._parsers = parsers
        self._without_tools = OutputParsers(None, parsers.reasoning)
        self._decode_all = decode
        self._turning = self._find_turning()
        #: By the texts of the special tokens that are shown; None: all are.
        self._tables: dict[frozenset[str] | None, _VisibleTokens] = {}

    def output(
        self,
        request: GenerationRequest,
        prompt: str,
        prompt_tokens: int,
        *,
        is_trimmed: bool,
        verbose: Verbose | None,
    ) -> ChoiceOutput:
        """Make the output of one choice.

        ``is_trimmed``: the output follows a form, which does not begin with white space.
        ``verbose`` receives the raw text.
        """
        shown: frozenset[str] = frozenset()
        parser: Parser | None = None
        max_calls: int | None = None
        thinks = False
        if isinstance(request, ChatRequest):
            schemas = request.tools.schemas if request.tools.items else None
            parsers = self._parsers if schemas is not None else self._without_tools
            thinks = parsers.reasoning is not None
            if thinks or parsers.tool is not None:
                stream = parsers.start(tools=schemas, prompt=prompt)
                if is_trimmed:
                    parser = TrimmedStream(stream)
                else:
                    parser = stream if stream.tool is not None else stream.reasoning
                shown = parsers.special_tokens
            max_calls = None if request.parallel_tool_calls or schemas is None else 1
        visible = self._visible(shown if request.skip_special_tokens else None)
        stops = NO_STOPS
        if request.settings.stop_strings:
            include = request.include_stop_str_in_output
            stops = StopStrings(request.settings.stop_strings, include=include)
        return ChoiceOutput(
            ChoiceText(
                visible.start(),
                stops,
                echoed=prompt_tokens if request.settings.echo else 0,
            ),
            parser,
            max_calls=max_calls,
            raw=None if verbose is None else RawText(self._visible(None).start(), verbose),
            reasoning=ReasoningCount(visible.turning, visible.hidden) if thinks else None,
        )

    def _visible(self, shown: frozenset[str] | None) -> _VisibleTokens:
        """Return the table for these texts of special tokens that are shown; None: all are."""
        table = self._tables.get(shown)
        if table is None:
            hidden = frozenset[int]() if shown is None else self._tokens.hidden(shown)
            turning = None if self._turning is None else self._turning - hidden
            start: Callable[[], TextStream]
            if self._tokens.is_exact:
                pieces = self._tokens.visible(hidden)
                start = partial(TableText, pieces, strips_space=self._tokens.strips_space)
            else:
                start = partial(DecodedText, partial(self._decode, hidden))
            table = self._tables[shown] = _VisibleTokens(hidden, turning, start)
        return table

    def _find_turning(self) -> frozenset[int] | None:
        """Return the tokens in which reasoning may begin or end; None if that is unknown."""
        reasoning = self._parsers.reasoning
        if reasoning is None or not self._tokens.is_exact:
            return None
        tags = (*reasoning.start_tags, reasoning.end_tag, *reasoning.special_tokens)
        return turning_tokens(tags, self._tokens.pieces)

    async def _decode(self, hidden: frozenset[int], ids: Sequence[int]) -> str:
        if len(hidden) == len(self._tokens.special):
            return await self._decode_all(list(ids), skip_special_tokens=True)
        shown = [each for each in ids if each not in hidden]
        return await self._decode_all(shown, skip_special_tokens=False) if shown else ""
