"""`TextModel`: many questions in a real process, its deaths, and limits."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.text.text_models import text_model
from calculators.text.text_models.model_options import read_text_model
from calculators.text.text_models.text_model import Outputs, TextModel
from calculators.text.text_models.text_tokenizer import Detokenize, Tokenize
from graph_runtime import Code, ResourceError
from tests.calculators.text.embeddings.tiny_embedder import make_model
from tests.calculators.text.text_models.dying_process import MODULE, Words
from tests.calculators.text.text_models.word_tokenizer import with_special, write_tokenizer
from tests.support.patience import PATIENCE


def run(directory: Path, scenario: Callable[[TextModel], Awaitable[None]]) -> None:
    """Run a scenario with a model of the words' tokenizer."""
    make_model(directory)
    write_tokenizer(directory)

    async def started() -> None:
        options = read_text_model("./", "", "", directory)
        model = TextModel(MODULE, options, head={}, name="test model")
        ready = await model.start()
        assert ready.columns == 1
        try:
            await scenario(model)
        finally:
            await model.close()

    asyncio.run(asyncio.wait_for(started(), PATIENCE))


async def ask(model: TextModel, *texts: str) -> Outputs:
    return await model.ask(Words(list(texts)), characters=sum(map(len, texts)), param="input")


def hanging(model: TextModel, how: str = "hang") -> asyncio.Task[Outputs]:
    """Ask a question that is too long to be tokenized at once, and is not answered."""
    return asyncio.create_task(ask(model, how, *["the cat sat on the mat"] * 200))


def test_many_questions_are_answered_at_once(tmp_path: Path) -> None:
    texts = ["the cat", "a dog ran to a house", "", "mat " * 20]

    async def scenario(model: TextModel) -> None:
        asked = [texts[: 1 + number % 4] for number in range(200)]
        answers = await asyncio.gather(*(ask(model, *each) for each in asked))
        for each, outputs in zip(asked, answers, strict=True):
            wanted = [with_special(text) for text in each]
            assert outputs.values.tolist() == [[float(sum(ids))] for ids in wanted]
            assert outputs.tokens == [len(ids) for ids in wanted]
            assert outputs.note == len(each)

    run(tmp_path, scenario)


def test_a_long_question_is_answered_beside_short_ones(tmp_path: Path) -> None:
    async def scenario(model: TextModel) -> None:
        hangs = hanging(model)
        assert (await ask(model, "a dog")).tokens == [4]
        assert not hangs.done()
        hangs.cancel()

    run(tmp_path, scenario)


def test_all_texts_of_a_large_question_are_answered(tmp_path: Path) -> None:
    async def scenario(model: TextModel) -> None:
        outputs = await ask(model, *["the cat sat on the mat"] * 2048)
        assert outputs.values.shape == (2048, 1)
        assert outputs.tokens == [8] * 2048

    run(tmp_path, scenario)


def test_a_question_that_crashes_the_process_is_refused_and_others_are_answered(
    tmp_path: Path,
) -> None:
    async def scenario(model: TextModel) -> None:
        first = model.pid
        guilty = asyncio.create_task(ask(model, "crash"))
        others = [asyncio.create_task(ask(model, f"cat {n * 'mat '}")) for n in range(20)]
        with pytest.raises(RequestError, match="ended the test model twice, and is refused"):
            await guilty
        for number, outputs in enumerate(await asyncio.gather(*others)):
            assert outputs.tokens == [3 + number]
        second = model.pid
        assert second != first
        # It is known now, and does not get there again.
        with pytest.raises(RequestError, match="is refused"):
            await ask(model, "crash")
        assert (await ask(model, "the cat")).tokens == [4]
        assert model.pid == second

    run(tmp_path, scenario)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_questions_are_asked_again_when_the_process_was_killed(tmp_path: Path) -> None:
    async def scenario(model: TextModel) -> None:
        lost = hanging(model, f"hang in {model.pid}")
        await ask(model, "a dog")
        assert model.pid is not None
        os.kill(model.pid, signal.SIGKILL)
        assert (await lost).values.shape == (201, 1)

    run(tmp_path, scenario)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_question_is_not_asked_a_third_time(tmp_path: Path) -> None:
    async def scenario(model: TextModel) -> None:
        lost = hanging(model)
        for _ in range(2):
            await ask(model, "a dog")
            assert model.pid is not None
            os.kill(model.pid, signal.SIGKILL)
        with pytest.raises(RequestError, match="ended twice before it answered") as caught:
            await lost
        assert caught.value.code is Code.UNAVAILABLE

    run(tmp_path, scenario)


def test_an_error_in_the_process_is_the_questions_own_and_shows_nothing(tmp_path: Path) -> None:
    async def scenario(model: TextModel) -> None:
        with pytest.raises(RequestError) as caught:
            await ask(model, "raise")
        assert str(caught.value) == "the request cannot be handled"
        assert (await ask(model, "the cat")).tokens == [4]

    run(tmp_path, scenario)


def test_a_question_whose_asker_leaves_is_forgotten(tmp_path: Path) -> None:
    async def scenario(model: TextModel) -> None:
        left = [asyncio.create_task(ask(model, *["the cat sat"] * 2048)) for _ in range(20)]
        left += [hanging(model), hanging(model)]
        await ask(model, "a dog")
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        assert all(each.cancelled() for each in left)
        assert (await ask(model, "the cat")).tokens == [4]

    run(tmp_path, scenario)


def test_waiting_questions_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_model, "MOST_QUESTIONS", 3)
    monkeypatch.setattr(text_model, "MOST_CHARACTERS", 100)

    async def scenario(model: TextModel) -> None:
        asked = [asyncio.create_task(ask(model, "cat")) for _ in range(4)]
        done = await asyncio.gather(*asked, return_exceptions=True)
        refused = [each for each in done if isinstance(each, RequestError)]
        assert [each.code for each in refused] == [Code.RESOURCE_EXHAUSTED]
        with pytest.raises(RequestError, match="too many requests wait"):
            await ask(model, "cat " * 100)
        assert (await ask(model, "cat")).tokens == [3]

    run(tmp_path, scenario)


def test_what_is_too_long_for_the_model_does_not_get_there(tmp_path: Path) -> None:
    async def scenario(model: TextModel) -> None:
        with pytest.raises(RequestError, match="a text has 42 tokens, and the model takes 1 to 32"):
            await ask(model, "cat " * 40)
        with pytest.raises(RequestError, match="not Unicode") as caught:
            await ask(model, "\ud800")
        assert caught.value.param == "input"

    run(tmp_path, scenario)


def test_tokens_and_texts_of_tokens(tmp_path: Path) -> None:
    async def scenario(model: TextModel) -> None:
        outputs = await model.ask(Tokenize(["a dog"], with_offsets=True), characters=5)
        ids = with_special("a dog")
        assert outputs.note == [[ids], [[[0, 0], [0, 1], [2, 5], [0, 0]]], 0]
        text = await model.ask(Detokenize(ids, skips_special=True), characters=4)
        assert text.note == "a dog"
        with pytest.raises(RequestError, match="the token id 99 is not in the model's vocabulary"):
            await model.ask(Detokenize([1, 99]), characters=2)

    run(tmp_path, scenario)


def test_a_closed_model_answers_nothing(tmp_path: Path) -> None:
    async def scenario(model: TextModel) -> None:
        hangs = hanging(model)
        await ask(model, "a dog")
        await model.close()
        for asked in (hangs, asyncio.create_task(ask(model, "a dog"))):
            with pytest.raises(RequestError, match="is shut down") as caught:
                await asked
            assert caught.value.code is Code.UNAVAILABLE

    run(tmp_path, scenario)


def test_a_model_that_is_none_of_the_task_is_refused(tmp_path: Path) -> None:
    make_model(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")

    async def scenario() -> None:
        options = read_text_model("./", "", "", tmp_path)
        model = TextModel(MODULE, options, head={}, name="test model")
        with pytest.raises(ResourceError, match=r"tokenizer\.json cannot be read"):
            await model.start()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))
