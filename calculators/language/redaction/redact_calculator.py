"""`RedactCalculator`: masks words and expressions in an answer while it streams."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from msgspec import structs

from calculators.language import (
    Begun,
    Delta,
    Deltas,
    Ended,
    Failed,
    Finished,
    Gained,
    GenerationRequest,
    RequestError,
    Source,
    Submitted,
    ToolCalled,
    ToolRan,
)
from calculators.language.delta import nothing
from calculators.language.generation_request import TextKind
from calculators.language.redaction.choice import ChoiceRedactor, Redaction, RedactionChannel
from calculators.language.redaction.redactors import MOST_AT_ONCE, ArgumentsRedactor
from calculators.language.text_patterns import PatternError, patterns_of
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Code, In, Options, Out
from protos import messages

_log: Final = logging.getLogger(__name__)

#: The texts of requests in each channel.
_KINDS: Final[Mapping[RedactionChannel, tuple[TextKind, ...]]] = {
    RedactionChannel.CONTENT: ("content", "tools"),
    RedactionChannel.REASONING: ("reasoning",),
    RedactionChannel.TOOL_CALLS: ("arguments",),
}
# graphrt.RedactOptions.Logprobs
_REFUSE: Final = 1


class RedactCalculator(Calculator):
    """Replaces words, and matches of regular expressions, by a mask.

    With DELTAS in and out it redacts answers, with REQUEST in and out what a model reads of
    requests: messages, prompts, arguments of calls, descriptions of tools.

    Text is held back only while text that follows can make it part of a match, so no part of a
    match gets out, in whatever pieces the model writes. No part of an answer shows masked text:
    log-probabilities, token ids and raw text are left out where they would.

    Inputs: DELTAS (Deltas), or REQUEST (GenerationRequest).
    Outputs: the same: at most one packet for each of the input, with its timestamp.
    Options (graphrt.RedactOptions):
        words: texts.
        patterns: regular expressions whose matches have a bounded length.
        ignore_case: in words and patterns.
        mask: "***" by default.
        channels: CONTENT, REASONING, TOOL_CALLS; all by default.
        logprobs: DROP those that would show what was masked (the default), or REFUSE requests for
            log-probabilities.

    ::

        node {
          calculator: "RedactCalculator"
          input_stream: "DELTAS:raw"
          output_stream: "DELTAS:clean"
          node_options {
            [type.googleapis.com/graphrt.RedactOptions] {
              words: "Project Bluebird"
              patterns: "\\\\b\\\\d{3}-\\\\d{2}-\\\\d{4}\\\\b"
            }
          }
        }
    """

    raw = In[Deltas]("DELTAS", optional=True)
    clean = Out[Deltas]("DELTAS", optional=True)
    request = In[GenerationRequest]("REQUEST", optional=True)
    redacted = Out[GenerationRequest]("REQUEST", optional=True)
    options = Options(messages.RedactOptions)
    timestamp_offset = 0

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        tags = [tag for tag in ("DELTAS", "REQUEST") if contract.inputs.has_tag(tag)]
        contract.require(
            len(tags) == 1 and contract.outputs.has_tag(tags[0]),
            "it needs DELTAS in and out for answers, or REQUEST in and out for requests",
        )
        try:
            redaction_of(contract.options(messages.RedactOptions))
        except PatternError as error:
            contract.require(False, str(error))

    def open(self, cc: CalculatorContext) -> None:
        self._node = cc.node_name
        self._redaction = redaction_of(self.options)
        self._refuses_logprobs = self.options.logprobs == _REFUSE
        self._choices: list[ChoiceRedactor] = []
        self._stop = nothing
        #: True once this node has ended the answer. What the model still sends is dropped.
        self._is_cut = False

    def process(self, cc: CalculatorContext) -> Awaitable[None] | None:
        if cc.is_connected(self.request):
            return self._redact_request(cc, cc.get(self.request))
        made: list[Delta] = []
        for item in cc.get(self.raw):
            if type(item) is Submitted or type(item) is Begun:
                self._is_cut = False
            if self._is_cut:
                continue
            try:
                self._add(item, made)
            except TimeoutError:
                _log.error("node %s: a pattern took too long on a text", self._node)
                self._fail(RequestError("the redaction took too long", code=Code.INTERNAL), made)
            except RequestError as error:
                self._fail(error, made)
        if made:
            cc.emit(self.clean, Deltas(made))
        return None

    async def _redact_request(self, cc: CalculatorContext, request: GenerationRequest) -> None:
        if request.refusal is None:
            if any(not isinstance(each, str) for each in request.prompts):
                raise RequestError(
                    "prompts of token ids are not accepted, because they cannot be redacted: send "
                    "texts",
                    param="prompt",
                )
            kinds = tuple(
                kind
                for channel in RedactionChannel
                if channel in self._redaction.channels
                for kind in _KINDS[channel]
            )
            sizes: list[int] = []

            def measured(text: str) -> str:
                sizes.append(len(text))
                return text

            request.map_text(measured, kinds)
            redact = partial(request.map_text, self._redaction.text, kinds)
            try:
                # What is searched is as long as the client wants.
                if sum(sizes) <= MOST_AT_ONCE:
                    request = redact()
                else:
                    request = await asyncio.to_thread(redact)
            except TimeoutError:
                _log.error("node %s: a pattern took too long on a text", self._node)
                error = RequestError("the redaction took too long", code=Code.INTERNAL)
                raise error from None
        cc.emit(self.redacted, request)

    def _add(self, item: Delta, made: list[Delta]) -> None:
        match item:
            case Gained(choice, events, logprobs, _, usage):
                redactor = self._choices[choice]
                events = redactor.feed(events)
                if logprobs is not None and not redactor.keeps_logprobs(logprobs, events):
                    logprobs = None
                if events or logprobs:
                    made.append(Gained(choice, events, logprobs, (), usage))
            case Finished(choice, reason, stop_string, _):
                self._finish(choice, made)
                if stop_string is not None:
                    stop_string = self._redaction.text(stop_string)
                made.append(Finished(choice, reason, stop_string))
            case Begun():
                self._stop = item.stop
                self._choices = [ChoiceRedactor(self._redaction) for _ in range(item.choices)]
                if self._refuses_logprobs and item.request.wants_logprobs:
                    raise RequestError(
                        "log-probabilities would show what this model's answers hide",
                        param="logprobs",
                    )
                made.append(self._begun(item))
            case Ended():
                self._stop = nothing
                made.append(item)
            case Failed():
                self._stop = nothing
                for choice in range(len(self._choices)):
                    self._finish(choice, made)
                made.append(item)
            case ToolCalled(arguments=arguments):
                name, arguments = self._call(item.name, arguments)
                made.append(structs.replace(item, name=name, arguments=arguments))
            case ToolRan():
                made.append(self._tool_ran(item))
            case Submitted():
                made.append(item)

    def _finish(self, choice: int, made: list[Delta]) -> None:
        rest = self._choices[choice].finish()
        if rest:
            made.append(Gained(choice, rest))

    def _fail(self, error: RequestError, made: list[Delta]) -> None:
        self._is_cut = True
        self._stop()
        self._stop = nothing
        made.append(Failed(error))

    def _begun(self, begun: Begun) -> Begun:
        """Return the beginning without what would show masked text.

        A prompt may have passages that a node put into it, so its ids are left out.
        """
        text = self._redaction.text
        sources = [
            Source(each.mark, text(each.name), text(each.text), text(each.id))
            for each in begun.sources
        ]
        request = begun.request
        if request.echo:
            request = replace(request, echo=self._redacted(request.echo))
        return structs.replace(begun, request=request, sources=sources, prompt_ids=None)

    def _tool_ran(self, item: ToolRan) -> ToolRan:
        text = self._redaction.text
        name, arguments = self._call(item.name, item.arguments)
        return structs.replace(
            item,
            name=name,
            arguments=arguments,
            output=text(item.output),
            error=None if item.error is None else text(item.error),
        )

    def _call(self, name: str, arguments: str) -> tuple[str, str]:
        redactor = ArgumentsRedactor(self._redaction.patterns, self._redaction.mask)
        return self._redaction.text(name), redactor.feed(arguments) + redactor.finish()

    def _redacted(self, value: Any) -> Any:
        """Return a JSON value with all its texts redacted."""
        match value:
            case str():
                return self._redaction.text(value)
            case list():
                return [self._redacted(each) for each in value]
            case Mapping():
                return {key: self._redacted(each) for key, each in value.items()}
            case _:
                return value


def redaction_of(options: messages.RedactOptions) -> Redaction:
    """Return what the options of a node say.

    Raises:
        PatternError: a word or an expression cannot be used; there is none.
    """
    if not options.words and not options.patterns:
        raise PatternError("set words or patterns: there is nothing to redact")
    patterns = patterns_of(tuple(options.words), tuple(options.patterns), options.ignore_case)
    return Redaction(
        patterns,
        options.mask,
        frozenset(map(RedactionChannel, options.channels or RedactionChannel)),
    )
