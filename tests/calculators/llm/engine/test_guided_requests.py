"""Order in which requests with a grammar begin."""

from __future__ import annotations

from threading import Event

from calculators.llm.engine.core import GuidedRequests
from calculators.llm.engine.messages import Add, NewTokens
from calculators.llm.engine.settings import GenerationSettings
from calculators.llm.grammars.grammar import Grammar


class Compiler:
    """Compiler that compiles the grammars that the test releases."""

    def __init__(self) -> None:
        self.compiled: list[str] = []
        self.may_go_on = Event()

    def is_compiled(self, grammar: Grammar) -> bool:
        return grammar.text in self.compiled

    def make_room(self) -> None:
        return

    def compile(self, grammar: Grammar) -> None:
        assert self.may_go_on.wait(20)
        self.compiled.append(grammar.text)


def put(guided: GuidedRequests, number: int, text: str) -> None:
    grammar = Grammar(text)
    guided.put(Add(number, b"", GenerationSettings(grammar=grammar)), grammar)


def order_of(guided: GuidedRequests, count: int) -> list[int]:
    """Return the requests as they begin, each with a token at once."""
    begun: list[int] = []
    while len(begun) < count:
        ready, failed = guided.take()
        assert not failed
        begun += (request.request_id for request in ready)
        guided.note([NewTokens(request.request_id, 0, []) for request in ready])
        guided.wait(20)
    return begun


def test_a_simple_grammar_does_not_wait_for_long_ones() -> None:
    compiler = Compiler()
    guided = GuidedRequests(compiler)
    for number in range(5):
        put(guided, number, f"{number}" * 100)
    assert guided.take() == ([], [])
    put(guided, 9, "x")
    compiler.may_go_on.set()
    guided.wait(20)
    assert order_of(guided, 3)[:2] == [9, 0]


def test_every_grammar_is_compiled_in_the_end() -> None:
    compiler = Compiler()
    compiler.may_go_on.set()
    guided = GuidedRequests(compiler)
    put(guided, 0, "long" * 100)
    for number in range(1, 30):
        put(guided, number, f"{number:02}")
    assert order_of(guided, 12).index(0) < 10


def test_requests_with_the_same_grammar_begin_together() -> None:
    compiler = Compiler()
    compiler.may_go_on.set()
    guided = GuidedRequests(compiler)
    for number, text in enumerate(("aa", "b", "aa")):
        put(guided, number, text)
    assert order_of(guided, 3) == [1, 0, 2]
    assert compiler.compiled == ["b", "aa"]
