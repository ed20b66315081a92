"""The settings that are measured, and the options that write them into a graph."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from calculators.kit.machine import cpu_flags, has_slow_bfloat16, usable_processors
from calculators.llm.options.draft_options import PROMPT_LOOKUP

PLUGIN_CONFIG: Final = "plugin_config"
DRAFT: Final = "draft_source_model"
#: The more promising first: time may end before the last.
_BATCHED_TOKENS: Final = (1024, 64, 2048)
_PRECISION: Final = "INFERENCE_PRECISION_HINT"
_CACHE_PRECISION: Final = "KV_CACHE_PRECISION"
_GROUP_SIZE: Final = "DYNAMIC_QUANTIZATION_GROUP_SIZE"
#: Settings that seldom help; they are tried last.
_SELDOM: Final = ("NUM_STREAMS", "INFERENCE_NUM_THREADS")
_SMT: Final = Path("/sys/devices/system/cpu/smt/active")
#: The most settings that are combined with each other.
_MOST_COMBINED: Final = 3


@dataclass(frozen=True, slots=True)
class Change:
    """One setting with another value than the default.

    Attributes:
        setting: an option of the task ``text_generation``, or a property of OpenVINO.
        is_property: the setting is part of ``plugin_config``.
        changes_answers: the setting is known to change what the model answers.
    """

    setting: str
    value: Any
    is_property: bool = False
    changes_answers: bool = False

    @property
    def words(self) -> str:
        """The setting with its value, as people read it."""
        value = str(self.value).lower() if isinstance(self.value, bool) else self.value
        return f"{self.setting} {value}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """The default settings but for some changes; the defaults themselves without any."""

    changes: tuple[Change, ...] = ()

    @property
    def name(self) -> str:
        return ", ".join(each.words for each in self.changes) or "defaults"

    @property
    def changes_answers(self) -> bool:
        """True if the candidate is known beforehand to change answers."""
        return any(each.changes_answers for each in self.changes)

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of the task that set the changes beside the ``given`` ones.

        A given draft model is itself a change: only candidates with that change use it.
        """
        options = {name: value for name, value in given.items() if name != DRAFT}
        properties = _properties(given)
        for each in self.changes:
            if each.is_property:
                properties[each.setting] = each.value
            else:
                options[each.setting] = each.value
        if properties:
            options[PLUGIN_CONFIG] = json.dumps(properties)
        return options


def single_changes(given: Mapping[str, Any], *, is_on_cpu: bool) -> tuple[Candidate, ...]:
    """Return the candidates with one change each.

    Args:
        given: options of the task, by field: what they set is not varied.
        is_on_cpu: properties of OpenVINO's CPU plug-in are varied too.
    """
    taken = {name for name in given if name != DRAFT} | set(_properties(given))
    if "kv_cache_precision" in given:
        taken.add(_CACHE_PRECISION)
    changes = [*(_of_cpu() if is_on_cpu else ()), *_of_scheduler()]
    changes.sort(key=lambda each: each.setting in _SELDOM)
    changes.append(Change(PROMPT_LOOKUP, True, is_property=True, changes_answers=True))
    if DRAFT in given:
        changes.append(Change(DRAFT, given[DRAFT], changes_answers=True))
    return tuple(Candidate((each,)) for each in changes if each.setting not in taken)


def combined(winners: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Return the candidates that join changes of several candidates, best first.

    Of two candidates that change the same setting, the first is taken.
    """
    changes: dict[str, Change] = {}
    for candidate in winners:
        for each in candidate.changes:
            changes.setdefault(each.setting, each)
    best = list(changes.values())[:_MOST_COMBINED]
    return tuple(
        Candidate(chosen)
        for count in range(2, len(best) + 1)
        for chosen in combinations(best, count)
        # A draft model and the prompt cannot both propose tokens.
        if not {DRAFT, PROMPT_LOOKUP} <= {each.setting for each in chosen}
    )


def _of_scheduler() -> Iterator[Change]:
    for tokens in _BATCHED_TOKENS:
        yield Change("max_num_batched_tokens", tokens)
    yield Change("enable_prefix_caching", False)


def _of_cpu() -> Iterator[Change]:
    cores = usable_processors()
    yield Change("ENABLE_CPU_PINNING", False, is_property=True)
    if cores > 1:
        yield Change("INFERENCE_NUM_THREADS", cores // 2, is_property=True)
        yield Change("NUM_STREAMS", 2, is_property=True)
    if _has_two_threads_per_core():
        yield Change("INFERENCE_NUM_THREADS", cores, is_property=True)
    plain = "f32"
    if "avx512_bf16" in (flags := cpu_flags()) or "amx_bf16" in flags:
        plain = "f32" if has_slow_bfloat16() else "bf16"
        other = "bf16" if plain == "f32" else "f32"
        yield Change(_PRECISION, other, is_property=True, changes_answers=True)
    yield Change(_GROUP_SIZE, 32, is_property=True, changes_answers=True)
    # A cache that is not quantized has the precision of the computation.
    yield Change(_CACHE_PRECISION, plain, is_property=True, changes_answers=True)


def _has_two_threads_per_core() -> bool:
    try:
        return _SMT.read_text(encoding="ascii").strip() == "1"
    except OSError:
        return False


def _properties(given: Mapping[str, Any]) -> dict[str, Any]:
    return dict(json.loads(given.get(PLUGIN_CONFIG) or "{}"))
