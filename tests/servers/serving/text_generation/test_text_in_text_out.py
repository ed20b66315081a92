"""One request, one answer: tensors and parameters in, tensors out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calculators.kit.requests.http_payload import NoClient
from calculators.tensors.inference import Datatype, Tensor
from graph_runtime import Code, GraphError, RunError
from servers.serving.text_generation.text_model import TextGenerationModel
from tests.servers.serving.text_generation.completing import (
    SCRIPT,
    asking,
    given,
    inferring,
    serving,
    tensor,
)


def test_the_text_is_the_prompt_and_precedes_the_answer(tmp_path: Path) -> None:
    response = inferring(tmp_path, asking(text="Count: "))
    assert given(response) == {"text_output": ["Count: one two three"]}
    assert (response.model, response.version, response.id) == ("model", "1", "1")
    assert response.parameters == {}
    assert SCRIPT.asked[0].uri == "/v3/completions"
    assert SCRIPT.body == {"model": "model", "prompt": "Count: ", "stream": False}


def test_the_answer_names_model_and_version(tmp_path: Path) -> None:
    # Later requests of a stream may omit the name, and 0 means any version.
    response = inferring(tmp_path, replace(asking(), model="", version="0"))
    assert (response.model, response.version) == ("model", "1")
    assert SCRIPT.body["model"] == "model"


@pytest.mark.parametrize("as_tensor", [True, False])
def test_the_input_can_be_left_out_of_the_answer(tmp_path: Path, as_tensor: bool) -> None:
    flag: dict[str, Any] = {} if as_tensor else {"exclude_input_in_output": True}
    tensors = [tensor("exclude_input_in_output", True)] if as_tensor else []
    assert given(inferring(tmp_path, asking(*tensors, **flag))) == {
        "text_output": ["one two three"]
    }


def test_sampling_can_be_set_by_tensors_with_one_element(tmp_path: Path) -> None:
    inferring(
        tmp_path,
        asking(
            Tensor.of("max_tokens", np.array([[20]], dtype=np.uint32)),
            Tensor.of("temperature", np.array(0.95, dtype=np.float32)),
            tensor("top_k", 3),
            tensor("top_p", 0.5, dtype=np.float16),
            tensor("random_seed", 7, dtype=np.uint64),
            tensor("repetition_penalty", 1.5, dtype=np.float64),
            tensor("stop_words", b"END", ""),
            tensor("bad_words", ""),
            tensor("end_id", 2),
            tensor("pad_id", 2),
            tensor("return_generation_logits", False),
            tensor("beam_width", 1),
            tensor("ignore_eos", False),
        ),
    )
    assert SCRIPT.body == {
        "model": "model",
        "prompt": "Hi",
        "stream": False,
        "max_tokens": 20,
        "temperature": 0.95,
        "top_k": 3,
        "top_p": 0.5,
        "seed": 7,
        "repetition_penalty": 1.5,
        "stop": ["END"],
        "stop_token_ids": [2],
        "best_of": 1,
        "ignore_eos": False,
    }


def test_sampling_can_be_set_by_parameters(tmp_path: Path) -> None:
    inferring(tmp_path, asking(max_tokens=20, temperature=0.5, stop="END", seed="7", n="2"))
    body = SCRIPT.body
    assert {name: body[name] for name in ("max_tokens", "temperature", "stop", "seed", "n")} == {
        "max_tokens": 20,
        "temperature": 0.5,
        "stop": "END",
        "seed": 7,
        "n": 2,
    }


@pytest.mark.parametrize("as_tensor", [True, False])
def test_sampling_can_be_set_by_vllms_json_object(tmp_path: Path, as_tensor: bool) -> None:
    # vLLM's own client writes the numbers as strings.
    text = json.dumps(
        {
            "temperature": "0.1",
            "max_tokens": "100",
            "ignore_eos": "True",
            "stop": ["a", "b"],
            "guided_choice": ["yes", "no"],
            "top_p": None,
        }
    )
    if as_tensor:
        inferring(tmp_path, asking(tensor("sampling_parameters", text)))
    else:
        inferring(tmp_path, asking(sampling_parameters=text))
    assert SCRIPT.body == {
        "model": "model",
        "prompt": "Hi",
        "stream": False,
        "temperature": 0.1,
        "max_tokens": 100,
        "ignore_eos": True,
        "stop": ["a", "b"],
        "guided_choice": ["yes", "no"],
    }


def test_several_answers_are_elements_of_one_tensor(tmp_path: Path) -> None:
    response = inferring(tmp_path, asking(tensor("num_return_sequences", 2), chat=False))
    assert given(response) == {"text_output": ["Hione two three"] * 2}


FLAGS = (
    "return_finish_reason",
    "return_cumulative_logprob",
    "return_log_probs",
    "return_num_input_tokens",
    "return_num_output_tokens",
)


@pytest.mark.parametrize("is_chat", [False, True])
def test_further_outputs_are_sent_on_request(tmp_path: Path, is_chat: bool) -> None:
    asked: dict[str, Any] = dict.fromkeys(FLAGS, True)
    response = inferring(tmp_path, asking(chat=is_chat, exclude_input_in_output=True, **asked))
    assert given(response) == {
        "text_output": ["one two three"],
        "finish_reason": ["stop"],
        "cumulative_logprob": [-1.5],
        "cum_log_probs": [-1.5],
        "output_log_probs": [[-0.5, -0.5, -0.5]],
        "num_input_tokens": [5],
        "num_output_tokens": [4],
    }
    counts = response.outputs[-1]
    assert isinstance(counts, Tensor)
    assert counts.datatype is Datatype.UINT32


def test_outputs_can_be_chosen_by_name(tmp_path: Path) -> None:
    response = inferring(
        tmp_path, asking(outputs="num_input_tokens finish_reason", return_log_probs=True)
    )
    assert given(response) == {"finish_reason": ["stop"], "num_input_tokens": [5]}


def test_the_parameter_chat_makes_the_text_a_message(tmp_path: Path) -> None:
    response = inferring(tmp_path, asking(text="Hello", chat=True, max_tokens=9))
    assert given(response) == {"text_output": ["one two three"]}
    assert SCRIPT.asked[0].uri == "/v3/chat/completions"
    assert SCRIPT.body == {
        "model": "model",
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 9,
        "stream": False,
    }


def test_metadata_list_inputs_and_outputs() -> None:
    async def never(*_: object) -> None:
        raise AssertionError("nothing is asked")

    metadata = TextGenerationModel("model", never).metadata()
    assert (metadata.name, metadata.versions, metadata.platform) == ("model", ("1",), "graphrt")
    text, *others = metadata.inputs
    assert (text.name, text.datatype, text.shape, text.is_optional) == (
        "text_input",
        "BYTES",
        (1,),
        False,
    )
    assert all(each.is_optional for each in others)
    assert {each.name: each.datatype for each in others}["stream"] == "BOOL"
    output = metadata.outputs[0]
    assert (output.name, output.datatype, output.shape) == ("text_output", "BYTES", (-1,))


@pytest.mark.parametrize(
    "packets", [["no JSON"], ['{"object": "list"}'], ["[]"], ['{"choices": [7]}']]
)
def test_an_invalid_answer_of_the_graph_is_an_error(
    tmp_path: Path, packets: list[str | bytes]
) -> None:
    async def scenario(model: TextGenerationModel) -> None:
        SCRIPT.raw = packets
        with pytest.raises(GraphError, match=r"^the graph's answer is not a completion$") as caught:
            await model.infer(asking(), NoClient())
        assert caught.value.code is Code.INTERNAL

    serving(tmp_path, scenario)


def test_a_missing_answer_is_an_error_that_names_the_node(tmp_path: Path) -> None:
    async def scenario(model: TextGenerationModel) -> None:
        SCRIPT.raw = []
        with pytest.raises(GraphError, match=r"gave no answer: node .* sent nothing") as caught:
            await model.infer(asking(), NoClient())
        assert caught.value.code is Code.INTERNAL

    serving(tmp_path, scenario)


def test_a_failure_of_the_graph_is_reported(tmp_path: Path) -> None:
    async def scenario(model: TextGenerationModel) -> None:
        SCRIPT.refusal = ValueError("broken")
        with pytest.raises(RunError) as caught:
            await model.infer(asking(), NoClient())
        assert isinstance(caught.value.errors[0].__cause__, ValueError)

    serving(tmp_path, scenario)
