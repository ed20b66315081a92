"""What the server's log says while clients use it."""

from __future__ import annotations

import re

from tests.process.server_process import ServerProcess


def test_grpc_s_library_says_nothing_of_its_own(server: ServerProcess) -> None:
    # Letter, month and day, the time: the form of its lines.
    assert [line for line in server.log if re.match(r"[IWEF]\d{4} \d\d:", line)] == []
