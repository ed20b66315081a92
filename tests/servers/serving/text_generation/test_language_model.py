"""The demo model with its engine, called through KServe's tensors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from calculators.kit.requests.http_payload import NoClient, RequestError
from calculators.llm.task import TASK
from graph_runtime import REGISTRY
from servers.config import find_graph
from servers.serving.loaded_graph import LoadedGraph, load_graph
from servers.serving.text_generation.text_model import TextGenerationModel
from tests.servers.serving.text_generation.completing import Answers, asking, given, tensor
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

DEMO = ROOT / "examples" / "models" / "demo"
PROMPT = "The cat"

Ask = Callable[[Callable[[TextGenerationModel], Coroutine[Any, Any, Any]]], Any]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Runs a scenario with the model."""
    TASK.register(REGISTRY)
    with asyncio.Runner() as runner:
        graph: LoadedGraph = runner.run(load_graph(find_graph(DEMO), REGISTRY))
        model = TextGenerationModel("demo", graph.answer)
        yield lambda scenario: runner.run(asyncio.wait_for(scenario(model), PATIENCE))
        runner.run(graph.close())


GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 12}


def test_a_whole_answer_and_its_pieces_are_the_same_text(ask: Ask) -> None:
    answers = Answers()

    async def scenario(model: TextGenerationModel) -> dict[str, list[Any]]:
        whole = await model.infer(
            asking(
                text=PROMPT,
                return_finish_reason=True,
                return_log_probs=True,
                return_num_input_tokens=True,
                return_num_output_tokens=True,
                **GREEDY,
            ),
            NoClient(),
        )
        async with model.open_stream(asking(), NoClient(), answers.emit) as stream:
            for id in ("a", "b"):
                await stream.send(
                    asking(text=PROMPT, id=id, return_num_output_tokens=True, **GREEDY)
                )
            stream.close_inputs()
            await stream.wait()
        return given(whole)

    whole = ask(scenario)
    assert whole["text_output"][0].startswith(PROMPT)
    assert whole["finish_reason"] == ["length"]
    assert whole["num_output_tokens"] == [12]
    assert whole["num_input_tokens"][0] > 0
    assert len(whole["output_log_probs"][0]) == 12
    assert sum(whole["output_log_probs"][0]) == pytest.approx(whole["cum_log_probs"][0], abs=1e-4)
    for id in ("a", "b"):
        texts = answers.texts(id)
        assert len(texts) >= 2  # its first token is sent at once
        assert PROMPT + "".join(texts) == whole["text_output"][0]
        assert sum(given(each)["num_output_tokens"][0] for each in answers.of(id)) == 12
        assert answers.of(id)[-1].parameters == {"triton_final_response": True}


def test_a_chat_is_answered_through_the_models_template(ask: Ask) -> None:
    async def scenario(model: TextGenerationModel) -> str:
        request = asking(text="Hello", chat=True, **GREEDY)
        text: str = given(await model.infer(request, NoClient()))["text_output"][0]
        return text

    assert ask(scenario)


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ([tensor("top_p", 3.0)], 'inputs[1] "top_p": 3.0 is above the maximum 1'),
        ([tensor("stop_words", "x" * 300)], 'inputs[1] "stop_words": 300 characters are more than'),
        ([tensor("bad_words", "x")], 'inputs[1] "bad_words": the member is not supported'),
        ([tensor("max_tokens", 10**9)], 'inputs[0] "text_input": The model holds'),
    ],
)
def test_refusals_of_the_model_name_the_tensor(ask: Ask, tensors: Any, reason: str) -> None:
    async def scenario(model: TextGenerationModel) -> str:
        with pytest.raises(RequestError) as caught:
            await model.infer(asking(*tensors), NoClient())
        return caught.value.message

    assert ask(scenario).startswith(reason)


def test_an_empty_text_is_refused(ask: Ask) -> None:
    async def scenario(model: TextGenerationModel) -> None:
        with pytest.raises(RequestError, match=r'^inputs\[0\] "text_input": the prompt is empty$'):
            await model.infer(asking(text=""), NoClient())

    ask(scenario)
