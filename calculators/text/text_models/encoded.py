"""The values between a task and the batches: sequences of tokens, and a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ids: TypeAlias = NDArray[np.int64]


class Tokens(NamedTuple):
    """One sequence for the model, without padding.

    Attributes:
        ids: token ids, shape ``[tokens]``.
        types: segment ids of the same shape; None: all are 0.
    """

    ids: Ids
    types: Ids | None = None


@dataclass(frozen=True, slots=True)
class Encoded:
    """A question as sequences, each of which gets a row of the answer.

    Attributes:
        sequences: none are answered at once.
        note: returned beside the rows; anything that MessagePack takes.
    """

    sequences: list[Tokens]
    note: Any = None


class InputError(ValueError):
    """A question that the model cannot answer; the text is for the client.

    Attributes:
        param: the member of the request that is at fault, such as ``input[3]``; None if unknown.
        code: the name of a `graph_runtime.Code`.
    """

    def __init__(
        self, reason: str, param: str | None = None, code: str = "INVALID_ARGUMENT"
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.param = param
        self.code = code
