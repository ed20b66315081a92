"""python-rapidjson 1.25: what it hides, and what it dies of.

`servers.fronts.http.json_body` looks at bodies before the library does. What the server writes
with it is bounded by what it has read; it is not given less memory than the machine has.
"""

from __future__ import annotations

import signal
import sys

import pytest
import rapidjson

from tests.upstream.child import LIMITED, run


def test_what_follows_a_nul_is_not_read() -> None:
    assert rapidjson.loads('{"a": 1}\0 and more') == {"a": 1}


def test_of_two_members_of_one_name_the_last_one_is_kept() -> None:
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
