"""Distribution of test files over worker processes (``pytest --numprocesses``).

Tests that start programs wait most of the time, and the others compute. So half of the workers
begin with the former and half with the latter, and all cores are busy all the time. The quick tests
come between, where the workers meet, so that all end at about the same time.

Files stay in the order of their directories: fixtures of a directory are made once per worker, and
not again for each file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.tiers import Tier, tier_of_file

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

#: Directories whose files stay with one worker: they share what takes long to make.
_TOGETHER: Final = frozenset({"tests/process/kserve"})
#: The places of tiers in the queue.
_PLACES: Final = {Tier.FULL: 0, Tier.QUICK: 1, Tier.TEST: 2}


class Distribution:
    """A plug-in for pytest with pytest-xdist."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: _PLACES[tier_of_file(item.path)])

    def pytest_xdist_make_scheduler(
        self, config: pytest.Config, log: Producer
    ) -> LoadFileScheduling | None:
        if config.getvalue("dist") != "loadfile":
            return None
        # The order is the one from above.
        config.option.loadscopereorder = False
        return FromBothEnds(config, log)


class FromBothEnds(LoadFileScheduling):  # type: ignore[misc]
    """A queue of files, from which half of the workers take the first, and half the last."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        directory = file.rpartition("/")[0]
        return directory if directory in _TOGETHER else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        is_odd = int(node.gateway.id.removeprefix("gw")) % 2
        if is_odd and self.workqueue:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        # One that takes the place of a crashed worker is asked again when it has its tests.
        if node in self.registered_collections:
            super()._reschedule(node)
