"""An encoder model that several workers share: numbers of questions, and batches counted once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import msgspec

from calculators.text.text_models.messages import (
    Computed,
    EncoderAnswer,
    EncoderQuestion,
    EncoderRefused,
    EncoderWorking,
)
from calculators.text.text_models.model_options import read_text_model
from calculators.text.text_models.process import QuestionRoutes
from calculators.text.text_models.text_model import Outputs, TextModel
from tests.calculators.kit.child_process.sharing import SharingWorkers, with_workers
from tests.calculators.text.embeddings.tiny_embedder import make_model
from tests.calculators.text.text_models.dying_process import MODULE, Words
from tests.calculators.text.text_models.word_tokenizer import with_special, write_tokenizer

NOTHING: Final = msgspec.Raw(b"")


def test_questions_of_two_workers_are_answered_by_one_process(tmp_path: Path) -> None:
    make_model(tmp_path)
    write_tokenizer(tmp_path)
    texts = ["the cat", "a dog ran to a house", "", "mat " * 20]

    async def started(workers: SharingWorkers, number: int) -> TextModel:
        options = read_text_model("./", "", "", tmp_path)
        with workers.worker(number):
            model = TextModel(MODULE, options, head={}, name="test model")
        await model.start()
        return model

    def ask(model: TextModel, text: str) -> asyncio.Task[Outputs]:
        return asyncio.create_task(model.ask(Words([text]), characters=len(text), param="input"))

    async def scenario(workers: SharingWorkers) -> None:
        models = await asyncio.gather(started(workers, 1), started(workers, 2))
        assert models[0].pid == models[1].pid
        asked = [(model, texts[number % 4]) for number in range(200) for model in models]
        tasks = [ask(*each) for each in asked]
        for (_, text), task in zip(asked, tasks, strict=True):
            assert (await task).values.tolist() == [[float(sum(with_special(text)))]]
        # One worker ends in the middle of a question; the other goes on.
        hangs = ask(models[0], "hang " + "the cat sat on the mat " * 200)
        await asyncio.sleep(0)
        hangs.cancel()
        await models[0].close()
        assert (await ask(models[1], "a dog")).tokens == [4]
        await models[1].close()

    with_workers(scenario)()


def test_numbers_are_translated_and_a_batch_is_counted_by_one_worker() -> None:
    routes = QuestionRoutes()
    numbers = [routes.begin(link, EncoderQuestion(7, "client", NOTHING)) for link in (1, 2)]
    assert len(set(numbers)) == 2
    batch = Computed([EncoderAnswer(number, b"", [1]) for number in numbers], 2, 2, [0.0, 0.0])
    (one, first), (other, second) = routes.parts(batch, (1, 2))
    assert (one, first) == (1, Computed([EncoderAnswer(7, b"", [1])], 2, 2, [0.0, 0.0]))
    assert (other, second) == (2, EncoderAnswer(7, b"", [1]))
    assert list(routes.parts(Computed([], 8, 8, []), (1, 2))) == [(1, Computed([], 8, 8, []))]
    assert [link for link, _ in routes.parts(EncoderWorking(), (1, 2))] == [1, 2]
    assert routes.end(1) == routes.end(2) == []


def test_without_workers_numbers_stay_and_all_goes_to_the_parent() -> None:
    routes = QuestionRoutes()
    assert routes.begin(0, EncoderQuestion(7, "client", NOTHING)) == 7
    assert list(routes.parts(EncoderRefused(7, "no"), ())) == [(0, EncoderRefused(7, "no"))]
    assert list(routes.parts(EncoderWorking(), ())) == [(0, EncoderWorking())]


def test_a_worker_that_ends_leaves_its_questions() -> None:
    routes = QuestionRoutes()
    numbers = [
        routes.begin(link, EncoderQuestion(count, "client", NOTHING))
        for link in (1, 2)
        for count in (1, 2)
    ]
    routes.finish(numbers[0])
    assert routes.end(1) == [numbers[1]]
    assert sorted(routes.end(2)) == numbers[2:]
