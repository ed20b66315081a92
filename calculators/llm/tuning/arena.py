"""`Arena`: candidates measured in turns, each beside the defaults with the same requests."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import monotonic
from types import TracebackType
from typing import Final, Self

from calculators.kit.child_process.supervisor import LoadError
from calculators.llm.engine.engine_settings import EngineSettings
from calculators.llm.tuning.candidates import Candidate
from calculators.llm.tuning.loads import Conversation, Load, PromptMaker
from calculators.llm.tuning.standings import Standing
from calculators.llm.tuning.trial import Round, Trial
from graph_runtime import ResourceError

#: A disturbed round takes this multiple of the usual time.
_DISTURBED: Final = 1.5
#: Rounds after which the usual time is known.
_KNOWN_AFTER: Final = 3


class UsualTime:
    """The seconds of the defaults' rounds; the usual time is their median.

    The best time would not do: it may be of a round without other engines, which no later round
    reaches.
    """

    def __init__(self) -> None:
        self._times: list[float] = []

    def is_disturbed(self, seconds: float) -> bool:
        """Add a round; return True if it took so long that it does not count."""
        self._times.append(seconds)
        is_known = len(self._times) > _KNOWN_AFTER
        return is_known and seconds > _DISTURBED * median(self._times)


#: Answers by which settings are compared, and their tokens.
_ANSWERS: Final = 3
_ANSWER_TOKENS: Final = 32
#: Engines that run at a time, whatever the memory.
_FEWEST, _MOST = 2, 9
#: The least part of its prompts and answers to which a load is cut for a slow model.
_SMALLEST_SCALE: Final = 0.25
#: Conversations that one client holds in a round, at most.
_MOST_REPEATS: Final = 64

#: Returns the settings of the engine that a candidate's graph would have; raises ResourceError.
SettingsOf = Callable[[Candidate], EngineSettings]


class Arena:
    """Engines, requests and measurements. Use it as a context manager.

    Attributes:
        load: as it is run; on slow models with shorter prompts and answers.
        base: the measurements of the defaults, paired with themselves.
        discarded: rounds that did not count, see `UsualTime`.
    """

    def __init__(
        self, settings_of: SettingsOf, prompts: PromptMaker, load: Load, round_seconds: float
    ) -> None:
        """``round_seconds``: the time that a round of the defaults should take."""
        self._settings_of = settings_of
        self._prompts = prompts
        self.load = load
        self._round_seconds = round_seconds
        self._repeats = 1
        self._open: dict[Candidate, Trial] = {}
        self._most_open = _FEWEST
        self._own_answers: list[list[int]] = []
        self._questions: list[bytes] = []
        self._usual = UsualTime()
        self._turn = itertools.count()
        self.base = Standing(Candidate())
        self.discarded = 0

    async def __aenter__(self) -> Self:
        """Load the model with the default settings, and choose the size of a round.

        Raises:
            LoadError: it cannot be loaded.
        """
        trial = await Trial.open(self._settings_of(Candidate()), "defaults")
        self._open[Candidate()] = trial
        try:
            self._questions = [
                each.prompt for each in await self._prompts.make(self.load, _ANSWERS)
            ]
            self._own_answers = await trial.answers(self._questions, _ANSWER_TOKENS)
            await self._choose_size(trial)
            self._most_open = _most_engines(trial.pid)
        except BaseException:
            await trial.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for trial in self._open.values():
            await trial.close()

    async def _choose_size(self, trial: Trial) -> None:
        # The first round computes what later ones find ready.
        first = await trial.run(await self._requests())
        seconds = first.seconds
        if seconds < self._round_seconds:
            seconds = (await trial.run(await self._requests())).seconds
        share = self._round_seconds / seconds
        self._repeats = max(1, min(_MOST_REPEATS, round(share)))
        self.load = self.load.scaled(max(_SMALLEST_SCALE, min(1.0, share)))

    @property
    def requests(self) -> int:
        """Answers that one round has."""
        return self.load.streams * self._repeats * (self.load.follow_ups + 1)

    async def measure(self, standings: Sequence[Standing], rounds: int, until: float) -> None:
        """Add rounds to each standing: as many as asked for, or as fit into the time.

        Each candidate gets one round at least if it can be loaded in time.

        Args:
            until: a time of the monotonic clock, after which nothing more begins.
        """
        size = self._most_open - 1
        heats = [standings[first : first + size] for first in range(0, len(standings), size)]
        await self._keep_only([] if len(heats) > 1 else standings)
        for heat in heats:
            able = [each for each in heat if monotonic() < until and await self._enter(each)]
            done = tries = 0
            while able and done < rounds and tries < 2 * rounds:
                if tries and monotonic() >= until:
                    break
                tries += 1
                done += await self._pass(able)
            if len(heats) > 1:
                await self._keep_only([])

    async def _enter(self, standing: Standing) -> bool:
        """Start the candidate's engine unless it runs; compare its answers once."""
        candidate = standing.candidate
        if candidate in self._open:
            return True
        if standing.failure:
            return False
        try:
            trial = await Trial.open(self._settings_of(candidate), candidate.name)
        except (LoadError, ResourceError) as error:
            standing.failure = str(error)
            return False
        self._open[candidate] = trial
        answers = await trial.answers(self._questions, _ANSWER_TOKENS)
        standing.compared_answers = len(answers)
        standing.different_answers = sum(
            its != ours for its, ours in zip(answers, self._own_answers, strict=True)
        )
        await trial.run(await self._requests(repeats=1))
        return True

    async def _keep_only(self, standings: Sequence[Standing]) -> None:
        """Close the engines of all other candidates, but the one of the defaults."""
        kept = {Candidate(), *(each.candidate for each in standings)}
        for candidate in [each for each in self._open if each not in kept]:
            await self._open.pop(candidate).close()

    async def _pass(self, standings: Sequence[Standing]) -> bool:
        """Let the defaults and each candidate run the same requests; True if the pass counts."""
        requests = await self._requests()
        runners: list[Standing | None] = [None, *standings]
        first = next(self._turn) % len(runners)
        rounds: dict[int, Round] = {}
        for each in [*runners[first:], *runners[:first]]:
            candidate = Candidate() if each is None else each.candidate
            rounds[id(each)] = await self._open[candidate].run(requests)
        ours = rounds[id(None)]
        if self._usual.is_disturbed(ours.seconds):
            self.discarded += 1
            return False
        self.base.pairs.append((ours, ours))
        for standing in standings:
            standing.pairs.append((ours, rounds[id(standing)]))
        return True

    async def _requests(self, repeats: int | None = None) -> list[list[Conversation]]:
        """Return new conversations for each client."""
        count = self._repeats if repeats is None else repeats
        return [await self._prompts.make(self.load, count) for _ in range(self.load.streams)]


def _most_engines(pid: int | None) -> int:
    """Return how many engines may run at a time: half of the free memory is theirs."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        free = os.sysconf("SC_AVPHYS_PAGES")
    except (OSError, ValueError):
        return _FEWEST
    return max(_FEWEST, min(_MOST, free // 2 // max(1, pages)))
