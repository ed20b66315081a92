"""What a process of its own protects the tests from."""

from __future__ import annotations

import os

import pytest

from tests.support.apart import Apart


class Fragile:
    """It counts, and may end its process."""

    def __init__(self, first: int) -> None:
        if first < 0:
            raise ValueError("counts begin at 0")
        self.count = first

    def add(self, number: int, *, twice: bool = False) -> int:
        self.count += number * (1 + twice)
        return self.count

    def refuse(self) -> None:
        raise KeyError("no")

    def abort(self) -> None:
        os.abort()

    def pid(self) -> int:
        return os.getpid()


@pytest.mark.usefixtures("in_process_engine")
def test_calls_and_attributes_are_those_of_the_object_in_another_process() -> None:
    fragile = Apart(Fragile, 3)
    assert fragile.call("pid") != os.getpid()
    assert fragile.call("add", 2, twice=True) == 7 == fragile.call("count")
    with pytest.raises(KeyError, match="no"):
        fragile.call("refuse")
    assert fragile.call("count") == 7


@pytest.mark.usefixtures("in_process_engine")
def test_an_abort_fails_one_call_and_the_next_has_a_new_object() -> None:
    fragile = Apart(Fragile, 3)
    fragile.call("add", 1)
    with pytest.raises(pytest.fail.Exception, match=r"exit code -6 in abort\(\)"):
        fragile.call("abort")
    assert fragile.call("count") == 3
    fragile.close()


@pytest.mark.usefixtures("in_process_engine")
def test_an_object_that_cannot_be_made_says_so() -> None:
    with pytest.raises(ValueError, match="begin at 0"):
        Apart(Fragile, -1)


@pytest.mark.usefixtures("in_process_engine")
def test_the_process_ends_with_the_object() -> None:
    fragile = Apart(Fragile, 0)
    pid = fragile.call("pid")
    fragile.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
