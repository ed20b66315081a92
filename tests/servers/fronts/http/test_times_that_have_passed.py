"""Time-outs so short that they have passed when they are read."""

from __future__ import annotations

import pytest

from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import FakeDataPlane, hang
from tests.servers.fronts.http.http_client import ask, chat_bytes, serving


@pytest.mark.parametrize("seconds", [5e-324, 1e-9, 1e-4])
def test_two_passed_time_outs_are_one_error(run: Run, seconds: float) -> None:
    async def scenario() -> None:
        header = {"X-Request-Timeout": str(seconds)}
        async with serving(FakeDataPlane(hang=hang)) as front:
            reply = await ask(front, chat_bytes("hang", headers=header, timeout=seconds))
            assert (reply.status, reply.error["code"]) == (504, "timeout")

    run(scenario())
