"""Values beside the text: from tensors, from parameters, or from ``sampling_parameters``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.json_depth import MOST_DEPTH, nests_deeper
from calculators.tensors.inference import InferRequest
from calculators.tensors.inference.place import place_of
from graph_runtime.errors import did_you_mean
from servers.serving.text_generation import values
from servers.serving.text_generation.inputs import INPUTS, TEXT_INPUT, Input

_SAMPLING: Final = "sampling_parameters"

#: Members of a completion request that are made here, with hints for clients that send them.
_OWN_MEMBERS: Final = {
    "model": "the request names the model",
    "prompt": f"the text is the tensor {TEXT_INPUT}",
    "messages": f"the text is the tensor {TEXT_INPUT}; chat makes a message of it",
    "stream_options": "use return_num_input_tokens and return_num_output_tokens",
    "echo": "use exclude_input_in_output",
    "logprobs": "use return_log_probs or return_cumulative_logprob",
    "top_logprobs": "use return_log_probs or return_cumulative_logprob",
}

#: Flags of Triton's backends for outputs that do not exist here; false is accepted.
_REFUSED_FLAGS: Final = {
    "return_logprobs": "use return_log_probs",
    "return_context_logits": "the engine does not report them",
    "return_generation_logits": "the engine does not report them",
}

#: Accepted without effect: nothing is padded.
_WITHOUT_EFFECT: Final = "pad_id"

_A_FLAG: Final = INPUTS["stream"]
_A_NUMBER: Final = INPUTS["top_k"]


@dataclass(frozen=True, slots=True)
class InputValue:
    """A value from the client, and the client's name of its place. An empty list is no value."""

    name: str
    place: str
    value: Any


def all_given(request: InferRequest) -> Iterator[InputValue]:
    """Yield tensors, parameters, and the members of ``sampling_parameters``, in this order.

    Raises:
        RequestError: one is unknown, of a wrong type, or asks for an output that does not exist.
    """
    sampling: list[InputValue] = []
    for each in (*_tensors(request), *_parameters(request)):
        if each.name != _SAMPLING:
            yield from _meant(each)
        elif sampling:
            refuse(each.place, f"given twice: {sampling[0].place} is the same; leave one out")
        else:
            sampling.append(each)
    for one in sampling:
        for member in _members(one):
            yield from _meant(member)


def refuse(place: str, why: str) -> NoReturn:
    """Raise the error about a place in the request."""
    raise RequestError(f"{place}: {why}", param=place)


def _meant(given: InputValue) -> Iterator[InputValue]:
    """Yield ``given`` unless it is empty."""
    why = _REFUSED_FLAGS.get(given.name)
    if why is None:
        if given.value != [] and given.name != _WITHOUT_EFFECT:
            yield given
    elif given.value:
        refuse(given.place, f"not supported: {why}")


def _tensors(request: InferRequest) -> Iterator[InputValue]:
    for index, tensor in enumerate(request.inputs):
        place = place_of("inputs", index, tensor.name)
        expected = _expected(tensor.name)
        if expected is None:
            near = did_you_mean(tensor.name[:64], INPUTS)
            refuse(place, f"no such input of this model.{near}")
        yield InputValue(tensor.name, place, values.of_tensor(expected, tensor, place))


def _parameters(request: InferRequest) -> Iterator[InputValue]:
    for name, value in request.parameters.items():
        yield _of_json(name, value, f"parameters.{_short(name)}")


def _members(sampling: InputValue) -> Iterator[InputValue]:
    """Yield the members of the JSON object ``sampling_parameters``; none for null."""
    try:
        if isinstance(sampling.value, str) and nests_deeper(sampling.value):
            refuse(sampling.place, f"the JSON is nested deeper than {MOST_DEPTH} levels")
        members = json.loads(sampling.value or "{}", parse_constant=_refuse_constant)
        # An escaped half of a surrogate pair is valid JSON, but not text.
        json.dumps(members, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        members = None
    if not isinstance(members, dict):
        refuse(sampling.place, "a JSON object is needed")
    for name, value in members.items():
        if name == _SAMPLING:
            refuse(sampling.place, f"{_SAMPLING} cannot hold itself")
        if value is not None:
            yield _of_json(name, value, f"{_SAMPLING}.{_short(name)}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _of_json(name: str, value: Any, place: str) -> InputValue:
    """Return a value, converted if the name is an input; the graph checks the others."""
    if name == TEXT_INPUT or name in _OWN_MEMBERS:
        refuse(place, _OWN_MEMBERS.get(name, "this is a tensor"))
    if isinstance(value, float) and not math.isfinite(value):
        refuse(place, "a finite number is needed")
    expected = _expected(name)
    return InputValue(
        name, place, value if expected is None else values.of_json(expected, value, place)
    )


def _expected(name: str) -> Input | None:
    if name in _REFUSED_FLAGS:
        return _A_FLAG
    return _A_NUMBER if name == _WITHOUT_EFFECT else INPUTS.get(name)


def _short(name: str) -> str:
    return name if len(name) <= 64 else f"{name[:64]}..."
