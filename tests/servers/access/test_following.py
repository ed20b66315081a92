"""Files of keys and certificates are followed beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest

from calculators.kit import file_threads
from servers import access
from servers.access import Access, ApiKeys, follow
from servers.fronts.http import HttpSettings
from servers.server.lifecycle import Server, ServerSettings
from tests.support.conditions import until
from tests.support.patience import PATIENCE


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(file_threads, "_TURN_SECONDS", 0.05)
    monkeypatch.setattr(file_threads, "ANSWER_SECONDS", 0.1)


class Silent:
    """Files that do not answer until they are released."""

    owner = "the files of a test"

    def __init__(self) -> None:
        self.released = threading.Event()
        self.reads = 0

    def read_again(self) -> None:
        self.reads += 1
        self.released.wait(PATIENCE)


def test_files_that_do_not_answer_delay_no_others_and_are_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys"
    file.write_text("first\n")
    keys, silent = ApiKeys.of_file(file), Silent()

    async def scenario() -> None:
        following = asyncio.create_task(follow([silent, keys]))
        await until(lambda: "have not answered" in caplog.text)
        for key in ("second", "third"):
            file.write_text(f"{key} \n")
            await until(partial(keys.accepts, key))
        assert silent.reads == 1
        silent.released.set()
        await until(lambda: silent.reads > 1)
        following.cancel()
        await asyncio.wait([following])

    asyncio.run(scenario())
    assert caplog.text.count("the files of a test") == 1
    assert "what was read before stays" in caplog.text


def test_a_server_follows_its_keys_from_its_start_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("first\n")
    keys = ApiKeys.of_file(file)
    http = HttpSettings(port=0, access=Access(keys))

    async def scenario() -> None:
        server = Server(ServerSettings((), http=http))
        await server.start()
        file.write_text("second\n")
        await until(lambda: keys.accepts("second"))
        assert not keys.accepts("first")
        await server.stop()

    asyncio.run(scenario())
