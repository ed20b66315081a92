"""Refused requests: the error has the name that the client used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import CustomTensor, InferRequest, Tensor
from graph_runtime import Code
from servers.serving.text_generation.generation_request import read_request
from tests.servers.serving.text_generation.completing import asking, refused, tensor

REFUSED: dict[str, tuple[InferRequest, str]] = {
    "no text": (
        asking(text=None),
        'the input "text_input" is missing: a BYTES tensor with one text',
    ),
    "two texts": (
        asking(tensor("text_input", "a", "b"), text=None),
        'inputs[0] "text_input": one element is needed; the shape is [2]',
    ),
    "no element": (
        asking(Tensor.of("temperature", np.zeros((0, 1), np.float32))),
        'inputs[1] "temperature": one element is needed; the shape is [0, 1]',
    ),
    "text of another type": (
        asking(tensor("text_input", 1), text=None),
        'inputs[0] "text_input": a tensor of BYTES is needed, not INT32',
    ),
    "text that is not UTF-8": (
        asking(tensor("text_input", b"\xff"), text=None),
        'inputs[0] "text_input": the text is not UTF-8',
    ),
    "a number for a flag": (
        asking(tensor("stream", 1)),
        'inputs[1] "stream": a tensor of BOOL is needed, not INT32',
    ),
    "a fraction for a count": (
        asking(tensor("max_tokens", 1.5)),
        'inputs[1] "max_tokens": a tensor of INT32 is needed, not FP32',
    ),
    "no number": (
        asking(tensor("temperature", float("nan"))),
        'inputs[1] "temperature": a finite number is needed',
    ),
    "an unknown tensor": (
        asking(tensor("text_imput", "x")),
        'inputs[1] "text_imput": no such input of this model. Did you mean "text_input"?',
    ),
    "an unknown output": (
        asking(outputs="text_output logits"),
        'outputs[1] "logits": no such output of this model.',
    ),
    "a tensor and a parameter": (
        asking(tensor("temperature", 1.0), temperature=0.5),
        'parameters.temperature: given twice: inputs[1] "temperature" is the same; leave one out',
    ),
    "two names of one thing": (
        asking(tensor("random_seed", 1), seed=2),
        'parameters.seed: given twice: inputs[1] "random_seed" is the same; leave one out',
    ),
    "sampling parameters twice": (
        asking(tensor("sampling_parameters", "{}"), sampling_parameters="{}"),
        'parameters.sampling_parameters: given twice: inputs[1] "sampling_parameters" is the same;'
        " leave one out",
    ),
    "sampling parameters that are not object": (
        asking(sampling_parameters="[1]"),
        "parameters.sampling_parameters: a JSON object is needed",
    ),
    "sampling parameters with half of a surrogate pair": (
        asking(sampling_parameters=r'{"stop": "\ud800"}'),
        "parameters.sampling_parameters: a JSON object is needed",
    ),
    "sampling parameters that are not JSON": (
        asking(tensor("sampling_parameters", '{"top_p": NaN}')),
        'inputs[1] "sampling_parameters": a JSON object is needed',
    ),
    "a word for a number": (
        asking(sampling_parameters='{"max_tokens": "many"}'),
        'sampling_parameters.max_tokens: an integer is needed, not "many"',
    ),
    "a word for a flag": (
        asking(exclude_input_in_output="perhaps"),
        'parameters.exclude_input_in_output: true or false is needed, not "perhaps"',
    ),
    "infinity": (asking(top_p=float("inf")), "parameters.top_p: a finite number is needed"),
    "a member of another model": (
        asking(sampling_parameters='{"model": "other"}'),
        "sampling_parameters.model: the request names the model",
    ),
    "sampling parameters that are a number": (
        asking(sampling_parameters=7),
        "parameters.sampling_parameters: a JSON object is needed",
    ),
    "a text as a parameter": (
        asking(text=None, text_input="x"),
        "parameters.text_input: this is a tensor",
    ),
    "a prompt as a parameter": (
        asking(prompt="x"),
        "parameters.prompt: the text is the tensor text_input",
    ),
    "pieces where there is one answer": (
        asking(stream=True),
        "parameters.stream: this call has one answer; ask for pieces through ModelStreamInfer or"
        " generate_stream",
    ),
    "logits": (
        asking(tensor("return_context_logits", True)),
        'inputs[1] "return_context_logits": not supported: the engine does not report them',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_request_is_refused_by_name(case: str) -> None:
    request, reason = REFUSED[case]
    with pytest.raises(RequestError) as caught:
        read_request(request, "model", "1", in_stream=False)
    assert caught.value.message == reason
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_a_tensor_of_an_unknown_type_is_refused() -> None:
    custom = CustomTensor("text_input", "string", (1,), memoryview(b"x"))
    with pytest.raises(RequestError, match=r'inputs\[0\] "text_input": a tensor of BYTES is'):
        read_request(InferRequest("model", inputs=(custom,)), "model", "1", in_stream=False)


def test_long_names_are_shortened_in_errors() -> None:
    long = "x" * 10_000
    for request in (asking(tensor(long, 1)), asking(sampling_parameters=f'{{"{long}": NaN}}')):
        with pytest.raises(RequestError) as caught:
            read_request(request, "model", "1", in_stream=False)
        assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    ("tensors", "parameters", "param", "place"),
    [
        ([tensor("top_k", 0)], {}, "top_k", 'inputs[1] "top_k"'),
        ([tensor("random_seed", 0)], {}, "seed", 'inputs[1] "random_seed"'),
        ([tensor("stop_words", "a")], {}, "stop[0]", 'inputs[1] "stop_words"'),
        ([], {"top_k": 0}, "top_k", "parameters.top_k"),
        ([], {"sampling_parameters": '{"n": 0}'}, "n", "sampling_parameters.n"),
        ([], {}, "prompt", 'inputs[0] "text_input"'),
        ([], {"chat": True}, "messages[0].content", 'inputs[0] "text_input"'),
        ([], {"logit_bias": 1}, "logit_bias", "parameters.logit_bias"),
    ],
)
def test_refusals_of_the_graph_have_the_clients_names(
    tmp_path: Path, tensors: list[Tensor], parameters: dict[str, Any], param: str, place: str
) -> None:
    refusal = RequestError(f'Invalid value for "{param}": it is wrong', param=param)
    assert refused(tmp_path, asking(*tensors, **parameters), refusal) == f"{place}: it is wrong"


def test_other_refusals_are_passed_on(tmp_path: Path) -> None:
    refusal = RequestError("try again later", code=Code.RESOURCE_EXHAUSTED, retry_after=1)
    assert refused(tmp_path, asking(), refusal) == "try again later"
