"""A child that answers questions by raising the error that the question names."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from calculators.kit.child_process.answering_process import run
from calculators.kit.child_process.messages import LoadFailed, Log, StopChild

MODULE = "tests.calculators.kit.child_process.raising_child"


class Load(msgspec.Struct, frozen=True, tag="load", array_like=True):
    model_path: str = ""
    memory_limit: int = 2**30


class Ready(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    pass


class Question(msgspec.Struct, frozen=True, tag="question", array_like=True):
    how: str


class Answer(msgspec.Struct, frozen=True, tag="answer", array_like=True):
    text: str


class Refused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    reason: str


def answer(question: Question) -> Answer:
    match question.how:
        case "fine":
            return Answer("fine")
        case "no text":
            return Answer("\ud800")
        case "deep":
            deep: list[Any] = []
            for _ in range(100_000):
                deep = [deep]
            return Answer(deep)  # type: ignore[arg-type]
        case "memory":
            raise MemoryError
        case other:
            raise KeyError(other)


decoder = msgspec.msgpack.Decoder(Load | Question | StopChild)
from_child = msgspec.msgpack.Decoder(Ready | LoadFailed | Log | Answer | Refused)

if __name__ == "__main__":
    sys.exit(
        run(
            int(sys.argv[1]),
            int(sys.argv[2]),
            decoder.decode,
            Load,
            lambda load, report: (Ready(), answer),
            Refused,
        )
    )
