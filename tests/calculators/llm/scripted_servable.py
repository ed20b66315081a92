"""A language model without an engine: every read of a generation returns the next scripted tokens.

Only so are the groups of tokens, and with them the bytes of an answer, the same in every run.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.detokenizer import TokenTable
from calculators.llm.engine.engine import EngineGeneration
from calculators.llm.engine.messages import Add, Metrics, NewTokens
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.parsers.registry import reasoning_parser, tool_parser
from calculators.llm.prompt.messages import Prompt, PromptReady
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.servable import (
    LlmServable,
    LoadedModel,
    ModelProcesses,
    ModelProfile,
    ServingLimits,
)
from calculators.llm.task_options import LlmSettings
from graph_runtime import Code

SNOWMAN = "\N{SNOWMAN}".encode()
PIECES = [
    *(b"<think>", b"hm", b" so", b"</think>", b"\n", b"Hello", b" wor", b"ld", SNOWMAN[:1]),
    *(SNOWMAN[1:], b" ST", b"OP", b" more", b"<tool_call>\n", b'{"name": "f", "argu'),
    *(b'ments": {"a"', b": 1}}", b"\n</tool_call>", b"<|end|>"),
]
IDS = {piece: number for number, piece in enumerate(PIECES)}
END = IDS[b"<|end|>"]

#: Outputs of the model, as tokens.
SCRIPTS: dict[str, list[bytes]] = {
    "text": [b"Hello", b" wor", b"ld", SNOWMAN[:1], SNOWMAN[1:], b" more", b"<|end|>"],
    "thought": [b"<think>", b"hm", b" so", b"</think>", b"\n", b"Hello", b" wor", b"ld"],
    "stopped": [b"Hello", b" wor", b"ld", b" ST", b"OP", b" more", b" more"],
    "call": [
        *(b"<think>", b"hm", b"</think>", b"Hello", b"\n", b"<tool_call>\n"),
        *(b'{"name": "f", "argu', b'ments": {"a"', b": 1}}", b"\n</tool_call>", b"\n"),
        *(b"<tool_call>\n", b'{"name": "f", "argu', b'ments": {"a"', b": 1}}", b"\n</tool_call>"),
    ],
    "cut_call": [b"<tool_call>\n", b'{"name": "f", "argu', b'ments": {"a"'],
    "nothing": [],
}


class ScriptedGeneration(EngineGeneration):
    """Returns the next group of tokens at each read."""

    def __init__(
        self, choices: int, groups: Sequence[Sequence[tuple[int, NewTokens]]], fails_at: int
    ) -> None:
        super().__init__(choices, lambda choice: self._closed.add(choice))
        self._closed: set[int | None] = set()
        self._groups = list(groups)
        self._fails_at = fails_at

    async def read(self) -> list[tuple[int, NewTokens]]:
        if self._error is not None:
            raise self._error
        if self._fails_at == 0:
            error = RequestError("the engine is gone", code=Code.UNAVAILABLE, retry_after=2.0)
            self.fail(error)
            raise error
        self._fails_at -= 1
        for group in [*self._groups]:
            self._groups.remove(group)
            left = [each for each in group if each[0] not in self._closed]
            if left:
                for _, tokens in left:
                    self._unfinished -= tokens.finish_reason is not None
                return left
        raise AssertionError("nothing is left to read")


class ScriptedEngine:
    """An engine whose sequences say a script, cut at random places."""

    def __init__(self) -> None:
        self.unavailable_reason = ""
        self.metrics = Metrics()
        self.pid: int | None = None
        self.unfinished = self.running = self.cache_full = self.restarts = 0
        self.script = "text"
        self.seed = 0
        self.fails_at = -1
        self.finish_reason: Any = "stop"
        self.generations: list[ScriptedGeneration] = []

    def submit(self, parts: Sequence[Add]) -> EngineGeneration:
        rng = random.Random(f"{self.script} {self.seed}")
        sequences: list[list[NewTokens]] = []
        for part in parts:
            settings = part.settings
            for _ in range(settings.num_return_sequences):
                ids = [IDS[piece] for piece in SCRIPTS[self.script]]
                if settings.echo:
                    ids = [*np.frombuffer(part.input_ids, dtype=np.int64).tolist(), *ids]
                sequences.append(self._cut(ids, rng, scored=settings.logprobs))
        groups: list[list[tuple[int, NewTokens]]] = []
        while any(sequences):
            group: list[tuple[int, NewTokens]] = []
            for number, sequence in enumerate(sequences):
                count = rng.choice((0, 1, 1, 2))
                group += [(number, tokens) for tokens in sequence[:count]]
                del sequence[:count]
            if group:
                groups.append(group)
        generation = ScriptedGeneration(len(sequences), groups, self.fails_at)
        self.generations.append(generation)
        return generation

    def _cut(self, ids: list[int], rng: random.Random, *, scored: bool) -> list[NewTokens]:
        made: list[NewTokens] = []
        while ids:
            count = rng.choice((1, 1, 2, 3))
            now, ids = ids[:count], ids[count:]
            scores = [-0.25 * (each % 7) for each in now] if scored else []
            made.append(NewTokens(0, 0, now, scores))
        if made and rng.random() < 0.5:
            last = made.pop()
            made.append(NewTokens(0, 0, last.token_ids, last.logprobs, self.finish_reason))
        else:
            made.append(NewTokens(0, 0, [], [], self.finish_reason))
        return made

    async def close(self) -> None:
        return


class ScriptedPrompts:
    """Prompts of the ids of ``Hello`` and `` wor``."""

    unavailable_reason = ""
    text = "<user>Hello"

    def __init__(self) -> None:
        #: The messages of the chats, in order.
        self.chats: list[list[dict[str, Any]]] = []

    async def chat(self, messages: list[dict[str, Any]], *args: Any, **options: Any) -> Prompt:
        self.chats.append(messages)
        return Prompt(_ids(b"Hello", b" wor"), self.text)

    async def encode(self, text: str, **options: Any) -> Prompt:
        return Prompt(_ids(b"Hello", b" wor"), text)

    async def tokenize(self, texts: Sequence[str], **options: Any) -> list[bytes]:
        return [b"[5,6]" for _ in texts]

    async def decode(self, ids: list[int], *, skip_special_tokens: bool = True) -> str:
        raise AssertionError("the table is exact")

    async def close(self) -> None:
        return


def _ids(*pieces: bytes) -> bytes:
    return np.array([IDS[piece] for piece in pieces], dtype=np.int64).tobytes()


def scripted_servable(*, verbose: bool = False, **limits: Any) -> LlmServable:
    """Make a servable; its engine is a `ScriptedEngine`."""
    scripted: Any = (ScriptedEngine(), ScriptedPrompts(), None)
    engine, prompts, unused = scripted
    return LlmServable(
        LoadedModel(
            processes=ModelProcesses(engine=engine, prompts=prompts, grammars=unused),
            defaults=ModelDefaults(max_new_tokens=99, eos_token_ids=(END,), temperature=0.7),
            length=1000,
            engine_ready=unused,
            prompts_ready=PromptReady(TokenTable(list(PIECES), [END])),
        ),
        ModelProfile(
            parsers=OutputParsers(tool_parser("hermes3"), reasoning_parser("qwen3")),
            fingerprint="fp_1",
        ),
        ServingLimits(request=RequestLimits(max_model_length=1000, **limits), queue=4),
        settings=LlmSettings(verbose_response=verbose),
    )


def engine_of(servable: LlmServable) -> ScriptedEngine:
    engine = servable.engine
    assert isinstance(engine, ScriptedEngine)
    return engine
