"""The number of processors, with the quota of a container and without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from calculators.kit.machine import affinity_processors, usable_processors
from calculators.llm.tuning.candidates import single_changes
from calculators.speech.speech_to_text.node_options import read_speech_options
from graph_runtime import ResourceSettings
from tests.calculators.llm.graph_texts import plan_of
from tests.calculators.speech.speech_to_text.counter import GRAPH, MODEL


@pytest.fixture
def quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the quota of a container on eight processors."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    file = tmp_path / "cpu.max"
    monkeypatch.setattr("calculators.kit.machine._QUOTA", file)
    return file


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),
        ("1000 100000\n", 1),
        ("0 100000\n", 1),
        ("6400000 100000\n", 8),
        ("max 100000\n", 8),
        ("", 8),
    ],
)
def test_a_quota_limits_the_usable_processors(quota: Path, text: str, count: int) -> None:
    quota.write_text(text)
    assert usable_processors() == count
    assert affinity_processors() == 8


def test_without_control_groups_every_processor_of_the_process_is_usable(quota: Path) -> None:
    assert not quota.exists()
    assert usable_processors() == 8


def test_pipelines_of_speech_share_the_processors_of_the_quota(quota: Path) -> None:
    quota.write_text("400000 100000\n")
    (node,) = plan_of(GRAPH.replace('"NUM_STREAMS":"1"', '"NUM_STREAMS":"2"')).nodes
    options = read_speech_options(node, ResourceSettings(MODEL))
    assert options.properties["INFERENCE_NUM_THREADS"] == 2


def test_tuning_tries_no_more_threads_than_the_quota_allows(quota: Path) -> None:
    quota.write_text("200000 100000\n")
    changes = [each.changes[0] for each in single_changes({}, is_on_cpu=True)]
    threads = [each.value for each in changes if each.setting == "INFERENCE_NUM_THREADS"]
    assert max(threads) <= 2
