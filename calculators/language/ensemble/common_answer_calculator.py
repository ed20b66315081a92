"""`CommonAnswerCalculator`: the text on which several models agree."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import commonprefix

from msgspec import structs

from calculators.language import (
    Begun,
    Content,
    Delta,
    Deltas,
    Ended,
    Failed,
    Finished,
    FinishReason,
    Gained,
    Refused,
    Submitted,
    ToolCall,
    Usage,
    usage_sum,
)
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, In, Out


class CommonAnswerCalculator(Calculator):
    """Shows the longest common beginning of several answers, as it grows.

    A choice ends where its texts part, or where one of them ends; then nothing that follows is
    generated. Only text counts: reasoning is left out, a call of a tool ends a text, and a refusal
    ends all. Answers that fail do not take part; if all fail, the last failure goes on. Usage is
    the sum of all answers, as far as they were made.

    Inputs: DELTAS:i (Deltas): the answers, at least two.
    Outputs: DELTAS (Deltas).
    Options: none.

    ::

        node {
          calculator: "CommonAnswerCalculator"
          input_stream: "DELTAS:0:first"
          input_stream: "DELTAS:1:second"
          output_stream: "DELTAS:agreed"
        }
    """

    answers = In[Deltas]("DELTAS", multiple=True)
    agreed = Out[Deltas]("DELTAS")
    timestamp_offset = None

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        contract.require(
            contract.inputs.num_entries("DELTAS") > 1,
            "there is nothing to compare: connect DELTAS:0, DELTAS:1 and so on",
        )
        contract.sync_sets = [[key] for key in contract.inputs]

    def open(self, cc: CalculatorContext) -> None:
        self._next = 0
        self._reset(len(cc.input_list))

    def _reset(self, count: int) -> None:
        self._voices = [_Voice() for _ in range(count)]
        self._agreement: _Agreement | None = None

    def process(self, cc: CalculatorContext) -> None:
        items: list[Delta] = []
        for voice, shard in zip(self._voices, cc.input_list, strict=True):
            if not shard.is_empty():
                items += voice.feed(shard.value)
        if all(voice.has_begun or voice.failed for voice in self._voices):
            self._go_on(items)
        self._send(cc, items, cc.time)

    def on_idle(self, cc: CalculatorContext) -> None:
        """Go on without answers that do not begin any more."""
        items: list[Delta] = []
        if any(voice.has_begun or voice.failed for voice in self._voices):
            for voice in self._voices:
                voice.is_silent = not voice.has_begun
            self._go_on(items)
        self._send(cc, items, self._next)

    def _send(self, cc: CalculatorContext, items: Sequence[Delta], time: int) -> None:
        if items:
            time = max(time, self._next)
            cc.emit(self.agreed, Deltas(items), at=time)
            self._next = time + 1

    def _go_on(self, items: list[Delta]) -> None:
        voices = [voice for voice in self._voices if not (voice.failed or voice.is_silent)]
        if self._agreement is None:
            if not voices:
                failures = [voice.failed for voice in self._voices if voice.failed]
                items += failures[-1:]
                self._reset(len(self._voices))
                return
            self._agreement = _Agreement(voices[0].begun)
            items.append(structs.replace(voices[0].begun, stop=self._stop))
        agreement = self._agreement
        if not voices and not agreement.is_over:
            items += [voice.failed for voice in self._voices if voice.failed][-1:]
            self._reset(len(self._voices))
            return
        if not agreement.is_over:
            agreement.grow(voices, items)
            if agreement.is_over:
                self._stop()
        if agreement.is_over and all(voice.usage is not None for voice in voices):
            items.append(Ended(_sum_of(voices)))
            self._reset(len(self._voices))

    def _stop(self) -> None:
        for voice in self._voices:
            if voice.has_begun:
                voice.begun.stop()


class _Voice:
    """One of the answers.

    Attributes:
        texts: the text of each choice after what all have in common.
        ends: the reason of the end of the choices whose text has ended.
        refusals: of the choices that ended with one.
        usage: None until the answer has ended.
        is_silent: it does not take part.
    """

    begun: Begun

    def __init__(self) -> None:
        self.has_begun = False
        self.is_silent = False
        self.failed: Failed | None = None
        self.texts: list[str] = []
        self.ends: dict[int, FinishReason] = {}
        self.refusals: dict[int, Refused] = {}
        self.usage: Usage | None = None

    def feed(self, packet: Deltas) -> list[Delta]:
        """Add the items of a packet. Returns those that go on at once."""
        passed: list[Delta] = []
        for item in packet:
            match item:
                case Submitted():
                    passed.append(item)
                case Begun(choices):
                    self.begun = item
                    self.has_begun = True
                    self.texts = [""] * choices
                case Gained(choice, events):
                    for event in events:
                        if choice in self.ends:
                            break
                        if isinstance(event, Content):
                            self.texts[choice] += event.text
                        elif isinstance(event, ToolCall):
                            self.ends[choice] = FinishReason.STOP
                        elif isinstance(event, Refused):
                            self.ends[choice] = FinishReason.CONTENT_FILTER
                            self.refusals[choice] = event
                case Finished(choice, reason):
                    self.ends.setdefault(choice, reason)
                case Ended(usage):
                    self.usage = usage
                case Failed():
                    self.failed = item
                case _:
                    continue
        return passed


class _Agreement:
    """The choices that are still growing."""

    def __init__(self, begun: Begun) -> None:
        self._open = set(range(begun.choices))

    @property
    def is_over(self) -> bool:
        return not self._open

    def grow(self, voices: Sequence[_Voice], items: list[Delta]) -> None:
        """Add what has become common, and the ends of choices whose texts part or end."""
        for choice in sorted(self._open):
            texts = [voice.texts[choice] for voice in voices]
            common = commonprefix(texts)  # noqa: RUF071 - of characters
            if common:
                items.append(Gained(choice, (Content(common),)))
                for voice in voices:
                    voice.texts[choice] = voice.texts[choice][len(common) :]
            over = [each for each in voices if choice in each.ends and not each.texts[choice]]
            if over or all(voice.texts[choice] for voice in voices):
                items += _end_of(choice, voices, over)
                self._open.discard(choice)


def _end_of(choice: int, voices: Sequence[_Voice], over: Sequence[_Voice]) -> list[Delta]:
    """Return the end of a choice whose texts part, or whose answers ``over`` have ended."""
    for voice in over:
        if choice in voice.refusals:
            refused = Gained(choice, (voice.refusals[choice],))
            return [refused, Finished(choice, FinishReason.CONTENT_FILTER)]
    reasons = {voice.ends[choice] for voice in over}
    is_equal = not any(voice.texts[choice] for voice in voices)
    return [
        Finished(choice, reasons.pop() if is_equal and len(reasons) == 1 else FinishReason.STOP)
    ]


def _sum_of(voices: Sequence[_Voice]) -> Usage:
    total: Usage | None = None
    for voice in voices:
        assert voice.usage is not None, "it has ended"
        total = voice.usage if total is None else usage_sum(total, voice.usage)
    assert total is not None, "there is an answer"
    return total
