"""`JudgeCalculator`: a language model chooses the best of several answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from calculators.language import (
    NO_TOOLS,
    Api,
    Arguments,
    Begun,
    Content,
    Delta,
    Deltas,
    Ended,
    Event,
    Failed,
    Gained,
    GenerationRequest,
    Refused,
    Submitted,
    TemplateArguments,
    ToolCall,
    Usage,
    usage_sum,
)
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, In, Options, Out
from protos import messages


class GatheredAnswer:
    """The items of one answer so far.

    Attributes:
        begun: None until it has begun.
        failed: the end of an answer that failed.
        usage: of an answer that has ended; None before, and of one that failed.
    """

    def __init__(self) -> None:
        self.begun: Begun | None = None
        self.failed: Failed | None = None
        self.usage: Usage | None = None
        self._items: list[Delta] = []

    @property
    def is_over(self) -> bool:
        return self.usage is not None or self.failed is not None

    def feed(self, packet: Deltas) -> list[Submitted]:
        """Keep the items of a packet. Returns those that go on at once."""
        submitted: list[Submitted] = []
        for item in packet:
            match item:
                case Submitted():
                    submitted.append(item)
                case Begun():
                    self.begun = item
                case Failed():
                    self.failed = item
                case Ended(usage):
                    self.usage = usage
                case _:
                    self._items.append(item)
        return submitted

    def content(self, choice: int = 0) -> str:
        """Return the text of a choice for people: calls of tools stand in brackets."""
        pieces: list[str] = []
        for item in self._items:
            if isinstance(item, Gained) and item.choice == choice:
                pieces += map(_shown, item.events)
        return "".join(pieces)

    def whole(self, usage: Usage) -> Deltas:
        """Return the answer in one packet, with other counts at its end."""
        assert self.begun is not None, "it has ended"
        return Deltas((self.begun, *self._items, Ended(usage)))


def _shown(event: Event) -> str:
    match event:
        case Content(text) | Arguments(text):
            return text
        case Refused(text):
            return f"[refused] {text}"
        case ToolCall(name):
            return f"[calls {name}] "
        case _:
            return ""


_OPTIONS = messages.JudgeOptions
_INSTRUCTION: Final = (
    "Below are a question and several answers to it, each after its number. Write the number of "
    "the best answer and nothing else."
)
_NUMBER: Final = re.compile(r"\d+")
#: The digits of a number that are read: a verdict may be of digits only.
_MOST_DIGITS: Final = 4


class JudgeCalculator(Calculator):
    """Gathers the answers of several models, and lets another model choose the best one.

    Nothing is shown before the verdict, so the answer comes whole, also as a stream. Answers that
    fail do not take part. One answer that is left, or several with equal texts, need no judge. If
    the judge fails or names no answer, the first one is taken. Usage is the sum of all answers and
    of the verdict.

    The judge sees the user's last message and the first choice of each answer.

    Inputs:
        DELTAS:i (Deltas): the answers, at least two.
        VERDICT (Deltas): the judge's answer.
    Outputs:
        REQUEST (GenerationRequest): the question for the judge.
        DELTAS (Deltas): the chosen answer, in one packet.
    Options (graphrt.JudgeOptions): instruction, max_answer_characters, max_question_characters,
        max_tokens.

    ::

        node {
          calculator: "JudgeCalculator"
          input_stream: "DELTAS:0:first"
          input_stream: "DELTAS:1:second"
          input_stream: "VERDICT:verdict"
          output_stream: "REQUEST:question"
          output_stream: "DELTAS:best"
        }
        node {
          name: "judge"
          calculator: "LLMCalculator"
          input_stream: "REQUEST:question"
          output_stream: "DELTAS:verdict"
          ...
        }
    """

    answers = In[Deltas]("DELTAS", multiple=True)
    verdict = In[Deltas]("VERDICT")
    question = Out[GenerationRequest]("REQUEST")
    best = Out[Deltas]("DELTAS")
    options = Options(_OPTIONS)
    timestamp_offset = None

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        contract.options(_OPTIONS)
        contract.require(
            contract.inputs.num_entries("DELTAS") > 1,
            "a judge needs several answers: connect DELTAS:0, DELTAS:1 and so on",
        )
        contract.sync_sets = [[key] for key in contract.inputs]

    def open(self, cc: CalculatorContext) -> None:
        self._next = 0
        self._reset(cc)

    def _reset(self, cc: CalculatorContext) -> None:
        self._answers = [GatheredAnswer() for _ in range(cc.inputs.num_entries("DELTAS"))]
        self._verdict = GatheredAnswer()
        #: The answers that the judge was asked about.
        self._candidates: list[GatheredAnswer] = []

    def process(self, cc: CalculatorContext) -> None:
        passed: list[Delta] = []
        for place, answer in enumerate(self._answers):
            shard = cc.inputs["DELTAS", place]
            if not shard.is_empty():
                passed += answer.feed(shard.value)
        if not cc.is_empty(self.verdict):
            passed += self._verdict.feed(cc.get(self.verdict))
        self._time = max(cc.time, self._next)
        if passed:
            self._send(cc, Deltas(passed))
        if self._candidates:
            if self._verdict.is_over:
                self._send_best(cc, self._chosen())
        elif all(answer.is_over for answer in self._answers):
            self._judge(cc)

    def on_idle(self, cc: CalculatorContext) -> None:
        """Go on without answers, or a verdict, that cannot come any more."""
        self._time = self._next
        if self._candidates:
            self._send_best(cc, self._candidates[0])
        elif any(answer.is_over for answer in self._answers):
            self._judge(cc)

    def _judge(self, cc: CalculatorContext) -> None:
        whole = [answer for answer in self._answers if answer.usage is not None]
        if not whole:
            failed = [answer.failed for answer in self._answers if answer.failed is not None]
            self._send(cc, Deltas(failed[-1:]))
            self._reset(cc)
        elif len({answer.content() for answer in whole}) == 1:
            self._send_best(cc, whole[0])
        else:
            self._candidates = whole
            cc.emit(self.question, _question(whole, self.options), at=self._time)
            self._next = max(self._next, self._time + 1)

    def _chosen(self) -> GatheredAnswer:
        found = _NUMBER.search(self._verdict.content())
        number = int(found[0][:_MOST_DIGITS]) if found is not None else 0
        return self._candidates[number - 1 if 0 < number <= len(self._candidates) else 0]

    def _send_best(self, cc: CalculatorContext, best: GatheredAnswer) -> None:
        assert best.begun is not None, "it is whole"
        usage: Usage | None = None
        for each in (*self._answers, self._verdict):
            if each.usage is not None:
                usage = each.usage if usage is None else usage_sum(usage, each.usage)
        assert usage is not None, "the best one has ended"
        record = best.begun.request.record
        if record is not None:
            name = best.begun.model or f"answer {self._answers.index(best) + 1}"
            record.note_route(name, "judge" if self._verdict.usage is not None else "no verdict")
        self._send(cc, best.whole(usage))
        self._reset(cc)

    def _send(self, cc: CalculatorContext, items: Deltas) -> None:
        self._time = max(self._time, self._next)
        cc.emit(self.best, items, at=self._time)
        self._next = self._time + 1


def _question(
    answers: Sequence[GatheredAnswer], options: messages.JudgeOptions
) -> GenerationRequest:
    """Return the request for the judge."""
    begun = answers[0].begun
    assert begun is not None, "it is whole"
    asked = begun.request
    parts = [f"Question:\n{asked.last_text()[: options.max_question_characters]}"]
    for number, answer in enumerate(answers, 1):
        text = answer.content()[: options.max_answer_characters]
        parts.append(f"Answer {number}:\n{text}")
    return replace(
        asked,
        api=Api.CHAT,
        messages=(
            {"role": "system", "content": options.instruction or _INSTRUCTION},
            {"role": "user", "content": "\n\n".join(parts)},
        ),
        prompts=(),
        images=(),
        tools=NO_TOOLS,
        form=None,
        template=TemplateArguments(),
        sampling={"temperature": 0, "max_tokens": options.max_tokens},
        n=1,
        has_running_usage=False,
        returns_token_ids=False,
        wants_logprobs=False,
        answer_model="",
        sources=(),
        turn=asked.turn + 1,
    )
