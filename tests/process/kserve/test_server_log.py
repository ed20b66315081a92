"""The server's log while clients use it."""

from __future__ import annotations

import re

from tests.process.server_process import ServerProcess


def test_the_grpc_library_logs_nothing_of_its_own(server: ServerProcess) -> None:
    # Letter, month and day, time: the form of the library's lines.
    assert [line for line in server.log if re.match(r"[IWEF]\d{4} \d\d:", line)] == []
