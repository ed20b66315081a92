"""Requests for text: KServe's tensors and parameters as requests to ``/v3/completions``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from calculators.kit.requests.http_payload import ClientConnection, HttpPayload, RequestError
from calculators.tensors.inference import InferRequest
from calculators.tensors.inference.place import place_of, quoted
from graph_runtime.errors import did_you_mean
from servers.serving.text_generation.input_value import InputValue, all_given, refuse
from servers.serving.text_generation.inputs import INPUTS, TEXT_INPUT
from servers.serving.text_generation.outputs import ASKED_BY, OF_LOGPROBS, OUTPUT_NAMES, TEXT_OUTPUT

_WANTS_EMPTY_FINAL: Final = "triton_enable_empty_final_response"


@dataclass(frozen=True, slots=True)
class TextRequest:
    """A request for text, ready for a graph.

    Attributes:
        model, version: the model that answers.
        id: the id of the `InferRequest`.
        uri, body: the HTTP request for the graph.
        in_stream: the request came through a stream.
        in_pieces: the answer is sent piece by piece.
        prefix: text before every answer: the input, or "".
        outputs: the names of outputs to send, in order.
        wants_empty_final: an answer without outputs marks the end of a stream.
        places: the client's names of the members of the body.
    """

    model: str
    version: str
    id: str
    uri: str
    body: Mapping[str, Any]
    in_stream: bool
    in_pieces: bool
    prefix: str
    outputs: tuple[str, ...]
    wants_empty_final: bool
    places: Mapping[str, str]

    @property
    def answers(self) -> int:
        """The number of texts that are requested; 1 if the value is not a valid number."""
        n = self.body.get("n")
        return n if isinstance(n, int) and 1 <= n <= 1000 else 1

    def payload(self, client: ClientConnection) -> HttpPayload:
        """Return the payload for the graph."""
        headers = {"content-type": "application/json"}
        return HttpPayload(self.uri, headers, json.dumps(self.body).encode(), self.body, client)

    def blamed(self, error: RequestError) -> RequestError:
        """Return the graph's error with the client's name of the tensor or parameter."""
        param = error.param or ""
        member = re.split(r"[.\[]", param, maxsplit=1)[0]
        place = self.places.get(member)
        if place is None:
            return error
        message = error.message.removeprefix(f'Invalid value for "{param}": ')
        return RequestError(
            f"{place}: {message}",
            param=place,
            code=error.code,
            retry_after=error.retry_after,
            reason=error.reason,
        )


def read_request(
    request: InferRequest, model: str, version: str, *, in_stream: bool
) -> TextRequest:
    """Read a request and check everything that the graph does not check.

    In a stream, answers are sent piece by piece unless ``stream`` is false. The input precedes a
    whole answer of a completion unless ``exclude_input_in_output`` is true, as in vLLM's backend.

    Raises:
        RequestError: an input is missing, unknown, given twice or of a wrong type.
    """
    given: dict[str, InputValue] = {}
    for each in all_given(request):
        if each.name in given:
            refuse(each.place, f"given twice: {given[each.name].place} is the same; leave one out")
        given[each.name] = each
    text = given.pop(TEXT_INPUT, None)
    if text is None:
        raise RequestError(
            f"the input {quoted(TEXT_INPUT)} is missing: a BYTES tensor with one text",
            param=TEXT_INPUT,
        )
    stream = given.get("stream")
    in_pieces = _flag(given, "stream", default=in_stream)
    if stream is not None and in_pieces and not in_stream:
        refuse(
            stream.place,
            "this call has one answer; ask for pieces through ModelStreamInfer or generate_stream",
        )
    is_chat = _flag(given, "chat", default=False)
    excludes = _flag(given, "exclude_input_in_output", default=in_pieces or is_chat)
    wants_empty_final = given.pop(_WANTS_EMPTY_FINAL, None)
    outputs = _outputs(request, given)
    body, places = _members(given)
    for member in ("prompt", "messages"):
        places[member] = text.place
    body["model"] = model
    body["stream"] = in_pieces
    if in_pieces:
        body["stream_options"] = {"include_usage": True}
    if OF_LOGPROBS.intersection(outputs):
        body["logprobs"] = True if is_chat else 0
    if is_chat:
        body["messages"] = [{"role": "user", "content": text.value}]
    else:
        body["prompt"] = text.value
    return TextRequest(
        model,
        version,
        request.id,
        "/v3/chat/completions" if is_chat else "/v3/completions",
        body,
        in_stream,
        in_pieces,
        "" if excludes else text.value,
        outputs,
        wants_empty_final is not None and wants_empty_final.value is True,
        places,
    )


def _members(given: Mapping[str, InputValue]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the members of the body, and the client's name of each.

    Names that are not inputs are passed on: the graph refuses those that it does not support.
    """
    body: dict[str, Any] = {}
    places: dict[str, str] = {}
    for each in given.values():
        expected = INPUTS.get(each.name)
        member = each.name if expected is None else expected.member
        if member in body:
            refuse(each.place, f"given twice: {places[member]} is the same; leave one out")
        body[member] = each.value
        places[member] = each.place
    return body, places


def _outputs(request: InferRequest, given: dict[str, InputValue]) -> tuple[str, ...]:
    wanted = {TEXT_OUTPUT}
    for name, asked in ASKED_BY.items():
        if _flag(given, name, default=False):
            wanted.update(asked)
    if request.requested_outputs:
        wanted = {output.name for output in request.requested_outputs}
    for index, output in enumerate(request.requested_outputs):
        if output.name not in OUTPUT_NAMES:
            place = place_of("outputs", index, output.name)
            near = did_you_mean(output.name[:64], OUTPUT_NAMES)
            refuse(place, f"no such output of this model.{near}")
    return tuple(name for name in OUTPUT_NAMES if name in wanted)


def _flag(given: dict[str, InputValue], name: str, *, default: bool) -> bool:
    """Remove a flag from ``given`` and return its value."""
    one = given.pop(name, None)
    return default if one is None else bool(one.value)
