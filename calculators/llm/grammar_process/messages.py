"""The protocol between the server and a grammar process; encoded as MessagePack.

One question at a time, each with one answer.
"""

from __future__ import annotations

from typing import Any

import msgspec

from calculators.child_process.messages import LoadFailed, Log, Stop
from calculators.llm.grammars.grammar import AnswerForm, Grammar


class Load(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """The first message: the model whose tokenizer grammars are made for.

    ``memory_limit``: bytes that the process may grow by when it has loaded.
    """

    model_path: str
    memory_limit: int


class Ready(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The tokenizer is loaded."""


class Check(msgspec.Struct, frozen=True, tag="check", array_like=True):
    """Make the grammar of a form, and try it.

    Attributes:
        seconds: processor time that making it may take.
        longest: characters of a grammar that is tried; None is no limit.
    """

    form: AnswerForm
    seconds: float
    longest: int | None = None


class Accepted(msgspec.Struct, frozen=True, tag="accepted", array_like=True):
    """The engine can be given this grammar."""

    grammar: Grammar


class Refused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """It cannot be. ``reason`` is for the client; ``path``: the member to blame, "" if unknown."""

    reason: str
    path: str = ""


class Postponed(msgspec.Struct, frozen=True, tag="postponed", array_like=True):
    """Nothing is known yet: making the grammar takes longer, or the grammar is longer.

    ``length``: of the grammar, in characters; None: it was not made.
    """

    length: int | None


ToChecker = Load | Check | Stop
FromChecker = Ready | LoadFailed | Log | Accepted | Refused | Postponed

to_checker_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToChecker)
from_checker_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(FromChecker)
