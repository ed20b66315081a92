"""From deltas to text for the client: `AnswerWriter` and `DeltaWriter`.

`DeltaWriter` takes the packets of an answer, also those that nodes have changed or made, and drives
the `AnswerWriter` of the API that was asked. Each API has one, in `calculators.llm.api`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from msgspec import Struct, structs

from calculators.kit.requests.http_payload import RequestError
from calculators.language.delta import (
    Begun,
    Delta,
    Ended,
    Failed,
    Finished,
    FinishReason,
    Gained,
    TokenLogprob,
    ToolCalled,
    ToolRan,
    Usage,
    Verbose,
)
from calculators.language.events import CallDone, OutputEvent, Refused, SpeechSamples
from calculators.llm.answers.response import AnswerChoice, AnswerDetails, SpokenBase64

#: Events of `Gained` that are not of the model's text.
_NO_OUTPUT: Final = frozenset({CallDone, Refused, SpeechSamples})


class AnswerWriter(Protocol):
    """Writes one answer: whole, or as server-sent events ready to be sent.

    A stream is one call of `start`; then for every choice `begin`, `more` any number of times and
    `finish`, with the calls for several choices interleaved in any order; then `end`. Each returns
    complete events, maybe none. `failure` may replace the next call and all that would follow.

    Attributes:
        verbose: prompt and raw text to show beside the answer; None: they are not shown. Set before
            `finish`, `whole` and `end`.
        wants_logprobs: `more` needs the log-probabilities of the tokens.
        details: receives the token ids and counts of the events that follow; None: not needed.
    """

    verbose: Verbose | None
    wants_logprobs: bool
    details: AnswerDetails | None

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        """Return the body of a unary answer."""

    def start(self, usage: Usage) -> str:
        """Return the first events of a stream; ``usage`` counts only the prompt's tokens yet."""

    def begin(self, index: int) -> str:
        """Return the first events of a choice."""

    def more(
        self, index: int, events: Sequence[OutputEvent], logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        """Return the events for more output of a choice.

        ``logprobs``: of the tokens that made it; None unless ``wants_logprobs``. Every
        `calculators.language.events.ToolCall` has its ``call_id``.
        """

    def tool(self, item: ToolCalled | ToolRan) -> str:
        """Return the events of a call that this server runs for the only choice.

        Called for servers that the request names.
        """

    def speak(self, index: int, pcm: bytes) -> str:
        """Return the events for more sound of a choice, whose samples are `SpeechSamples.pcm`.

        APIs without a place for it show none.
        """

    def refuse(self, index: int, refused: Refused) -> str:
        """Return the events for a refusal, which is the last before `finish`.

        APIs show its text only where the choice has no other output, or at its end.
        """

    def finish(self, index: int, reason: FinishReason, stop_string: str | None = None) -> str:
        """Return the last events of a choice; ``reason`` is "tool_calls" if it called tools.

        ``stop_string``: the stop string of the request that ended the choice, if one did.
        """

    def end(self, usage: Usage) -> str:
        """Return the last events of a stream, with ``[DONE]`` where the endpoint has it."""

    def failure(self, error: RequestError) -> str:
        """Return the events that end a stream which has started and cannot go on.

        "" leaves this to the front, which writes an error event and ``[DONE]``.
        """


class TextOnlyWriter:
    """The parts of an `AnswerWriter` whose API has a place for texts only, and no beginning."""

    __slots__ = ("details", "verbose", "wants_logprobs")

    def __init__(self, begun: Begun) -> None:
        request = begun.request
        self.wants_logprobs = request.wants_logprobs
        self.verbose: Verbose | None = None
        self.details: AnswerDetails | None = None
        if request.returns_token_ids:
            self.details = AnswerDetails(request, None, begun.choices)

    def start(self, usage: Usage) -> str:
        return ""

    def begin(self, index: int) -> str:
        return ""

    def tool(self, item: ToolCalled | ToolRan) -> str:
        return ""

    def speak(self, index: int, pcm: bytes) -> str:
        return ""

    def refuse(self, index: int, refused: Refused) -> str:
        return ""

    def failure(self, error: RequestError) -> str:
        return ""


class DeltaWriter(Struct, eq=False):
    """Writes one answer, whole or as events, as its request says.

    Attributes:
        make: makes the writer of the API when the answer begins.
        writer: the writer, from then on.
        choices: the choices of a whole answer; None in a stream.
        servers: the labels of the servers whose calls the answer shows.
        called: the ids of the calls that it shows.
        is_done: the answer has ended or failed. Then further items are ignored.
    """

    make: Callable[[Begun], AnswerWriter]
    writer: AnswerWriter | None = None
    choices: list[AnswerChoice] | None = None
    servers: frozenset[str] = frozenset()
    called: set[str] = set()
    is_done: bool = False

    @property
    def has_begun(self) -> bool:
        """True once the answer has begun."""
        return self.writer is not None

    def write(self, items: Sequence[Delta]) -> str:
        """Return the text for the client that the next items make; "" for none.

        Raises:
            RequestError: the answer has failed, and nothing was written yet, or the API has no
                events for that.
        """
        if len(items) == 1 and not self.is_done:
            only = items[0]
            if type(only) is Gained:
                return self._more(only)  # like nearly all
        written = ""
        for item in items:
            if self.is_done:
                break
            match item:
                case Gained():
                    written += self._more(item)
                case Finished():
                    written += self._finish(item)
                case Begun():
                    written += self._begin(item)
                case Ended(usage):
                    self.is_done = True
                    writer = self.writer
                    if writer is not None and self.choices is not None:
                        written += writer.whole(self.choices, usage)
                    elif writer is not None:
                        written += writer.end(usage)
                case Failed():
                    written += self._fail(item)
                case ToolCalled() | ToolRan() if item.server in self.servers:
                    written += self._tool(item)
                case _:
                    pass
        return written

    def _begin(self, begun: Begun) -> str:
        if self.writer is not None:
            return ""
        self.writer = writer = self.make(begun)
        if begun.request.tool_servers:
            self.servers = frozenset(server.label for server in begun.request.tool_servers)
        if not begun.request.stream:
            self.choices = [
                AnswerChoice(logprobs=[] if writer.wants_logprobs else None)
                for _ in range(begun.choices)
            ]
            return ""
        if writer.details is not None:
            writer.details.usage = begun.usage
        usage = Usage(begun.usage.prompt_tokens, 0, begun.usage.cached_tokens)
        return "".join([writer.start(usage), *map(writer.begin, range(begun.choices))])

    def _more(self, gained: Gained) -> str:
        writer = self.writer
        if writer is None:
            return ""
        number, events, logprobs = gained.choice, gained.events, gained.logprobs
        for event in events:
            if type(event) in _NO_OUTPUT:
                return self._more_than_output(gained)
        if self.choices is not None:
            choice = self.choices[number]
            choice.events += events  # type: ignore[arg-type]
            choice.token_ids += gained.token_ids
            if logprobs is None and events:
                choice.logprobs = None  # a node has dropped them
            elif choice.logprobs is not None and logprobs is not None:
                choice.logprobs += logprobs
            return ""
        details = writer.details
        if details is not None:
            details.add(number, gained.token_ids)
            if gained.usage is not None:
                details.usage = gained.usage
        if events or logprobs:
            if not writer.wants_logprobs:
                logprobs = None
            return writer.more(number, events, logprobs)  # type: ignore[arg-type]
        return ""

    def _more_than_output(self, gained: Gained) -> str:
        """Write a group that has events which are not of the model's output."""
        assert self.writer is not None
        output: list[OutputEvent] = []
        refused: Refused | None = None
        spoken: list[bytes] = []
        for event in gained.events:
            if isinstance(event, Refused):
                refused = event
            elif isinstance(event, SpeechSamples):
                spoken.append(event.pcm)
            elif not isinstance(event, CallDone):
                output.append(event)
        written = ""
        if output or gained.logprobs or gained.token_ids or gained.usage is not None:
            written = self._more(structs.replace(gained, events=output))
        for pcm in spoken:
            if self.choices is None:
                written += self.writer.speak(gained.choice, pcm)
                continue
            choice = self.choices[gained.choice]
            choice.sound = choice.sound or SpokenBase64()
            choice.sound.keep(pcm)
        if refused is None:
            return written
        if self.choices is not None:
            self.choices[gained.choice].refusal = refused
            return ""
        return written + self.writer.refuse(gained.choice, refused)

    def _finish(self, finished: Finished) -> str:
        writer = self.writer
        if writer is None:
            return ""
        number, reason, stop_string = finished.choice, finished.reason, finished.stop_string
        if finished.verbose is not None:
            writer.verbose = finished.verbose
        if self.choices is not None:
            choice = self.choices[number]
            choice.finish_reason = reason
            choice.stop_string = stop_string
            return ""
        return writer.finish(number, reason, stop_string)

    def _tool(self, item: ToolCalled | ToolRan) -> str:
        assert self.writer is not None
        written = ""
        if item.call_id not in self.called:
            self.called.add(item.call_id)
            if isinstance(item, ToolRan):
                # A node has reported the result only.
                called = ToolCalled(
                    item.choice, item.call_id, item.name, item.server, item.arguments
                )
                written = self._tool(called)
        if self.choices is not None:
            self.choices[item.choice].events.append(item)
            return ""
        return written + self.writer.tool(item)

    def _fail(self, failed: Failed) -> str:
        self.is_done = True
        ending = ""
        if self.writer is not None and self.choices is None:
            ending = self.writer.failure(failed.error)
        if not ending:
            raise failed.error
        return ending
