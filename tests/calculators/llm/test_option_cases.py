"""Conformance cases of OpenVINO Model Server's node options."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from calculators.llm.engine.library_config import recommended_device, scheduler_config
from calculators.llm.options.node_options import read_node_options
from calculators.llm.options.plugin_config import read_plugin_config
from graph_runtime import ResourceError, ResourceSettings
from tests.calculators.llm.demo_model import DEMO
from tests.calculators.llm.graph_texts import plan_of, resources_of, with_options
from tests.corpora import corpora

FILE = corpora() / "llm_graph_options.jsonl"

_LINES = FILE.read_text(encoding="utf-8").splitlines()
CASES = [case for case in map(json.loads, _LINES) if case["kind"] == "graph_load"]

_ROTATION = "apply_rotation is refused: with it the engine dies"

_CACHE = "the server's --cache_dir is used where it helps, in a folder for each model"

#: By id: why the result here differs from the expected one.
EXCEPTIONS = {
    "initialization:VLMServableInitializationTest.draftModelProvided": (
        "a draft model is refused there because the model sees images; with the text model that "
        "stands in for it here it is accepted"
    ),
    "llmnode:LLMOptionsHttpTest.LLMNodeOptionsCacheDirWritesCacheArtifacts": (
        "that the engine writes its cache is tested below"
    ),
    "llmnode:LLMOptionsHttpTest.LLMNodeOptionsCacheDirPropagation#0": _CACHE,
    "llmnode:LLMOptionsHttpTest.LLMNodeOptionsMultipleNodesCacheDirPrecedence#1": _CACHE,
    "llmnode:LLMVLMOptionsHttpTest.LLMVLMNodeOptionsMultipleNodesCacheDirPrecedence#1": _CACHE,
    # OpenVINO Model Server's engine accepts these options and crashes at the first long request.
    "llmnode:LLMOptionsHttpTest.LLMNodeOptionsCheckNonDefault": _ROTATION,
    "llmnode:LLMVLMOptionsHttpTest.LLMVLMNodeOptionsCheckNonDefault": _ROTATION,
    "llmnode:LLMVLMOptionsHttpTest.LLMVLMNodeOptionsCheckNonDefaultCacheEvictionConfig": _ROTATION,
    "llmnode:LLMVLMOptionsHttpTest.LLMVLMNodeOptionsCheckDefaultCacheEvictionConfig": (
        "a start_size of 1 is not a whole block"
    ),
    "llmnode:LLMOptionsHttpTest.LLMNodeOptionsCheckNonDefaultSparseAttentionConfig": (
        "XATTENTION is refused without a GPU, and a block size of 65 is not a whole block"
    ),
    "llmnode:LLMOptionsHttpTest.LLMNodeOptionsCacheDirPropagation#1": (
        "the case has lost its path; LLMNodeOptionsMultipleNodesCacheDirPrecedence#0 says the same"
    ),
}


def mapped(text: str, folder: Path) -> str:
    """Replace the case's model by the demo model, and its temporary folder by ours."""
    text = re.sub(r"/ovms/src/test/llm_testing/[\w./-]+", str(DEMO), text)
    return text.replace("<tmp>", str(folder))


def graph_of(case: dict[str, Any], folder: Path) -> str:
    if case.get("pbtxt"):
        return mapped(case["pbtxt"], folder)
    options = case["node_options"] if "plugin_config" in case["node_options"][:14] else ""
    return with_options('models_path: "./" ' + mapped(options, folder))


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_case_loads_or_is_refused(case: dict[str, Any], tmp_path: Path) -> None:
    if case["id"] in EXCEPTIONS:
        pytest.skip(EXCEPTIONS[case["id"]])
    text = graph_of(case, tmp_path)
    cache_dir = mapped(case.get("server_options", {}).get("cache_dir", ""), tmp_path)
    expect = case["expect"]
    if expect["status"] != "OK":
        with pytest.raises(ResourceError):
            asyncio.run(resources_of(text, DEMO, cache_dir=cache_dir))
        return
    (node,) = plan_of(text).nodes
    options = read_node_options(node, ResourceSettings(DEMO, cache_dir=cache_dir))
    roots: dict[str, Any] = {
        "scheduler_config": scheduler_config(options.engine),
        "plugin_config": options.engine.plugin_config,
        "device": options.engine.device or recommended_device(),
        "maxTokensLimit": options.max_tokens_limit,
        "bestOfLimit": options.best_of_limit,
    }
    for check in expect.get("checks", []):
        assert is_as_expected(roots, check, tmp_path), check


def is_as_expected(roots: dict[str, Any], check: dict[str, Any], folder: Path) -> bool:
    path, _, question = check["path"].partition("|")
    first, *names = path.split(".")
    value = roots[first]
    for name in names:
        if isinstance(value, dict):
            value = value.get(name)
        else:
            getter = getattr(value, f"get_{name}", None)
            value = getter() if getter is not None else getattr(value, name)
    if question == "present":
        value = value is not None
    value = getattr(value, "name", value)
    wanted = check["value"]
    if isinstance(wanted, str):
        wanted = mapped(wanted, folder)
    match check["op"]:
        case "eq":
            is_so = value == wanted
        case "near":
            is_so = abs(value - wanted) < 1e-6
        case _:
            assert check["op"] == "contains"
            is_so = wanted in value
    return bool(is_so) is not bool(check.get("not"))


def test_every_exception_has_a_case() -> None:
    if CASES:
        assert EXCEPTIONS.keys() <= {case["id"] for case in CASES}


def times(folder: Path) -> dict[Path, int]:
    """Return the times at which compiled models were written."""
    return {blob: blob.stat().st_mtime_ns for blob in folder.rglob("*.blob")}


@pytest.mark.parametrize(("pipeline", "is_written"), [("LM_CB", False), ("LM", True)])
def test_the_engine_writes_its_cache_into_the_servers_directory_where_it_is_of_use(
    tmp_path: Path, pipeline: str, is_written: bool
) -> None:
    text = with_options(f'models_path: "./" pipeline_type: {pipeline}')

    async def run() -> None:
        resources = await resources_of(text, DEMO, cache_dir=str(tmp_path))
        await resources.close()

    asyncio.run(run())
    written = times(tmp_path)
    assert bool(written) == is_written
    # The second start reads them.
    asyncio.run(run())
    assert times(tmp_path) == written


def test_plugin_configs_of_openvino_model_servers_tests_are_read_alike() -> None:
    text = '{"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1"}'
    assert read_plugin_config(text) == json.loads(text)
