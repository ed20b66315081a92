"""`tune`: find the settings of a language model for a load."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from calculators.kit.child_process.supervisor import LoadError
from calculators.kit.model_cache import ModelCache
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.tasks.task import ModelToServe
from calculators.llm.engine.engine_settings import EngineSettings
from calculators.llm.model_files.model_length import read_model_length
from calculators.llm.model_source import find_source
from calculators.llm.options import OPTIONS_TYPE
from calculators.llm.options.node_options import NodeOptions, read_options
from calculators.llm.prompt.client import PromptProcess
from calculators.llm.task_graph import TextGeneration
from calculators.llm.tuning.arena import Arena
from calculators.llm.tuning.candidates import Candidate, single_changes
from calculators.llm.tuning.loads import Load, PromptMaker
from calculators.llm.tuning.standings import Conditions, Standing
from calculators.llm.tuning.tuner import Outcome, Tuner
from graph_runtime import (
    LoadProgress,
    ResourceError,
    ResourceSettings,
    find_options,
    parse_graph_text,
)

#: Called with a stage and its candidates whenever they were measured.
Report = Callable[[str, Sequence[Standing]], None]

#: The part of the budget that a round should take, and the least seconds.
_ROUND_PART: Final = 1 / 100
_SHORTEST_ROUND: Final = 0.3


class CannotTune(Exception):
    """The model cannot be measured; the text says why."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of a search.

    Attributes:
        load: as it was run: with fewer tokens for a slow model, or one of small length.
        requests: answers of one round.
        discarded: rounds that did not count, as the machine was busy.
    """

    outcome: Outcome
    load: Load
    requests: int
    discarded: int


async def tune(
    model: ModelToServe,
    given: Mapping[str, Any],
    load: Load,
    *,
    conditions: Conditions,
    budget: float,
    report: Report = lambda stage, standings: None,
) -> Tuned:
    """Measure settings within a budget.

    Args:
        given: options of the task ``text_generation``, by field; they are not varied. A draft model
            is tried.
        budget: seconds for measurements, after the model was loaded for the first time.

    Raises:
        CannotTune: the model cannot be loaded, or is not one of text alone.
        TaskError: an option has an invalid value.
    """
    seconds = max(_SHORTEST_ROUND, budget * _ROUND_PART)
    with tempfile.TemporaryDirectory(prefix="graphrt-tune-") as folder:
        cache = ModelCache(Path(folder))
        try:
            async with open_arena(model, given, load, seconds, cache) as arena:
                tuner = Tuner(arena, conditions, budget, report)
                is_on_cpu = given.get("target_device", "") in ("", "CPU")
                outcome = await tuner.search(single_changes(given, is_on_cpu=is_on_cpu))
                return Tuned(outcome, arena.load, arena.requests, arena.discarded)
        except (ResourceError, LoadError) as error:
            raise CannotTune(f"the model cannot be loaded: {error}") from None
        except RequestError as error:
            raise CannotTune(f"the model does not answer: {error}") from None


@asynccontextmanager
async def open_arena(
    model: ModelToServe,
    given: Mapping[str, Any],
    load: Load,
    round_seconds: float,
    cache: ModelCache,
) -> AsyncIterator[Arena]:
    """Load a model with its default settings, to be measured with others.

    Args:
        cache: keeps a GGUF file's converted form, so that it is converted once for all candidates.

    Raises:
        CannotTune, TaskError: as `tune` does.
        ResourceError, LoadError: the model cannot be loaded.
    """
    node_options(model, given)  # refuses a draft model that cannot be used
    options = node_options(model, Candidate().options(given))
    kind = options.engine.kind
    if kind.sees_images or not kind.batches:
        raise CannotTune(
            f"its pipeline is {options.engine.pipeline_type}: only LM_CB, text with continuous "
            "batching, can be measured"
        )
    source = await find_source(options, cache, "tune", LoadProgress())
    prompts = PromptProcess(str(source.path), name="tune")

    def settings_of(candidate: Candidate) -> EngineSettings:
        engine = node_options(model, candidate.options(given)).engine
        return msgspec.structs.replace(engine, model_path=str(source.path))

    try:
        ready = await prompts.start()
        maker = PromptMaker(prompts, has_template=not ready.template_problem)
        await maker.start()
        async with Arena(settings_of, maker, load.within(_length(options)), round_seconds) as arena:
            yield arena
    finally:
        await prompts.close()
        source.close()


def node_options(model: ModelToServe, options: Mapping[str, Any]) -> NodeOptions:
    """Return the checked options of the graph that options of the task make.

    Raises:
        ResourceError, TaskError: one cannot be used.
    """
    config = parse_graph_text(TextGeneration(**options).graph(model))
    directory = model.path if model.path.is_dir() else model.path.parent
    return read_options(find_options(config.node[0], OPTIONS_TYPE), ResourceSettings(directory))


def _length(options: NodeOptions) -> int | None:
    return read_model_length(options.model_path)
