"""`ModerationCalculator`: refuses requests and answers by rules and by a classifier.

Rules are words and expressions (`calculators.language.text_patterns`); the classifier is a model of
`calculators.text.text_classification`, which `ModerationResourceInitializer` loads. A
`calculators.language.moderation.choice_guard.ChoiceGuard` decides for each choice what may be
shown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from msgspec import structs

from calculators.kit.requests.request_record import set_current_record
from calculators.kit.tasks.nodes import naming_node
from calculators.language import (
    Begun,
    Delta,
    Deltas,
    Ended,
    Failed,
    Finished,
    FinishReason,
    Gained,
    GenerationRequest,
    Refusal,
    Refused,
    RequestError,
    Submitted,
    ToolCalled,
    ToolRan,
    refusal_deltas,
)
from calculators.language.delta import nothing
from calculators.language.moderation.choice_guard import ChoiceGuard, request_texts, tool_text
from calculators.language.redaction.redactors import MOST_AT_ONCE, TextRedactor
from calculators.language.text_patterns import PatternError, Patterns, patterns_of
from calculators.text.text_classification.classifier import (
    TextClassificationResourceInitializer,
    TextClassifier,
)
from calculators.text.text_classification.node_options import OPTIONS_TYPE
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    In,
    NodePlan,
    NodeResource,
    Options,
    Out,
    ResourceError,
    ResourceSettings,
    SideIn,
    has_options,
)
from protos import messages


class ModerationResourceInitializer:
    """Loads the model of every node that moderates with a classifier."""

    tag: str = TextClassificationResourceInitializer.tag
    context_tags: Sequence[str] = ()

    def __init__(self) -> None:
        self._classifiers = TextClassificationResourceInitializer()

    def matches(self, calculator: str) -> bool:
        return calculator.endswith("ModerationCalculator")

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        if has_options(node.config, OPTIONS_TYPE):
            return self._classifiers.check(node, settings)
        return ()

    async def make(self, node: NodePlan, settings: ResourceSettings) -> NodeResource:
        if not has_options(node.config, OPTIONS_TYPE):
            return _NoClassifier()
        classifier = await self._classifiers.make(node, settings)
        try:
            return _checked(classifier, node)
        except ResourceError:
            await classifier.close()
            raise

    def identity(self, node: NodePlan, settings: ResourceSettings) -> str | None:
        """See `graph_runtime.SharingInitializer`."""
        if has_options(node.config, OPTIONS_TYPE):
            return self._classifiers.identity(node, settings)
        return None

    async def adopt(
        self, resource: NodeResource, node: NodePlan, settings: ResourceSettings
    ) -> TextClassifier:
        """Return the model of ``resource`` with the categories of ``node``."""
        return _checked(await self._classifiers.adopt(resource, node, settings), node)


def _checked(classifier: TextClassifier, node: NodePlan) -> TextClassifier:
    """Return a classifier that has labels for categories of moderations.

    Raises:
        ResourceError: it has none.
    """
    if classifier.classes.rules:
        return classifier
    labels = ", ".join(classifier.classes.labels[:20])
    with naming_node(node):
        raise ResourceError(
            "categories: none of the model's labels has the name of a category of moderations; say "
            f"which label stands for which category. The labels: {labels}"
        )
    raise AssertionError


class _NoClassifier:
    """The resource of a node with rules only."""

    unavailable_reason = ""

    async def close(self) -> None:
        return


_log: Final = logging.getLogger(__name__)

#: Characters that a classifier of answers may wait for.
MAX_WINDOW: Final = 100_000

_OPTIONS = messages.ModerationOptions
# graphrt.ModerationOptions.As
_ERROR: Final = 1


class ModerationCalculator(Calculator):
    """Refuses requests and answers that words, expressions or a classifier do not allow.

    Before a model, REQUEST in and out: a request that is refused goes on with its refusal, and
    models answer it without generating. After a model, DELTAS in and out: the rules check all text,
    and the classifier each ``window`` of it, before it is shown; a refusal stops the
    model. With REQUEST as a second input the node judges the request while the model reads it.

    Inputs:
        REQUEST (GenerationRequest, optional).
        DELTAS (Deltas, optional).
    Outputs:
        REQUEST (GenerationRequest): only without the input DELTAS.
        DELTAS (Deltas): with the input DELTAS.
    Input side packets: TEXT_CLASSIFICATION_NODE_RESOURCES for a classifier.
    Options:
        graphrt.ModerationOptions: rules, refusal, window, hold, as.
        graphrt.TextClassificationCalculatorOVOptions: the classifier.

    ::

        node {
          name: "moderate"
          calculator: "ModerationCalculator"
          input_side_packet: "TEXT_CLASSIFICATION_NODE_RESOURCES:classifiers"
          input_stream: "REQUEST:request"
          output_stream: "REQUEST:checked"
          node_options {
            [type.googleapis.com/graphrt.ModerationOptions] { words: "Project Bluebird" }
          }
          node_options {
            [type.googleapis.com/graphrt.TextClassificationCalculatorOVOptions] {
              models_path: "guard"
              categories { label: "insult" category: "harassment" }
            }
          }
        }
    """

    request = In[GenerationRequest]("REQUEST", optional=True)
    deltas = In[Deltas]("DELTAS", optional=True)
    passed = Out[GenerationRequest]("REQUEST", optional=True)
    judged = Out[Deltas]("DELTAS", optional=True)
    resources = SideIn[dict[str, Any]]("TEXT_CLASSIFICATION_NODE_RESOURCES", optional=True)
    options = Options(_OPTIONS)

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        has_deltas = contract.inputs.has_tag("DELTAS")
        contract.require(
            has_deltas or contract.inputs.has_tag("REQUEST"),
            "it needs an input: REQUEST before a model, DELTAS after it, or both after it",
        )
        contract.require(
            contract.outputs.has_tag("DELTAS") == has_deltas
            and contract.outputs.has_tag("REQUEST") == (not has_deltas),
            "the output is DELTAS with the input DELTAS, otherwise REQUEST",
        )
        has_classifier = has_options(contract.config, OPTIONS_TYPE)
        contract.require(
            not has_classifier
            or contract.input_side_packets.has_tag("TEXT_CLASSIFICATION_NODE_RESOURCES"),
            "the classifier needs input_side_packet: "
            '"TEXT_CLASSIFICATION_NODE_RESOURCES:classifiers"',
        )
        try:
            read_policy(contract.options(_OPTIONS), has_classifier=has_classifier)
        except PatternError as error:
            contract.require(False, str(error))
        if len(contract.inputs) > 1:
            contract.sync_sets = [[key] for key in contract.inputs]
            contract.timestamp_offset = None
        else:
            contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._node = cc.node_name
        self._classifier: TextClassifier | None = cc.side(self.resources, {}).get(cc.node_name)
        if not hasattr(self._classifier, "flagged"):
            self._classifier = None
        self._policy = read_policy(self.options, has_classifier=self._classifier is not None)
        #: The verdict on the request that came before the answer.
        self._verdict: Refusal | None = None
        self._answer = _ModeratedAnswer(self._policy)
        #: Items that came after a packet that was sent early.
        self._left: list[Delta] = []

    def process(self, cc: CalculatorContext) -> Awaitable[None] | None:
        if cc.is_connected(self.request) and not cc.is_empty(self.request):
            return self._judge_request(cc, cc.get(self.request))
        packet: Deltas = cc.get(self.deltas)
        items = iter(packet)
        made, self._left = self._left, []
        question = self._take(items, made)
        if question is not None:
            return self._judge_answer(cc, items, made, question)
        if made:
            cc.emit(self.judged, Deltas(made))
        return None

    # The request ----------------------------------------------------------------------------------

    async def _judge_request(self, cc: CalculatorContext, request: GenerationRequest) -> None:
        verdict = None if request.refusal is not None else await self._verdict_of(request)
        if cc.is_connected(self.deltas):
            self._verdict = verdict
        elif verdict is None:
            cc.emit(self.passed, request)
        elif self._policy.is_error:
            raise _error_of(verdict)
        else:
            cc.emit(self.passed, request.refused(verdict))

    async def _verdict_of(self, request: GenerationRequest) -> Refusal | None:
        texts = request_texts(request)
        policy = self._policy
        if policy.rules is not None:
            if sum(map(len, texts)) <= MOST_AT_ONCE:
                has_match = _match_in(texts, policy.rules)
            else:
                has_match = await asyncio.to_thread(_match_in, texts, policy.rules)
            if has_match:
                return self._refusal(policy.category)
        if self._classifier is not None and texts:
            set_current_record(request.record)
            categories = await self._classifier.flagged(texts)
            if categories:
                return self._refusal(categories[0])
        return None

    def _refusal(self, category: str | None) -> Refusal:
        _log.info("node %s: refused (%s)", self._node, category or "by a rule")
        return Refusal(self._policy.refusal, category)

    # The answer -----------------------------------------------------------------------------------

    def _take(self, items: Iterator[Delta], made: list[Delta]) -> _TextToJudge | None:
        """Take items until the classifier has to judge something."""
        for item in items:
            try:
                question = self._answer.feed(item, made)
            except TimeoutError:
                _log.error("node %s: a pattern took too long on a text", self._node)
                error = RequestError("the moderation took too long", code=Code.INTERNAL)
                self._answer.fail(error, made)
                continue
            if question is not None:
                return question
            if self._answer.has_match:
                self._answer.refuse(self._refusal(self._policy.category), made)
            elif self._verdict is not None and isinstance(item, Submitted | Begun | Failed):
                self._answer.refuse_request(item, self._verdict, made)
        return None

    async def _judge_answer(
        self,
        cc: CalculatorContext,
        items: Iterator[Delta],
        made: list[Delta],
        question: _TextToJudge,
    ) -> None:
        assert self._classifier is not None
        set_current_record(self._answer.record)
        left = list(items)
        is_last = question.item is not None or any(
            isinstance(item, Finished | Ended | Failed) for item in left
        )
        has_sent = bool(made) and not self._policy.holds and not is_last
        if has_sent:
            # What is judged already does not wait for the classifier.
            cc.emit(self.judged, Deltas(made))
            cc.flush()
            made = []
        items = iter(left)
        pending: _TextToJudge | None = question
        while pending is not None:
            try:
                categories = await self._classifier.flagged(pending.texts)
            except RequestError as error:
                self._answer.fail(error, made)
            else:
                if categories:
                    self._answer.refuse(self._refusal(categories[0]), made)
                else:
                    self._answer.go_on(pending, made)
            pending = self._take(items, made)
        if has_sent:
            self._left = made
        elif made:
            cc.emit(self.judged, Deltas(made))


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of a node, and the form of its refusals.

    Attributes:
        window: the characters that the classifier judges at a time; None without one.
        is_error: refuse with an error while nothing was sent.
    """

    rules: Patterns | None
    category: str | None
    refusal: str
    window: int | None
    holds: bool
    is_error: bool


def read_policy(options: messages.ModerationOptions, *, has_classifier: bool) -> Policy:
    """Return what the options of a node say.

    Raises:
        PatternError: an option cannot be used.
    """
    rules = None
    if options.words or options.patterns:
        rules = patterns_of(tuple(options.words), tuple(options.patterns), options.ignore_case)
    elif not has_classifier:
        raise PatternError("set words, patterns or a classifier: nothing would be refused")
    if not 1 <= options.window <= MAX_WINDOW:
        raise PatternError(f"window: {options.window} is not from 1 to {MAX_WINDOW}")
    return Policy(
        rules=rules,
        category=options.category or None,
        refusal=options.refusal,
        window=options.window if has_classifier else None,
        holds=options.hold,
        is_error=getattr(options, "as") == _ERROR,
    )


def _match_in(texts: Sequence[str], rules: Patterns) -> bool:
    """Return whether a text has a match.

    Raises:
        TimeoutError: an expression takes too long.
    """
    for text in texts:
        if len(text) <= MOST_AT_ONCE:
            if rules.spans_of(text):
                return True
        else:
            redactor = TextRedactor(rules, "")
            if redactor.feed(text) + redactor.finish() != text:
                return True
    return False


def _error_of(refusal: Refusal) -> RequestError:
    return RequestError(refusal.text or "the request is refused", reason="content_filter")


class _TextToJudge(NamedTuple):
    """Text of a choice that the classifier must judge.

    Attributes:
        item: follows the text, if it may be shown: the choice ends, or a tool of this server runs.
        said: the text of that item; "" without one.
    """

    choice: int
    guard: ChoiceGuard
    item: Finished | ToolCalled | ToolRan | None = None
    said: str = ""

    @property
    def texts(self) -> list[str]:
        """The texts to judge."""
        return [*self.guard.texts(), *([self.said] if self.said else ())]

    @property
    def needs_verdict(self) -> bool:
        """True if the classifier must judge the texts now."""
        is_said = bool(self.said) and self.guard.has_classifier
        return is_said or self.guard.needs_verdict(is_end=self.item is not None)


class _ModeratedAnswer:
    """One answer while it is judged."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._guards: list[ChoiceGuard] = []
        self._open: set[int] = set()
        self._begun: Begun | None = None
        #: Kept until something is shown, if an error may come instead.
        self._unsent: Begun | None = None
        self._stop = nothing
        self._is_cut = False
        self._has_failed = False

    @property
    def has_match(self) -> bool:
        """True if the rules refuse a choice that is open."""
        return not self._is_cut and any(self._guards[choice].has_match for choice in self._open)

    @property
    def record(self) -> Any:
        """The record of the request."""
        return None if self._begun is None else self._begun.request.record

    def feed(self, item: Delta, made: list[Delta]) -> _TextToJudge | None:
        """Add what may be shown now. Return a question if that depends on the classifier."""
        match item:
            case Begun():
                self._begin(item, made)
            case Submitted():
                self._is_cut = self._has_failed = False
                made.append(item)
            case Ended():
                self._stop = nothing
                if not self._has_failed:
                    self._show(made)
                    made.append(item)
            case Failed():
                self._end_with(item, made)
            case _ if self._is_cut:
                pass
            case Gained(choice, events, _, _, _):
                guard = self._guards[choice]
                guard.feed(events)
                return self._go_on(_TextToJudge(choice, guard), made)
            case Finished(choice, _, _, _):
                guard = self._guards[choice]
                guard.finish()
                return self._go_on(_TextToJudge(choice, guard, item), made)
            case ToolCalled() | ToolRan():
                guard = self._guards[item.choice]
                said = tool_text(item)
                if self._policy.rules is not None and _match_in([said], self._policy.rules):
                    guard.has_match = True
                return self._go_on(_TextToJudge(item.choice, guard, item, said), made)
        return None

    def go_on(self, question: _TextToJudge, made: list[Delta]) -> None:
        """Add what the classifier has judged, and does not refuse."""
        question.guard.pass_judged()
        self._add(question, made)

    def refuse(self, refusal: Refusal, made: list[Delta]) -> None:
        """End all open choices with a refusal, and stop the model. Its end is still to come."""
        self._is_cut = True
        self._stop()
        if self._unsent is not None and self._policy.is_error:
            self._unsent = None
            self._has_failed = True
            made.append(Failed(_error_of(refusal)))
            return
        self._show(made)
        for choice in sorted(self._open):
            made.append(Gained(choice, (Refused(refusal.text, refusal.category),)))
            made.append(Finished(choice, FinishReason.CONTENT_FILTER))
        self._open.clear()

    def refuse_request(
        self, item: Submitted | Begun | Failed, refusal: Refusal, made: list[Delta]
    ) -> None:
        """Refuse the whole answer to a request, at one of its first items."""
        match item:
            case Submitted(stop, _):
                stop()
            case Begun():
                self.refuse(refusal, made)
            case Failed(_, request):
                if self._begun is None and request is not None and made[-1:] == [item]:
                    made.pop()
                    if self._policy.is_error:
                        made.append(Failed(_error_of(refusal), request))
                    else:
                        made += refusal_deltas(request, refusal.text, refusal.category)

    def fail(self, error: RequestError, made: list[Delta]) -> None:
        """End the answer with an error, and stop the model."""
        if self._has_failed:
            return
        self._is_cut = self._has_failed = True
        self._stop()
        self._unsent = None
        made.append(Failed(error))

    def _begin(self, begun: Begun, made: list[Delta]) -> None:
        self._begun = begun
        self._stop = begun.stop
        self._is_cut = self._has_failed = False
        self._open = set(range(begun.choices))
        policy = self._policy
        self._guards = [
            ChoiceGuard(policy.rules, window=policy.window, holds=policy.holds)
            for _ in range(begun.choices)
        ]
        if policy.is_error:
            self._unsent = begun
        else:
            made.append(begun)

    def _end_with(self, failed: Failed, made: list[Delta]) -> None:
        self._stop = nothing
        if self._has_failed:
            return
        if self._is_cut and self._begun is not None:
            made.append(Ended(self._begun.usage))
            return
        self._show(made)
        made.append(failed)

    def _go_on(self, question: _TextToJudge, made: list[Delta]) -> _TextToJudge | None:
        if question.guard.has_match:
            self._gain(question, made)
            return None
        if question.needs_verdict:
            self._gain(question, made)
            return question
        self._add(question, made)
        return None

    def _add(self, question: _TextToJudge, made: list[Delta]) -> None:
        self._gain(question, made)
        match question.item:
            case None:
                return
            case Finished():
                # Its raw text may be of choices that are not judged yet.
                item: Delta = structs.replace(question.item, verbose=None)
                self._open.discard(question.choice)
            case _:
                item = question.item
        self._show(made)
        made.append(item)

    def _gain(self, question: _TextToJudge, made: list[Delta]) -> None:
        events = question.guard.take()
        if events:
            self._show(made)
            made.append(Gained(question.choice, events))

    def _show(self, made: list[Delta]) -> None:
        """Add the beginning, if it was kept."""
        if self._unsent is not None:
            made.append(self._unsent)
            self._unsent = None
