"""The protocol between the server and a grammar process; encoded as MessagePack.

One question at a time, each with one answer.
"""

from __future__ import annotations

from typing import Any

import msgspec

from calculators.kit.child_process.messages import LoadFailed, Log, StopChild
from calculators.llm.grammars.grammar import AnswerForm, Grammar


class GrammarLoad(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """Load the tokenizer of a model; the first message.

    Attributes:
        memory_limit: bytes by which the process may grow after loading.
    """

    model_path: str
    memory_limit: int


class GrammarReady(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The tokenizer is loaded.

    Attributes:
        token_count: the size of its vocabulary, which the time for a grammar depends on.
    """

    token_count: int = 0


class GrammarCheck(msgspec.Struct, frozen=True, tag="check", array_like=True):
    """Make the grammar of a form, and try it.

    Attributes:
        seconds: processor time for making the grammar.
        longest: characters up to which a grammar is tried; None is no limit.
    """

    form: AnswerForm
    seconds: float
    longest: int | None = None


class GrammarAccepted(msgspec.Struct, frozen=True, tag="accepted", array_like=True):
    """The engine can follow this grammar.

    Attributes:
        notices: places of the request that it does not enforce, each with the reason.
    """

    grammar: Grammar
    notices: tuple[tuple[str, str], ...] = ()


class GrammarRefused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """The form cannot be honoured.

    Attributes:
        reason: for the client.
        path: the member of the request that is wrong; "" if unknown.
    """

    reason: str
    path: str = ""


class GrammarPostponed(msgspec.Struct, frozen=True, tag="postponed", array_like=True):
    """The limits of the question were too small for an answer.

    Attributes:
        length: characters of the grammar; None: making it took too long.
    """

    length: int | None


ToChecker = GrammarLoad | GrammarCheck | StopChild
FromChecker = GrammarReady | LoadFailed | Log | GrammarAccepted | GrammarRefused | GrammarPostponed

to_checker_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToChecker)
from_checker_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(FromChecker)
