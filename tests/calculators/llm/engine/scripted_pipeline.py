"""A `Pipeline` without a model, which follows its requests."""

from __future__ import annotations

from calculators.llm.engine.core import GenerationRefused
from calculators.llm.engine.messages import Add, Metrics, NewTokens
from calculators.llm.engine.settings import GenerationSettings
from calculators.llm.grammars.grammar import Grammar
from tests.calculators.llm.demo_model import ids_of

#: A request of this one token is refused; one of the second token breaks the pipeline at its first
#: step.
REFUSED = ids_of(404)
BREAKING = ids_of(666)


class ScriptedPipeline:
    """Pipeline in which each request gains the tokens 0, 1, 2, ... one per step and sequence.

    Tokens that need not be reported at once are held back, unless all are asked for.
    """

    def __init__(self) -> None:
        self.running: dict[int, tuple[int, GenerationSettings]] = {}
        self.held: dict[int, list[int]] = {}
        self.cancelled: list[int] = []
        self.steps = 0
        self.compiled: list[Grammar] = []
        self._is_broken = False

    @property
    def has_work(self) -> bool:
        return bool(self.running)

    @property
    def has_news(self) -> bool:
        return bool(self.running)

    def add(self, request: Add) -> None:
        if request.input_ids in (REFUSED, b""):
            raise GenerationRefused("such a prompt is not taken")
        self._is_broken = self._is_broken or request.input_ids == BREAKING
        self.running[request.request_id] = (0, request.settings)

    def cancel(self, request_id: int) -> None:
        self.cancelled.append(request_id)
        self.running.pop(request_id, None)
        self.held.pop(request_id, None)

    def step(self, *, reports_all: bool = True) -> list[NewTokens]:
        if self._is_broken:
            raise RuntimeError("the scripted pipeline broke")
        self.steps += 1
        gained: list[NewTokens] = []
        for request_id, (count, settings) in list(self.running.items()):
            is_last = count + 1 == settings.max_new_tokens
            ids = [*self.held.pop(request_id, []), count]
            self.running[request_id] = (count + 1, settings)
            if is_last:
                del self.running[request_id]
            elif count and not reports_all:
                self.held[request_id] = ids
                continue
            gained += [
                NewTokens(request_id, sequence, ids, [], "length" if is_last else None)
                for sequence in range(settings.num_return_sequences)
            ]
        return gained

    def metrics(self) -> Metrics:
        return Metrics(running=len(self.running), cache_usage=0.1 * len(self.running))

    def is_compiled(self, grammar: Grammar) -> bool:
        return grammar in self.compiled

    def make_room(self) -> None:
        pass

    def compile(self, grammar: Grammar) -> None:
        self.compiled.append(grammar)
