"""Tokens that a draft model or the prompt proposes: answers are the same as without."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calculators.llm.engine.core import GenerationRefused
from calculators.llm.engine.genai_pipeline import GenaiPipeline
from calculators.llm.engine.messages import Add, NewTokens
from calculators.llm.engine.settings import (
    DraftModel,
    EngineSettings,
    GenerationSettings,
    PluginValue,
)
from tests.calculators.llm.demo_model import DEMO, ONE_THREAD, demo_tokenizer
from tests.calculators.llm.engine.eagle3_model import make_eagle3_model
from tests.calculators.llm.engine.pipeline_apart import PipelineApart

DRAFT = DEMO.parent / "demo_draft"
#: In bf16 a pass over several tokens rounds differently from a pass over one.
EXACT: dict[str, PluginValue | dict[str, dict[str, PluginValue]]] = {
    "INFERENCE_PRECISION_HINT": "f32",
    **ONE_THREAD,
}
QUESTIONS = (
    "Count from 3 to 12.",
    "What is graphrt?",
    "Tell me a story about a fox.",
    "Write a poem",
    "hello",
    "Repeat three times: red blue green",
    "Spell apple.",
    "What is the capital of Peru?",
)
#: Longer than one pass computes, unless an option says otherwise.
LONG = " ".join(["The red fox sees the blue bird and the green frog."] * 30) + " What is graphrt?"
#: Tokens of an answer: several times as many as are proposed at once.
MOST = 40
PROPOSED: dict[str, dict[str, Any]] = {
    "plain": {},
    "draft": {"num_assistant_tokens": 5},
    "lookup": {"num_assistant_tokens": 5, "max_ngram_size": 3},
    "eagle3": {"num_assistant_tokens": 5},
}


def open_engine(kind: str, eagle3: Path) -> PipelineApart:
    settings = {
        "plain": EngineSettings(model_path=str(DEMO), device="CPU", plugin_config=EXACT),
        "draft": EngineSettings(
            model_path=str(DEMO),
            device="CPU",
            plugin_config=EXACT,
            draft=DraftModel(path=str(DRAFT)),
            dynamic_split_fuse=False,
            max_num_batched_tokens=8448,
        ),
        "eagle3": EngineSettings(
            model_path=str(DEMO),
            device="CPU",
            plugin_config=EXACT,
            draft=DraftModel(path=str(eagle3), is_eagle3=True),
            dynamic_split_fuse=False,
            max_num_batched_tokens=8448,
        ),
        "lookup": EngineSettings(
            model_path=str(DEMO), device="CPU", plugin_config={**EXACT, "prompt_lookup": True}
        ),
    }
    return PipelineApart(GenaiPipeline, settings[kind])


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PipelineApart]:
    eagle3 = make_eagle3_model(tmp_path_factory.mktemp("models") / "eagle3")
    return {kind: open_engine(kind, eagle3) for kind in PROPOSED}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return demo_tokenizer()


def ids_of(tokenizer: Any, question: str) -> bytes:
    text = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    ids = tokenizer.encode(text, add_special_tokens=False).input_ids.data
    return np.asarray(ids, dtype=np.int64).tobytes()


def generate(
    engine: PipelineApart, prompts: Sequence[bytes], *, seeds: Sequence[int] = (), **settings: Any
) -> tuple[list[list[NewTokens]], int]:
    """Generate from all prompts at once; return the tokens of each, and the number of steps.

    ``seeds``: one for each prompt.
    """
    for number, prompt in enumerate(prompts):
        given = {"max_new_tokens": MOST, **settings}
        if seeds:
            given["rng_seed"] = seeds[number]
        engine.add(Add(number, prompt, GenerationSettings(**given)))
    gained: list[list[NewTokens]] = [[] for _ in prompts]
    steps = 0
    while engine.has_work:
        for tokens in engine.step():
            assert isinstance(tokens, NewTokens)
            gained[tokens.request_id].append(tokens)
        steps += 1
    return gained, steps


def all_ids(gained: Sequence[NewTokens]) -> list[int]:
    return [token for each in gained for token in each.token_ids]


class Alone:
    """Answers of the model alone, each made once: every kind is compared with the same ones."""

    def __init__(self, engine: PipelineApart) -> None:
        self._engine = engine
        self._known: dict[str, tuple[list[list[NewTokens]], int]] = {}

    def generate(
        self, prompts: Sequence[bytes], **settings: Any
    ) -> tuple[list[list[NewTokens]], int]:
        key = repr((prompts, settings))
        if key not in self._known:
            self._known[key] = generate(self._engine, prompts, **settings)
        return self._known[key]


@pytest.fixture(scope="module")
def alone(engines: dict[str, PipelineApart]) -> Alone:
    return Alone(engines["plain"])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"ignore_eos": True},
        {"repetition_penalty": 1.3},
        {"frequency_penalty": -0.8},
        {"logprobs": True},
        {"logprobs": True, "echo": True},
        {"stop_token_ids": (14,)},
        {"max_new_tokens": 1},
        {"max_new_tokens": 7},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["draft", "lookup", "eagle3"])
def test_greedy_answers_are_those_of_the_model_alone(
    kind: str,
    settings: dict[str, Any],
    engines: dict[str, PipelineApart],
    alone: Alone,
    tokenizer: Any,
) -> None:
    prompts = [ids_of(tokenizer, question) for question in QUESTIONS]
    expected, plain_steps = alone.generate(prompts, **settings)
    answers, steps = generate(engines[kind], prompts, **settings, **PROPOSED[kind])
    for question, plain, other in zip(QUESTIONS, expected, answers, strict=True):
        assert all_ids(other) == all_ids(plain), question
        assert other[-1].finish_reason == plain[-1].finish_reason, question
        logprobs = [[p for each in gained for p in each.logprobs] for gained in (other, plain)]
        assert logprobs[0] == pytest.approx(logprobs[1], abs=1e-3), question
    if (
        kind == "draft"
        and settings.get("max_new_tokens", MOST) > 2
        and "penalty" not in str(settings)
    ):
        assert steps < plain_steps


@pytest.mark.parametrize("kind", ["draft", "lookup", "eagle3"])
@pytest.mark.parametrize("count", [1, 32])
def test_the_number_of_candidates_does_not_change_the_answer(
    kind: str, count: int, engines: dict[str, PipelineApart], alone: Alone, tokenizer: Any
) -> None:
    prompts = [ids_of(tokenizer, question) for question in QUESTIONS[:4]]
    expected, _ = alone.generate(prompts)
    proposed = {**PROPOSED[kind], "num_assistant_tokens": count}
    answers, _ = generate(engines[kind], prompts, **proposed)
    assert [all_ids(each) for each in answers] == [all_ids(each) for each in expected]


def test_a_confidence_threshold_ends_the_draft_models_proposals(
    engines: dict[str, PipelineApart], alone: Alone, tokenizer: Any
) -> None:
    prompts = [ids_of(tokenizer, question) for question in QUESTIONS[:4]]
    expected, plain_steps = alone.generate(prompts)
    answers, steps = generate(engines["draft"], prompts, assistant_confidence_threshold=0.6)
    assert [all_ids(each) for each in answers] == [all_ids(each) for each in expected]
    assert all(each.logprobs == [] for gained in answers for each in gained)
    assert steps < plain_steps / 2
    answers, _ = generate(engines["eagle3"], prompts, assistant_confidence_threshold=0.6)
    assert [all_ids(each) for each in answers] == [all_ids(each) for each in expected]


def test_eagle3_takes_no_prompt_of_a_single_token(
    engines: dict[str, PipelineApart], tokenizer: Any
) -> None:
    one = np.array([20], dtype=np.int64).tobytes()
    with pytest.raises(GenerationRefused, match="single token"):
        engines["eagle3"].add(
            Add(1, one, GenerationSettings(max_new_tokens=3, **PROPOSED["eagle3"]))
        )
    answers, _ = generate(
        engines["eagle3"], [ids_of(tokenizer, QUESTIONS[0])], **PROPOSED["eagle3"]
    )
    assert tokenizer.decode(all_ids(answers[0])).startswith("3, 4, 5, 6")
    for kind in ("draft", "lookup"):
        (answer,), _ = generate(engines[kind], [one], max_new_tokens=3, **PROPOSED[kind])
        (plain,), _ = generate(engines["plain"], [one], max_new_tokens=3)
        assert all_ids(answer) == all_ids(plain)


@pytest.mark.parametrize("kind", ["draft", "lookup", "eagle3"])
def test_many_requests_with_long_prompts_run_beside_each_other(
    kind: str, engines: dict[str, PipelineApart], alone: Alone, tokenizer: Any
) -> None:
    """The library's draft model fails if prompts are split, or if candidates do not all fit."""
    prompts = [ids_of(tokenizer, text) for text in (LONG, *QUESTIONS)] * 3
    expected, _ = alone.generate(prompts, max_new_tokens=30, ignore_eos=True)
    answers, _ = generate(
        engines[kind], prompts, max_new_tokens=30, ignore_eos=True, **PROPOSED[kind]
    )
    assert [all_ids(each) for each in answers] == [all_ids(each) for each in expected]


@pytest.mark.parametrize("kind", ["draft", "lookup", "eagle3"])
def test_samples_are_the_models_own(
    kind: str, engines: dict[str, PipelineApart], alone: Alone, tokenizer: Any
) -> None:
    """The model is sure of these answers; a sample of another model's would be nonsense."""
    prompt = ids_of(tokenizer, QUESTIONS[0])
    (expected,), _ = alone.generate([prompt])
    seeds = range(1, 11)
    answers, _ = generate(
        engines[kind],
        [prompt] * len(seeds),
        seeds=seeds,
        do_sample=True,
        temperature=0.6,
        **PROPOSED[kind],
    )
    for answer in answers:
        assert tokenizer.decode(all_ids(answer)) == tokenizer.decode(all_ids(expected))


@pytest.mark.parametrize("kind", ["draft", "lookup", "eagle3"])
def test_the_same_seed_gives_the_same_sample(
    kind: str, engines: dict[str, PipelineApart], tokenizer: Any
) -> None:
    prompts = [ids_of(tokenizer, QUESTIONS[2])]
    sampling = {"do_sample": True, "temperature": 1.2, **PROPOSED[kind]}
    one, again, other = (
        all_ids(generate(engines[kind], prompts, rng_seed=seed, **sampling)[0][0])
        for seed in (3, 3, 4)
    )
    assert one == again != other


@pytest.mark.parametrize("kind", ["draft", "lookup", "eagle3"])
def test_a_cancelled_request_ends_at_once_and_others_continue(
    kind: str, engines: dict[str, PipelineApart], tokenizer: Any
) -> None:
    engine = engines[kind]
    settings = GenerationSettings(max_new_tokens=500, ignore_eos=True, **PROPOSED[kind])
    engine.add(Add(1, ids_of(tokenizer, QUESTIONS[2]), settings))
    engine.add(Add(2, ids_of(tokenizer, QUESTIONS[0]), settings))
    engine.step()
    assert engine.metrics().cache_usage > 0
    engine.cancel(1)
    assert {tokens.request_id for tokens in engine.step()} <= {2}
    engine.cancel(2)
    assert not engine.has_work
    answers, _ = generate(engine, [ids_of(tokenizer, QUESTIONS[0])], **PROPOSED[kind])
    assert tokenizer.decode(all_ids(answers[0])).startswith("3, 4, 5, 6")


@pytest.mark.parametrize("kind", ["draft", "lookup", "eagle3"])
def test_a_refused_request_disturbs_no_other(
    kind: str, engines: dict[str, PipelineApart], tokenizer: Any
) -> None:
    engine, prompt = engines[kind], ids_of(tokenizer, QUESTIONS[0])
    beams = GenerationSettings(max_new_tokens=5, num_beams=3, **PROPOSED[kind])
    with pytest.raises(GenerationRefused):
        engine.add(Add(1, prompt, beams))
    answers, _ = generate(engine, [prompt], **PROPOSED[kind])
    assert tokenizer.decode(all_ids(answers[0])).startswith("3, 4, 5, 6")


def test_accepted_candidates_are_counted(engines: dict[str, PipelineApart], tokenizer: Any) -> None:
    engine = engines["draft"]
    before = engine.metrics()
    (answer,), _ = generate(engine, [ids_of(tokenizer, QUESTIONS[0])], **PROPOSED["draft"])
    after = engine.metrics()
    passes = after.candidate_passes - before.candidate_passes
    accepted = after.accepted_candidates - before.accepted_candidates
    # The prompt's pass gives the first token; each later pass adds one to the accepted ones.
    assert passes == len(answer) - 1
    assert passes + accepted == len(all_ids(answer)) - 1
    assert engines["plain"].metrics().candidate_passes == 0


@pytest.mark.parametrize(
    ("draft", "words"),
    [
        ({"path": str(DEMO.parent)}, "draft_models_path: "),
        ({"path": str(DRAFT), "device": "XYZ"}, "draft_device: "),
    ],
)
def test_a_draft_model_that_cannot_be_loaded_is_named(draft: dict[str, Any], words: str) -> None:
    settings = EngineSettings(model_path=str(DEMO), device="CPU", draft=DraftModel(**draft))
    with pytest.raises(RuntimeError) as caught:
        PipelineApart(GenaiPipeline, settings)
    assert str(caught.value).startswith(words)
    assert "/" not in str(caught.value)
