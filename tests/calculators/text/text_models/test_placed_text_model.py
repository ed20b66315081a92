"""An encoder model in a place of its own answers as one in a child process of the server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from calculators.kit.model_initializer import ModelHost
from calculators.kit.requests.http_payload import RequestError
from calculators.text.text_models.model_options import read_text_model
from calculators.text.text_models.text_model import text_model
from calculators.text.text_models.text_tokenizer import Tokenize
from graph_runtime import Code
from tests.calculators.here_place import HerePlace
from tests.calculators.text.embeddings.tiny_embedder import make_model
from tests.calculators.text.text_models.dying_process import MODULE, Words
from tests.calculators.text.text_models.word_tokenizer import with_special, write_tokenizer
from tests.support.patience import PATIENCE


def test_questions_and_refusals_reach_through(tmp_path: Path) -> None:
    make_model(tmp_path)
    write_tokenizer(tmp_path)
    options = read_text_model("./", "", "", tmp_path)

    async def scenario() -> None:
        model = text_model(
            MODULE, options, head={}, kind="test", host=ModelHost("model", place=HerePlace())
        )
        assert (await model.start()).columns == 1
        words = Words(["the cat", "a dog"])
        outputs, tokenized = await asyncio.gather(
            model.ask(words, characters=12, param="input"),
            model.ask(Tokenize(["the cat"]), characters=7),
        )
        wanted = [with_special(text) for text in words.texts]
        assert outputs.values.tolist() == [[float(sum(ids))] for ids in wanted]
        assert outputs.tokens == [len(ids) for ids in wanted]
        assert outputs.note == 2
        assert tokenized.note[0] == [wanted[0]]
        with pytest.raises(RequestError, match="not Unicode") as refused:
            await model.ask(Words(["\ud800"]), characters=1, param="input")
        assert refused.value.param == "input"
        asking = asyncio.create_task(
            model.ask(Words(["hang", *["the cat"] * 400]), characters=2800)
        )
        await asyncio.sleep(0)
        asking.cancel()
        assert (await model.ask(words, characters=12)).tokens == outputs.tokens
        await model.close()
        with pytest.raises(RequestError) as closed:
            await model.ask(words, characters=12)
        assert closed.value.code is Code.UNAVAILABLE

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))
