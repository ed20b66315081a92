"""`Requests`: the open requests of an engine, by their ids."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from calculators.kit.requests.client_identity import UNKNOWN_CLIENT
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import current_record
from calculators.llm.engine.engine import TOO_LONG, EngineDown, Generation, Part
from calculators.llm.engine.messages import Add, Cancel, Failed, Metrics, Step, Tokens
from calculators.llm.engine.shared_prefixes import SharedPrefixes
from graph_runtime import Code

_NO_ROOM: Final = (
    "the model's key-value cache has no room for the prompt (cache_size); shorten it, or try again "
    "when fewer requests are running"
)
_RETRY_AFTER: Final = 1.0


class _Entry(Struct):
    generation: Generation
    first_choice: int
    unfinished: int
    #: The member of the request with the prompt.
    param: str | None
    has_begun: bool = False
    #: The tokens of prompt and answer, if they are counted.
    tokens: array[int] | None = None


class Requests:
    """Turns submitted parts into messages, and feeds the tokens of steps to their generations.

    Attributes:
        open: the unfinished requests by their ids.
        metrics: the latest metrics that the engine sent.
        prefixes: counts how much of the prompts the engine has in its cache; None: nothing does.
    """

    prefixes: SharedPrefixes | None = None

    def __init__(self, send: Callable[[Add | Cancel], None]) -> None:
        self._send = send
        self._ids = itertools.count()
        self.open: dict[int, _Entry] = {}
        self.metrics = Metrics()
        #: Sequences that have ended because the cache had no room for more.
        self.cache_full = 0

    @property
    def running(self) -> int:
        """Unfinished requests that have received tokens."""
        return sum(entry.has_begun for entry in self.open.values())

    def submit(self, parts: Sequence[Part]) -> Generation:
        """Send one `Add` per part."""
        ids: dict[int, int] = {}

        def cancel(choice: int | None) -> None:
            for request_id, first in ids.items():
                is_meant = choice is None or first == choice
                if is_meant and self.open.pop(request_id, None) is not None:
                    self._send(Cancel(request_id))

        record = current_record()
        client = UNKNOWN_CLIENT if record is None else record.client
        choices = 0
        for part in parts:
            choices += part.settings.num_return_sequences
        generation = Generation(choices, cancel)
        first_choice = 0
        counts = self.prefixes is not None and not any(part.images for part in parts)
        prompt: bytes | None = None
        for part in parts:
            count = part.settings.num_return_sequences
            request_id = next(self._ids)
            ids[request_id] = first_choice
            entry = self.open[request_id] = _Entry(generation, first_choice, count, part.param)
            if self.prefixes is not None and counts and part.input_ids:
                # Samples of one prompt are parts with the same object.
                if part.input_ids is not prompt:
                    known = self.prefixes.shared(part.input_ids)
                    generation.shared_tokens = (generation.shared_tokens or 0) + known
                prompt = part.input_ids
                entry.tokens = array("q", part.input_ids)
            first_choice += count
            self._send(
                Add(
                    request_id,
                    part.input_ids,
                    part.settings,
                    part.text,
                    part.images,
                    group=next(iter(ids)),
                    client=client,
                )
            )
        return generation

    def take(self, step: Step | Metrics) -> None:
        """Feed the tokens of a step to their generations; drop those of cancelled requests."""
        if isinstance(step, Metrics):
            self.metrics = step
            return
        for tokens in step.tokens:
            entry = self.open.get(tokens.request_id)
            if entry is None:
                continue
            if tokens.finish_reason == "cache":
                self.cache_full += 1
                if not entry.has_begun and not tokens.token_ids:
                    self._refuse(tokens, entry.generation)
                    continue
            if entry.tokens is not None:
                self._note_tokens(entry, tokens)
            entry.has_begun = True
            if tokens.finish_reason is not None:
                entry.unfinished -= 1
                if entry.unfinished == 0:
                    del self.open[tokens.request_id]
            entry.generation.feed(entry.first_choice + tokens.sequence, tokens)
        for failed in step.failed:
            entry = self.open.pop(failed.request_id, None)
            if entry is not None:
                entry.generation.fail(_refusal(failed, entry.param))

    def _note_tokens(self, entry: _Entry, tokens: Tokens) -> None:
        """Note the prompt once it is computed, and at the end with the answer, if there is one."""
        assert self.prefixes is not None
        assert entry.tokens is not None
        is_alone = tokens.sequence == 0 and entry.unfinished == 1
        if is_alone:
            entry.tokens.extend(tokens.token_ids)
        if not entry.has_begun or (is_alone and tokens.finish_reason is not None):
            # The last token of an answer is not computed until another follows.
            computed = entry.tokens[:-1] if is_alone else entry.tokens
            self.prefixes.note(computed.tobytes())

    def _refuse(self, tokens: Tokens, generation: Generation) -> None:
        """Fail the request: an empty answer would not show the reason."""
        del self.open[tokens.request_id]
        generation.fail(
            RequestError(_NO_ROOM, code=Code.RESOURCE_EXHAUSTED, retry_after=_RETRY_AFTER)
        )

    def fail_all(self, reason: str, retry_after: float) -> None:
        """Fail all requests with `EngineDown`."""
        generations = {id(entry.generation): entry.generation for entry in self.open.values()}
        self.open.clear()
        for generation in generations.values():
            generation.fail(EngineDown(reason, retry_after=retry_after))


def _refusal(failed: Failed, param: str | None) -> RequestError:
    if not failed.is_too_long:
        return RequestError(failed.reason)
    return RequestError(failed.reason, param=param, code=Code.OUT_OF_RANGE, reason=TOO_LONG)
