"""`examples/graphs/long_context`, served: common prefixes, answers in a bounded cache."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT

FOLDER = ROOT / "examples" / "graphs" / "long_context"
CHAT = "/v3/chat/completions"
COMPLETIONS = "/v3/completions"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
#: Bytes of a block of 32 tokens of the demo model in u8.
BLOCK = 20_480


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with Serving(ROOT, "examples/graphs/long_context/config.json", calculators=()) as serving:
        yield serving.wait_until_serving()


def ask(server: Serving, path: str, model: str, **more: Any) -> dict[str, Any]:
    body = {"model": model, "temperature": 0, **more}
    with server.request("POST", path, body) as response:
        answer: dict[str, Any] = json.loads(response.read())
        assert response.status == 200, answer
    return answer


def metric(server: Serving, name: str, model: str) -> float:
    with server.request("GET", "/metrics") as response:
        text = response.read().decode()
    (value,) = re.findall(rf'^{name}{{graph="{model}"[^}}]*}} (\S+)$', text, re.MULTILINE)
    return float(value)


@pytest.mark.parametrize("name", ["shared", "bounded"])
def test_the_command_of_the_comment_works(name: str) -> None:
    text = (FOLDER / f"{name}.pbtxt").read_text(encoding="utf-8")
    assert "#   graphrt serve examples/graphs/long_context/config.json\n" in text
    assert f'"model": "{name}"' in text


@pytest.mark.parametrize("model", ["shared", "bounded"])
def test_a_question_is_answered(model: str, server: Serving) -> None:
    answer = ask(server, CHAT, model, messages=QUESTION)
    assert "Paris" in answer["choices"][0]["message"]["content"]


def test_a_prompt_with_a_known_prefix_takes_fewer_steps(server: Serving) -> None:
    """The first prompt takes thirty steps to its first token, the others one or two."""
    name, shared = (
        "graphrt_llm_time_to_first_token_seconds_sum",
        "graphrt_llm_shared_prompt_tokens_total",
    )
    before = metric(server, shared, "shared")
    times = [metric(server, name, "shared")]
    for last in (7, 7, 8):
        prompt = [*range(100, 2000), last]
        ask(server, COMPLETIONS, "shared", prompt=prompt, max_tokens=1)
        times.append(metric(server, name, "shared"))
    first, again, other = (after - before for before, after in itertools.pairwise(times))
    assert again < first
    assert other < first
    assert metric(server, shared, "shared") - before == 2 * (1900 // 32 * 32)


def test_a_long_answer_stays_within_the_configured_cache(server: Serving) -> None:
    body = {
        "model": "bounded",
        "messages": QUESTION,
        "max_tokens": 1900,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
    }
    used: list[float] = []
    with server.request("POST", CHAT, body) as response:
        for number, line in enumerate(response):
            if b'"finish_reason":"length"' in line:
                break
            if number % 100:
                continue
            ratio = metric(server, "graphrt_llm_kv_cache_usage_ratio", "bounded")
            used.append(ratio * metric(server, "graphrt_llm_kv_cache_bytes", "bounded"))
        else:
            raise AssertionError("it has no end")
    # max_cache_size, the blocks that KVCrush retains, and blocks that are not dropped yet.
    assert 0 < max(used) <= (512 // 32 + 2 + 2) * BLOCK
    assert metric(server, "graphrt_llm_cache_full_total", "bounded") == 0


def test_beams_are_refused_with_cache_eviction(server: Serving) -> None:
    body = {"model": "bounded", "prompt": "Hello", "best_of": 3, "temperature": 0}
    with server.request("POST", COMPLETIONS, body) as response:
        error = json.loads(response.read())["error"]
        assert (response.status, error["param"]) == (400, "best_of")
    ask(server, COMPLETIONS, "shared", prompt="Hello", best_of=3, max_tokens=5)
