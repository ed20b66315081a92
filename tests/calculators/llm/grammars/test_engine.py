"""The engine with grammars: answers follow them, and other requests do not wait."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import jsonschema
import pytest

from calculators.llm.engine import genai_pipeline
from calculators.llm.engine.constrained_decoding import GrammarCache, vocabulary_size
from calculators.llm.engine.core import EngineCore
from calculators.llm.engine.engine import ProcessEngine
from calculators.llm.engine.genai_pipeline import GenaiPipeline
from calculators.llm.engine.messages import Add, CancelGeneration, FailedGeneration, Step
from calculators.llm.engine.settings import EngineSettings, GenerationSettings
from calculators.llm.grammars import formats
from calculators.llm.grammars.form_grammar import grammar_of
from calculators.llm.grammars.formats import Format
from calculators.llm.grammars.grammar import AnswerForm, Grammar
from tests.calculators.llm.demo_model import DEMO, ONE_THREAD, demo_tokenizer, ids_of
from tests.calculators.llm.engine.engines import demo_engine, generate, part
from tests.calculators.llm.grammars.answers import Answers, schema_of
from tests.support.apart import Apart

SCHEMA = schema_of(
    name={"type": "string", "maxLength": 12}, age={"type": "integer", "minimum": 1, "maximum": 99}
)


def grammar(form: Format) -> Grammar:
    return grammar_of(AnswerForm(json.dumps(form)))


@pytest.fixture(scope="module")
def engine(runner: asyncio.Runner) -> Iterator[ProcessEngine]:
    engine = runner.run(demo_engine())
    yield engine
    runner.run(engine.close())


def guided(form: Format, answers: Answers, tokens: int = 200) -> Add:
    prompt = "<|im_start|>user\nTom is 30 years old.<|im_end|>\n<|im_start|>assistant\n"
    return Add(
        0, answers.tokens(prompt), GenerationSettings(max_new_tokens=tokens, grammar=grammar(form))
    )


def test_two_grammars_run_beside_a_plain_stream(
    engine: ProcessEngine, answers: Answers, runner: asyncio.Runner
) -> None:
    tokenizer = demo_tokenizer()

    async def run() -> None:
        plain = asyncio.create_task(generate(engine, part(300)))
        made = await asyncio.gather(
            generate(engine, guided(formats.json_schema(SCHEMA, ""), answers)),
            generate(engine, guided(formats.regex("[a-c]{5}-[0-9]{3}"), answers)),
        )
        [by_schema], [by_regex] = made
        assert by_schema.reasons == by_regex.reasons == ["stop"]
        value = json.loads(tokenizer.decode(by_schema.ids))
        jsonschema.validate(value, SCHEMA)
        text = tokenizer.decode(by_regex.ids)
        assert len(text) == 9
        assert set(text[:5]) <= set("abc")
        [gained] = await plain
        assert len(gained.ids) == 300

    runner.run(run())


def test_the_length_ends_an_answer_with_a_grammar(
    engine: ProcessEngine, answers: Answers, runner: asyncio.Runner
) -> None:
    [gained] = runner.run(generate(engine, guided(formats.regex("[a-c]{50}"), answers, 3)))
    assert gained.reasons == ["length"]
    assert len(gained.ids) == 3


def test_a_grammar_that_the_library_refuses_fails_its_request_only(
    engine: ProcessEngine, answers: Answers, runner: asyncio.Runner
) -> None:
    broken = Add(
        0,
        answers.tokens("Hi"),
        GenerationSettings(max_new_tokens=3, grammar=Grammar("root ::= nothing")),
    )

    async def run() -> None:
        before = engine.pid
        plain = asyncio.create_task(generate(engine, part(100)))
        with pytest.raises(Exception, match="the grammar cannot be used"):
            await generate(engine, broken)
        [gained] = await plain
        assert len(gained.ids) == 100
        assert engine.pid == before

    runner.run(run())


class _Core:
    """A core with the demo model, in a process of its own."""

    def __init__(self, most_grammars: int | None = None) -> None:
        # The process is that of the core alone.
        if most_grammars is not None:
            pytest.MonkeyPatch().setattr(
                genai_pipeline, "open_grammar_cache", partial(_open_cache, most_grammars)
            )
        settings = EngineSettings(model_path=str(DEMO), device="CPU", plugin_config={**ONE_THREAD})
        self._pipeline = GenaiPipeline(settings)
        self._core = EngineCore(self._pipeline)

    @property
    def has_work(self) -> bool:
        return self._core.has_work

    def handle(self, message: Add | CancelGeneration) -> None:
        self._core.handle(message)

    def step(self) -> list[Step]:
        return [output for output in self._core.step() if isinstance(output, Step)]

    def is_compiled(self, grammar: Grammar) -> bool:
        return self._pipeline.is_compiled(grammar)


def _open_cache(
    most: int, model_path: str, tokenizer: Any, config: Any, token_count: int
) -> GrammarCache:
    size = vocabulary_size(model_path, token_count)
    assert size is not None
    return GrammarCache(tokenizer, size, max_count=most)


@pytest.fixture(scope="module")
def core(in_process_engine: None) -> Apart:
    return Apart(_Core)


def steps(core: Apart, count: int) -> list[Step]:
    return [output for _ in range(count) for output in core.call("step")]


def test_a_stream_gains_a_token_at_every_step_while_a_grammar_is_compiled(core: Apart) -> None:
    endless = GenerationSettings(max_new_tokens=1500, ignore_eos=True)
    core.call("handle", Add(70_001, ids_of(*range(40, 60)), endless))
    steps(core, 3)
    many = {f"p{i}": {"type": "string"} for i in range(200)}
    slow = grammar(formats.json_schema({"type": "object", "properties": many}, ""))
    core.call(
        "handle",
        Add(70_002, ids_of(*range(40, 60)), GenerationSettings(max_new_tokens=4, grammar=slow)),
    )
    gained: dict[int, list[int]] = {70_001: [], 70_002: []}
    step = 0
    while len(gained[70_002]) < 4:
        step += 1
        for output in steps(core, 1):
            for tokens in output.tokens:
                gained[tokens.request_id] += [step] * len(tokens.token_ids)
    assert gained[70_001] == list(range(1, step + 1)), "a step without a token for the stream"
    assert gained[70_002][0] > 1, "the grammar was compiled in a step"
    core.call("handle", CancelGeneration(70_001))


def test_a_request_that_is_cancelled_while_it_waits_is_forgotten(core: Apart) -> None:
    form = grammar(formats.regex("[a-d]{2}x{33}"))
    core.call("handle", Add(70_010, ids_of(40), GenerationSettings(max_new_tokens=4, grammar=form)))
    steps(core, 1)
    core.call("handle", CancelGeneration(70_010))
    for _ in range(200):
        if not core.call("has_work"):
            break
        assert not [tokens for output in steps(core, 1) for tokens in output.tokens]
    assert not core.call("has_work")
    # Its form is still being compiled: the core compiles one at a time.
    core.call("handle", Add(70_011, ids_of(40), GenerationSettings(max_new_tokens=4, grammar=form)))
    while core.call("has_work"):
        steps(core, 1)


def test_a_failure_is_reported_once(core: Apart) -> None:
    broken = Grammar("root ::= nowhere")
    core.call(
        "handle", Add(70_020, ids_of(40), GenerationSettings(max_new_tokens=4, grammar=broken))
    )
    failed: list[FailedGeneration] = []
    while core.call("has_work"):
        failed += [each for output in steps(core, 1) for each in output.failed]
    assert [each.request_id for each in failed] == [70_020]
    assert ".cpp" not in failed[0].reason


def test_grammars_are_forgotten_when_they_are_too_many(in_process_engine: None) -> None:
    core = Apart(_Core, 2)
    made = [grammar(formats.regex(f"x{number}y")) for number in range(5)]
    ids = range(70_030, 70_035)
    for request_id, each in zip(ids, made, strict=True):
        settings = GenerationSettings(max_new_tokens=20, grammar=each)
        core.call("handle", Add(request_id, ids_of(40, 41), settings))
    gained: dict[int, list[int]] = {request_id: [] for request_id in ids}
    while core.call("has_work"):
        for output in steps(core, 1):
            for tokens in output.tokens:
                gained[tokens.request_id] += tokens.token_ids
    tokenizer = demo_tokenizer()
    texts = [tokenizer.decode(each, skip_special_tokens=True) for each in gained.values()]
    assert texts == [f"x{number}y" for number in range(5)]
    assert not core.call("is_compiled", made[0])
    assert core.call("is_compiled", made[4])
