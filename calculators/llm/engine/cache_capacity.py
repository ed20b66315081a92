"""`CacheCapacity`: the room in a key-value cache of a fixed size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from calculators.llm.engine.engine_settings import EngineSettings

#: Lengths of two prompts: the first takes one block, the second two blocks of 32 or three of 16.
_SHORT, _LONGER = 2, 40
_BLOCKS: Final = {2: 32, 3: 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheCapacity:
    """A cache of ``tokens`` tokens in blocks of ``block``.

    Attributes:
        kept: tokens that eviction leaves of a sequence after its prompt; None without eviction.
        is_reserved: a sequence must keep its room: it cannot be evicted and recomputed.
    """

    tokens: int
    block: int
    kept: int | None = None
    is_reserved: bool = False

    def answer(self, prompt: int, beams: int = 1) -> int | None:
        """Return the number of new tokens that fit beside a prompt in an otherwise empty cache.

        Below 1 the prompt does not fit. None is no limit.
        """
        if self.kept is not None and beams * self._dropping(prompt) <= self.tokens:
            return None
        # The beams share the prompt's full blocks; the last token of an answer is not kept.
        blocks, rest = divmod(prompt, self.block)
        return (self.tokens // self.block - blocks) // beams * self.block - rest + 1

    def need(self, prompt: int, answer: int, beams: int = 1) -> int:
        """Return the tokens to reserve for a request, so that no other can take its room."""
        whole = prompt + answer
        if self.kept is not None:
            whole = min(whole, self._dropping(prompt))
        blocks = -(-whole // self.block)
        return min(beams * blocks * self.block, self.tokens)

    def _dropping(self, prompt: int) -> int:
        assert self.kept is not None
        # Eviction happens after a step, in whole blocks.
        return max(prompt, self.kept) + 2 * self.block


def find_cache_capacity(
    settings: EngineSettings, usage_of: Callable[[int], float | None]
) -> CacheCapacity | None:
    """Measure the capacity of an engine's cache; None where it grows or does not report its use.

    Args:
        usage_of: returns the part of the cache (0 to 1) that a prompt of so many tokens takes;
            None where it cannot be tried.
    """
    one = usage_of(_SHORT)
    more = usage_of(_LONGER)
    if not one or not more:
        return None
    ratio = more / one
    block = _BLOCKS.get(round(ratio))
    # Models with a state beside the cache report that instead.
    if block is None or abs(ratio - round(ratio)) > 0.01:
        return None
    speculates = settings.decoding_mode != "standard"
    eviction = settings.cache_eviction
    kept = None
    if eviction is not None:
        # KVCrush takes back so many of the blocks that were to be dropped.
        kept = eviction.max_cache_size + eviction.kv_crush_budget * block
    blocks = round(1 / one)
    return CacheCapacity(
        # Proposed tokens take room until they are rejected.
        tokens=(blocks - speculates) * block,
        block=block,
        kept=kept,
        # openvino-genai 2026.4 crashes when it recomputes such a sequence.
        is_reserved=eviction is not None or speculates,
    )
