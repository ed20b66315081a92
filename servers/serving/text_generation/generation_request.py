"""Requests for text: KServe's tensors and parameters as requests to ``/v3/completions``."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Final, NoReturn

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import ClientConnection, HttpPayload, RequestError
from calculators.kit.requests.json_depth import MOST_DEPTH, nests_deeper
from calculators.tensors.inference import (
    CustomTensor,
    Datatype,
    InferRequest,
    Tensor,
    place_of,
    quoted,
    shown_shape,
)
from graph_runtime.errors import did_you_mean
from servers.contract.data_plane import TensorMetadata

TEXT_OUTPUT: Final = "text_output"
FINISH_REASON: Final = "finish_reason"
CUMULATIVE_LOGPROB: Final = "cumulative_logprob"
CUM_LOG_PROBS: Final = "cum_log_probs"
OUTPUT_LOG_PROBS: Final = "output_log_probs"
NUM_INPUT_TOKENS: Final = "num_input_tokens"
NUM_OUTPUT_TOKENS: Final = "num_output_tokens"

#: Outputs in the order of answers. The first dimension counts the answers to one text (``n``).
OUTPUTS: Final = (
    TensorMetadata(TEXT_OUTPUT, "BYTES", (-1,)),
    TensorMetadata(FINISH_REASON, "BYTES", (-1,)),
    TensorMetadata(CUMULATIVE_LOGPROB, "FP32", (-1,)),
    TensorMetadata(CUM_LOG_PROBS, "FP32", (-1,)),
    TensorMetadata(OUTPUT_LOG_PROBS, "FP32", (-1, -1)),
    TensorMetadata(NUM_INPUT_TOKENS, "UINT32", (1,)),
    TensorMetadata(NUM_OUTPUT_TOKENS, "UINT32", (-1,)),
)

OUTPUT_NAMES: Final = tuple(output.name for output in OUTPUTS)

#: The outputs that each flag requests; a client may name the outputs instead.
ASKED_BY: Final = {
    "return_finish_reason": (FINISH_REASON,),
    "return_cumulative_logprob": (CUMULATIVE_LOGPROB,),
    "return_log_probs": (CUM_LOG_PROBS, OUTPUT_LOG_PROBS),
    "return_num_input_tokens": (NUM_INPUT_TOKENS,),
    "return_num_output_tokens": (NUM_OUTPUT_TOKENS,),
}

#: Outputs that need the log-probabilities of tokens.
OF_LOGPROBS: Final = frozenset(
    {CUMULATIVE_LOGPROB, CUM_LOG_PROBS, OUTPUT_LOG_PROBS, NUM_OUTPUT_TOKENS}
)


TEXT_INPUT: Final = "text_input"


class TextInputKind(Enum):
    """The kind of an input's value: one element, or a list for the names that end in S."""

    TEXT = auto()
    TEXTS = auto()
    FLAG = auto()
    INTEGER = auto()
    INTEGERS = auto()
    NUMBER = auto()


@dataclass(frozen=True, slots=True)
class Input:
    """An input, sent as a tensor, as a parameter or in ``sampling_parameters``.

    Attributes:
        datatype: the datatype in metadata; other integers or floats are accepted as well.
        member: the member of the body of a completion request; "" if there is none.
    """

    name: str
    kind: TextInputKind
    datatype: Datatype
    member: str = ""

    @property
    def metadata(self) -> TensorMetadata:
        is_list = self.kind in (TextInputKind.TEXTS, TextInputKind.INTEGERS)
        is_optional = self.name != TEXT_INPUT
        return TensorMetadata(self.name, self.datatype, (-1 if is_list else 1,), is_optional)


def _flags(*names: str, has_members: bool = False) -> list[Input]:
    return [
        Input(name, TextInputKind.FLAG, Datatype.BOOL, name if has_members else "")
        for name in names
    ]


def _integers(**members: str) -> list[Input]:
    return [
        Input(name, TextInputKind.INTEGER, Datatype.INT32, member)
        for name, member in members.items()
    ]


def _numbers(*names: str) -> list[Input]:
    return [Input(name, TextInputKind.NUMBER, Datatype.FP32, name) for name in names]


#: Inputs by name, with the names of both vLLM's and TensorRT-LLM's backends.
INPUTS: Final[Mapping[str, Input]] = MappingProxyType(
    {
        each.name: each
        for each in (
            Input(TEXT_INPUT, TextInputKind.TEXT, Datatype.BYTES),
            *_flags("stream", "exclude_input_in_output", "chat"),
            Input("sampling_parameters", TextInputKind.TEXT, Datatype.BYTES),
            *_integers(max_tokens="max_tokens", min_tokens="min_tokens", min_length="min_tokens"),
            *_numbers("temperature", "top_p"),
            *_integers(top_k="top_k"),
            *_numbers("min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
            *_numbers("length_penalty"),
            Input("seed", TextInputKind.INTEGER, Datatype.UINT64, "seed"),
            Input("random_seed", TextInputKind.INTEGER, Datatype.UINT64, "seed"),
            Input("stop", TextInputKind.TEXTS, Datatype.BYTES, "stop"),
            Input("stop_words", TextInputKind.TEXTS, Datatype.BYTES, "stop"),
            Input("bad_words", TextInputKind.TEXTS, Datatype.BYTES, "bad_words"),
            Input("stop_token_ids", TextInputKind.INTEGERS, Datatype.INT32, "stop_token_ids"),
            Input("end_id", TextInputKind.INTEGERS, Datatype.INT32, "stop_token_ids"),
            *_integers(n="n", num_return_sequences="n", beam_width="best_of", best_of="best_of"),
            *_flags(
                "ignore_eos",
                "skip_special_tokens",
                "include_stop_str_in_output",
                has_members=True,
            ),
            *_flags(
                "return_finish_reason",
                "return_cumulative_logprob",
                "return_log_probs",
                "return_num_input_tokens",
                "return_num_output_tokens",
            ),
        )
    }
)


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
        n = fields.whole(self.body.get("n"))
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
        # In OpenAI's completions the number of alternatives, in chats a switch.
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


_LISTS = (TextInputKind.TEXTS, TextInputKind.INTEGERS)
_WORDS = {"true": True, "false": False}
_LONGEST_NUMBER = 40


def value_of_tensor(expected: Input, tensor: Tensor | CustomTensor, place: str) -> Any:
    """Return the value of a tensor: one element of any shape, or all elements as a list.

    Raises:
        RequestError: the datatype is another one, there are several elements for a single value,
            or text is not UTF-8.
    """
    if isinstance(tensor, CustomTensor):
        raise RequestError(tensor.defect or f"{place}: {_wanted(expected)} is needed", param=place)
    if not _fits(expected.kind, tensor.datatype):
        raise RequestError(
            f"{place}: {_wanted(expected)} is needed, not {tensor.datatype}", param=place
        )
    elements = tensor.data.reshape(-1)
    if expected.kind not in _LISTS:
        if elements.size != 1:
            raise RequestError(
                f"{place}: one element is needed; the shape is {shown_shape(tensor.shape)}",
                param=place,
            )
        return _plain(expected.kind, elements[0], place)
    values = [_plain(expected.kind, element, place) for element in elements]
    # Not every client can omit a tensor, so an empty string stands for no value.
    return [value for value in values if value != ""]


def value_of_json(expected: Input, value: Any, place: str) -> Any:
    """Return a JSON value. Text is parsed to the type of the input, as in vLLM's backend.

    Other wrong types are passed on, because the completion request is checked later.

    Raises:
        RequestError: the text has no such value.
    """
    kind = expected.kind
    if isinstance(value, str):
        if kind in (TextInputKind.TEXT, TextInputKind.TEXTS):
            return value if kind is TextInputKind.TEXT or value else []
        return _read(kind, value, place)
    if kind is TextInputKind.INTEGERS and type(fields.whole(value)) is int:
        return [value]
    if kind is TextInputKind.FLAG and not isinstance(value, bool):
        raise RequestError(f"{place}: true or false is needed", param=place)
    return value


def _read(kind: TextInputKind, text: str, place: str) -> Any:
    short = text.strip()
    if kind is TextInputKind.FLAG and short.lower() in _WORDS:
        return _WORDS[short.lower()]
    if len(short) <= _LONGEST_NUMBER:
        with contextlib.suppress(ValueError):
            if kind is TextInputKind.INTEGER:
                return int(short)
            if kind is TextInputKind.INTEGERS:
                return [int(short)]
            if kind is TextInputKind.NUMBER and math.isfinite(float(short)):
                return float(short)
    what = {TextInputKind.FLAG: "true or false", TextInputKind.NUMBER: "a finite number"}.get(
        kind, "an integer"
    )
    raise RequestError(f"{place}: {what} is needed, not {quoted(text)}", param=place)


def _fits(kind: TextInputKind, datatype: Datatype) -> bool:
    of = datatype.dtype.kind
    match kind:
        case TextInputKind.TEXT | TextInputKind.TEXTS:
            return datatype is Datatype.BYTES
        case TextInputKind.FLAG:
            return datatype is Datatype.BOOL
        case TextInputKind.INTEGER | TextInputKind.INTEGERS:
            return of in "iu" and datatype is not Datatype.BF16
        case TextInputKind.NUMBER:
            return of in "iuf" and datatype is not Datatype.BF16


def _wanted(expected: Input) -> str:
    return f"a tensor of {expected.datatype}"


def _plain(kind: TextInputKind, element: Any, place: str) -> Any:
    match kind:
        case TextInputKind.TEXT | TextInputKind.TEXTS:
            try:
                return bytes(element).decode()
            except UnicodeDecodeError:
                raise RequestError(f"{place}: the text is not UTF-8", param=place) from None
        case TextInputKind.FLAG:
            return bool(element)
        case TextInputKind.INTEGER | TextInputKind.INTEGERS:
            return int(element)
        case TextInputKind.NUMBER:
            # The shortest decimal: 0.95 as it was sent, not 0.949999988 as in 32 bits.
            value = float(str(element))
            if not math.isfinite(value):
                raise RequestError(f"{place}: a finite number is needed", param=place)
            return value


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
        for member in _sampling_members(one):
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
        yield InputValue(tensor.name, place, value_of_tensor(expected, tensor, place))


def _parameters(request: InferRequest) -> Iterator[InputValue]:
    for name, value in request.parameters.items():
        yield _of_json(name, value, f"parameters.{_short(name)}")


def _sampling_members(sampling: InputValue) -> Iterator[InputValue]:
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
        name, place, value if expected is None else value_of_json(expected, value, place)
    )


def _expected(name: str) -> Input | None:
    if name in _REFUSED_FLAGS:
        return _A_FLAG
    return _A_NUMBER if name == _WITHOUT_EFFECT else INPUTS.get(name)


def _short(name: str) -> str:
    return name if len(name) <= 64 else f"{name[:64]}..."
