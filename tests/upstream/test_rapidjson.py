"""python-rapidjson 1.25: text that it ignores, and a crash.

`servers.fronts.http.body` checks bodies before the library parses them. The size of what the
server writes with it is bounded by what it has read, so it does not run out of memory.
"""

from __future__ import annotations

import signal
import sys

import pytest
import rapidjson

from tests.upstream.child import LIMITED, run


def test_text_after_a_nul_is_not_read() -> None:
    assert rapidjson.loads('{"a": 1}\0 and more') == {"a": 1}


def test_the_last_of_two_members_of_one_name_is_kept() -> None:
    assert rapidjson.loads('{"a": 1, "a": 2}') == {"a": 2}


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of memory")
def test_writing_without_enough_memory_ends_the_process() -> None:
    code = """
import rapidjson
value = ["x" * 50_000_000]
limit(8 << 20)
rapidjson.dumps(value)
"""
    assert run(LIMITED + code).returncode == -signal.SIGSEGV
