"""The inputs of a language model, by the names of Triton's backends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from calculators.tensors.inference import Datatype
from servers.contract.data_plane import TensorMetadata

TEXT_INPUT: Final = "text_input"


class Kind(Enum):
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
    kind: Kind
    datatype: Datatype
    member: str = ""

    @property
    def metadata(self) -> TensorMetadata:
        is_list = self.kind in (Kind.TEXTS, Kind.INTEGERS)
        is_optional = self.name != TEXT_INPUT
        return TensorMetadata(self.name, self.datatype, (-1 if is_list else 1,), is_optional)


def _flags(*names: str, has_members: bool = False) -> list[Input]:
    return [Input(name, Kind.FLAG, Datatype.BOOL, name if has_members else "") for name in names]


def _integers(**members: str) -> list[Input]:
    return [Input(name, Kind.INTEGER, Datatype.INT32, member) for name, member in members.items()]


def _numbers(*names: str) -> list[Input]:
    return [Input(name, Kind.NUMBER, Datatype.FP32, name) for name in names]


#: Inputs by name, with the names of both vLLM's and TensorRT-LLM's backends.
INPUTS: Final[Mapping[str, Input]] = MappingProxyType(
    {
        each.name: each
        for each in (
            Input(TEXT_INPUT, Kind.TEXT, Datatype.BYTES),
            *_flags("stream", "exclude_input_in_output", "chat"),
            Input("sampling_parameters", Kind.TEXT, Datatype.BYTES),
            *_integers(max_tokens="max_tokens", min_tokens="min_tokens", min_length="min_tokens"),
            *_numbers("temperature", "top_p"),
            *_integers(top_k="top_k"),
            *_numbers("min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
            *_numbers("length_penalty"),
            Input("seed", Kind.INTEGER, Datatype.UINT64, "seed"),
            Input("random_seed", Kind.INTEGER, Datatype.UINT64, "seed"),
            Input("stop", Kind.TEXTS, Datatype.BYTES, "stop"),
            Input("stop_words", Kind.TEXTS, Datatype.BYTES, "stop"),
            Input("bad_words", Kind.TEXTS, Datatype.BYTES, "bad_words"),
            Input("stop_token_ids", Kind.INTEGERS, Datatype.INT32, "stop_token_ids"),
            Input("end_id", Kind.INTEGERS, Datatype.INT32, "stop_token_ids"),
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
