"""`graphrt serve` with the directory of a model that has no graph.pbtxt."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import pytest

from calculators.kit.settings.declaration import given_fields, options_of
from calculators.llm.task_graph import TextGeneration
from calculators.llm.task_options import TextGenerationOptions
from servers.cli.serve_arguments import add_options
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving, make_site
from tests.support.checkout import ROOT

DEMO = ROOT / "examples" / "models" / "demo"
CHAT = "/v3/chat/completions"
BODY = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "temperature": 0}
TASK = ["--model_name", "SmolLM2", "--model_path", "model", "--task", "text_generation"]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Beside the usual graphs a directory ``model`` with the files that tell a model."""
    make_site(tmp_path)
    (tmp_path / "model").mkdir()
    for name in ("config.json", "openvino_model.xml"):
        (tmp_path / "model" / name).touch()
    return tmp_path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A real model without a graph."""
    make_site(tmp_path)
    ignored = shutil.ignore_patterns("graph.pbtxt")
    return Path(shutil.copytree(DEMO, tmp_path / "model", ignore=ignored))


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


@pytest.mark.parametrize(
    "words",
    [
        [*TASK, "--pipeline_type", "LM_CB", "--max_num_seqs=8", "--port", "auto"],
        ["--model_name", "SmolLM2", "--model_path", "model"],
        [*TASK, "--pipeline_type", "LM"],
    ],
    ids=["with a task", "without", "one at a time"],
)
def test_a_model_without_a_graph_answers_and_nothing_is_written(
    model: Path, words: list[str]
) -> None:
    before = names(model)
    with Serving(model.parent, *words, is_forked=False).wait_until_serving() as serving:
        assert "SmolLM2: OpenVINO model, served as text_generation" in "".join(serving.log)
        with serving.request("POST", CHAT, {"model": "SmolLM2", **BODY}) as response:
            answer = json.loads(response.read())
        assert response.status == 200, answer
        assert answer["usage"]["completion_tokens"] in range(1, 5)
        assert "no effect" not in "".join(serving.log)
        maps = Path(f"/proc/{serving.pid}/maps")
        if maps.exists():  # the model is in the engine's process
            assert "libopenvino" not in maps.read_text(encoding="utf-8")
        serving.send_signal()
        assert serving.end()[0] == 0
    assert names(model) == before


@pytest.mark.parametrize("kind", ["AUTO", "LM_CB", "LM", "VLM_CB", "VLM"])
def test_every_type_that_is_served_can_be_given(kind: str) -> None:
    command = argparse.ArgumentParser()
    add_options(command, options_of(TextGenerationOptions))
    options = given_fields(
        TextGenerationOptions, vars(command.parse_args(["--pipeline_type", kind]))
    )
    assert options == {"pipeline_type": kind}
    assert f"pipeline_type: {kind}" in TextGeneration(**options).graph()


def test_a_graph_that_is_there_is_served_as_it_is(site: Path) -> None:
    graph = site / "echo" / "graph.pbtxt"
    before = graph.read_bytes()
    words = ["--model_name", "mine", "--model_path", "echo", "--task", "text_generation"]
    with Serving(site, *words, "--max_num_seqs", "3").wait_until_serving() as serving:
        shown = "".join(serving.log)
        assert "warning: --max_num_seqs has no effect: echo has a graph.pbtxt" in shown
        with serving.request("POST", CHAT, {"model": "mine"}) as response:
            assert response.read() == b'{"model": "mine"}'
    assert graph.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--pipeline_type invalid", "argument --pipeline_type: 'invalid' is not known."),
        ("--pipeline_type LM_BC", "Did you mean `LM_CB`?"),
        ("--pipeline_type OMINI", "Did you mean `OMNI`?"),
        ("--max_num_seqs 0", "a number from 1 on is needed: '0'"),
        ("--max_num_batched_tokens many", "a number from 1 on is needed: 'many'"),
        ("--cache_size -1", "a number from 0 on is needed: '-1'"),
        ("--cache_interval_multiplier 0", "a number from 1 on is needed: '0'"),
        ("--enable_prefix_caching=yes", "true or false is needed, not 'yes'"),
        ("--dynamic_split_fuse=1", "true or false is needed, not '1'"),
        ("--enable_tool_guided_generation=on", "true or false is needed, not 'on'"),
        ("--kv_cache_precision u2", "'u2' is not known. Known here: u8, u4"),
        ("--model_distribution_policy TENSOR", "TENSOR_PARALLEL, PIPELINE_PARALLEL"),
        ("--tool_parser herms", 'Did you mean "hermes"'),
        ("--reasoning_parser qwen", 'Did you mean "qwen3"'),
        ("--plugin_config []", "--plugin_config: must be a JSON object"),
        ("--max_prompt_len 9", "it needs --target_device NPU"),
        ("--max_num_seq 3", "did you mean `--max_num_seqs`?"),
    ],
)
def test_wrong_options_of_a_task_are_exit_code_2(site: Path, words: str, message: str) -> None:
    done = graphrt("serve", *TASK, *words.split(), cwd=site)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("model --task text_gen", "Did you mean `text_generation`?"),
        ("config.json --task text_generation", "--task is for one model, and config.json is no"),
        ("config.json --max_num_seqs 3", "--max_num_seqs is for one model"),
        ("echo/graph.pbtxt --target_device CPU", "options of a graph's nodes are in its graph"),
    ],
)
def test_tasks_that_are_not_served_are_exit_code_2(site: Path, words: str, message: str) -> None:
    done = graphrt("serve", *words.split(), cwd=site)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
