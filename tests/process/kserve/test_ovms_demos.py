"""Clients and Python handlers of OpenVINO Model Server's guides and demos work together."""

from __future__ import annotations

from typing import Any

import pytest

from tests.process.kserve.asked import DEMOS
from tests.process.kserve.conftest import Seen


@pytest.fixture
def told(seen: Seen) -> dict[str, Any]:
    return seen(DEMOS)


def test_a_text_may_be_sent_without_its_length(told: dict[str, Any]) -> None:
    assert told["quickstart"] == "MAKE THIS TEXT UPPERCASE."


def test_a_prompt_is_completed_until_the_marked_end(told: dict[str, Any]) -> None:
    assert told["one_prompt"] == ["One 0;", "One 1;", [2]]


def test_several_prompts_are_completed_together(told: dict[str, Any]) -> None:
    assert told["two_prompts"] == [["One 0;", "Two 0;"], ["One 1;", "Two 1;"], [2]]


def test_a_shape_may_count_bytes(told: dict[str, Any]) -> None:
    assert told["packed"] == ["MAKE THIS TEXT UPPERCASE."]


def test_datatypes_of_numpy_are_passed_on(told: dict[str, Any]) -> None:
    assert told["labels"] == ["<U5", ["CAT", "HORSE"]]


def test_a_dag_pipeline_answers_for_each_slice_by_its_own_names(told: dict[str, Any]) -> None:
    # Metadata of tritonclient are texts in protobuf's JSON.
    assert told["pipeline"] == ["OUT", [-1, 2], [[3, 4], [5, 6], [7, 8]]]
