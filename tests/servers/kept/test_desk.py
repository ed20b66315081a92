"""The desk: answers that come together are kept together, and one that is wrong alone is not."""

from __future__ import annotations

import asyncio
import threading

import pytest

from servers.kept.desk import KeptDesk
from servers.kept.store import KeptBounds, KeptKind, KeptObject, ResponseStore


def test_an_answer_that_cannot_be_kept_takes_no_other_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    new = KeptObject(kind=KeptKind.RESPONSE, owner="", request=b'{"input":"Hello"}')
    go_on = threading.Event()

    def hold(store: ResponseStore) -> None:
        go_on.wait()

    async def scenario() -> None:
        desk = KeptDesk(KeptBounds(), None, is_shared=False)
        held = asyncio.ensure_future(desk.ask(hold))
        await asyncio.sleep(0)
        for answer in (b'{"id":"one","status":"completed"}', b"no JSON", b'{"id":"two"}'):
            desk.keep(new, answer)
        go_on.set()
        await held
        one, _ = await desk.ask(lambda store: store.response("one", ""))
        items = await desk.ask(lambda store: store.input_items("two", ""))
        assert (len(items), b"one" in one) == (1, True)
        await desk.close()

    asyncio.run(scenario())
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "an answer could not be kept"
    ]
