"""Distribution of test files over worker processes (``pytest --numprocesses``).

Tests that start programs wait a lot, those of engines and fronts even more, and the quick ones
only compute. So half of the workers begin with the programs, the longest file first, and half at
the other end of the queue, where quick tests come between those of engines and fronts: from the
beginning to the end there is one worker that computes while others wait, and the last files are
short ones.

Other files stay in the order of their directories. Where fixtures of a directory take long to make,
only files of that directory come between: they are made once per worker, and not again for each
file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.file_times import time_of
from tests.support.checkout import ROOT
from tests.tiers import Tier, known_tier_of_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

#: Directories whose files stay with one worker: they share what takes long to make.
_TOGETHER: Final = frozenset({"tests/architecture", "tests/process/kserve"})
#: The directory whose fixtures are an engine.
_WITH_ENGINE: Final = "tests/calculators/llm/"


class Distribution:
    """A plug-in for pytest with pytest-xdist."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        places = _places((item.path, item.nodeid) for item in items)
        items.sort(key=lambda item: places[item.path])

    def pytest_xdist_make_scheduler(
        self, config: pytest.Config, log: Producer
    ) -> LoadFileScheduling | None:
        if config.getvalue("dist") != "loadfile":
            return None
        # The order is the one from above.
        config.option.loadscopereorder = False
        return FromBothEnds(config, log)


def _places(tests: Iterable[tuple[Path, str]]) -> dict[Path, tuple[int, float]]:
    """Return the places of files in the queue, by their tests: a part of it, and how far into it.

    The first part has the files that start programs, by their seconds, and directories that stay
    together. In the others the files of a tier are spread over the whole length.
    """
    ranks: dict[Path, tuple[int, Tier, int]] = {}
    counts: Counter[tuple[int, Tier]] = Counter()
    seconds: defaultdict[Path, float] = defaultdict(float)
    for file, name in tests:
        tier = known_tier_of_file(file)
        part = 0 if tier >= Tier.FULL else 1 if name.startswith(_WITH_ENGINE) else 2
        if file not in ranks:
            ranks[file] = (part, tier, counts[part, tier])
            seconds[_together(file)] += time_of(file).seconds
        counts[part, tier] += 1
    return {
        file: (part, rank / counts[part, tier] if part else -seconds[_together(file)])
        for file, (part, tier, rank) in ranks.items()
    }


def _together(file: Path) -> Path:
    """Return the directory of a file that stays with its neighbours, or else the file."""
    is_one_of_them = file.parent in (ROOT / name for name in _TOGETHER)
    return file.parent if is_one_of_them else file


class FromBothEnds(LoadFileScheduling):  # type: ignore[misc]
    """A queue of files, from which half of the workers take the first, and half the last."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        directory = file.rpartition("/")[0]
        return directory if directory in _TOGETHER else file

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = _Collection(collection)

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        super().mark_test_complete(node, item_index, duration)
        # What is left of a worker's files is counted after each test, so finished ones are dropped.
        scope = self._split_scope(self.registered_collections[node][item_index])
        files = self.assigned_work[node]
        if all(files[scope].values()):
            del files[scope]

    def _assign_work_unit(self, node: WorkerController) -> None:
        is_odd = int(node.gateway.id.removeprefix("gw")) % 2
        if is_odd and self.workqueue:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        # One that takes the place of a crashed worker is asked again when it has its tests.
        if node in self.registered_collections:
            super()._reschedule(node)


class _Collection(list[str]):
    """Names of all tests, each of which is looked up when it is sent to a worker."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._indices = {name: index for index, name in enumerate(names)}

    def index(self, name: str, *_: object) -> int:
        return self._indices[name]
