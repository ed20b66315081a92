"""`graphrt tune` on the example model, with budgets of seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from calculators.kit.tasks import ModelToServe
from calculators.llm.tuning.tuning import node_options
from graph_runtime import parse_graph_text
from tests.calculators.llm.demo_model import DEMO, copy_of_demo
from tests.servers.cli.process import graphrt

_BYTES = 1 << 33


def test_the_fastest_settings_are_written_with_their_figures(tmp_path: Path) -> None:
    model = copy_of_demo(tmp_path / "model", without="graph.pbtxt")
    graph = model / "graph.pbtxt"
    # What a command has written it may write again.
    graph.write_text("# Written by graphrt configure, for text_generation\n")
    done = graphrt("tune", model, "--budget", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"Graph: graph.pbtxt created in: {graph}\n"
    text = graph.read_text()
    assert text.startswith("# Written by graphrt tune, for text_generation\n# ")
    assert '# Load "chat": 8 streams, prompts of about' in text
    comments = [line for line in text.splitlines() if line.startswith("#")]
    (defaults,) = (line for line in comments if line.startswith("# defaults "))
    assert "1.00 to 1.00" in defaults
    assert " s: single settings" in done.stderr
    (node,) = parse_graph_text(text).node
    assert node.calculator == "HttpLLMCalculator"
    checked = graphrt("validate", graph)
    assert checked.returncode == 0, checked.stdout


def test_given_options_stay_and_nothing_is_written_if_it_is_only_shown(tmp_path: Path) -> None:
    model = copy_of_demo(tmp_path / "model", without="graph.pbtxt")
    words = (
        "--show-only",
        "--budget=0.5",
        "--load=long_prompts",
        "--max_num_batched_tokens=128",
        "--tool_parser=none",
    )
    done = graphrt("tune", model, *words)
    assert done.returncode == 0, done.stderr
    assert not (model / "graph.pbtxt").exists()
    assert done.stdout.startswith("# Written by graphrt tune")
    assert "max_num_batched_tokens: 128" in done.stdout
    assert "# max_num_batched_tokens" not in done.stdout
    assert 'tool_parser: "none"' in done.stdout


def test_a_graph_written_by_hand_is_kept_before_anything_is_measured(tmp_path: Path) -> None:
    model = copy_of_demo(tmp_path / "model")
    graph = model / "graph.pbtxt"
    before = graph.read_text()
    done = graphrt("tune", model)
    assert done.returncode == 1
    assert done.stderr == (
        f"error: {graph} was not written by graphrt, and is kept\n"
        "hint: write the options into it, or move it away\n"
    )
    assert graph.read_text() == before


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (["missing"], 1, "missing: no such file or directory"),
        (["."], 1, ".: no language model that can be served"),
        (["model", "--load", "fast"], 2, "chat, long_prompts, many_streams"),
        (["model", "--budget", "0"], 2, "0 is not a number above 0"),
        (["model", "--plugin_config", "{"], 2, "plugin_config"),
        (["model", "--pipeline_type", "LM"], 1, "only LM_CB"),
        (["model", "--draft_source_model", "none"], 1, "draft_models_path"),
        (["model", "--pooling", "CLS"], 2, "not an option of the task text_generation"),
    ],
)
def test_errors_say_what_would_help(
    tmp_path: Path, words: list[str], status: int, reason: str
) -> None:
    copy_of_demo(tmp_path / "model", without="graph.pbtxt")
    done = graphrt("tune", *words, "--show_only", cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


def test_a_candidate_has_the_settings_of_the_graph_that_is_written() -> None:
    model = ModelToServe(path=DEMO, models_path="./", memory=_BYTES)
    engine = node_options(model, {"max_num_batched_tokens": 64}).engine
    assert engine.max_num_batched_tokens == 64
    assert engine.enable_prefix_caching
    assert engine.cache_size == 1
