"""`examples/graphs/speculative` and `prompt_lookup`, served: fewer passes, the same answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT

GRAPHS = ROOT / "examples" / "graphs"
MODELS = ("speculative", "prompt_lookup")
CHAT = "/v3/chat/completions"
COUNT = [{"role": "user", "content": "Count from 3 to 12."}]
COUNTED = "3, 4, 5, 6, 7, 8, 9, 10, 11, 12."
#: "7" is the first token that a draft model proposes after "6, ".
STOP = ", 7"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Serve both graphs, and the model without them."""
    config = tmp_path_factory.mktemp("proposed") / "config.json"
    graphs = [{"name": name, "base_path": str(GRAPHS / name)} for name in MODELS]
    graphs.append({"name": "plain", "base_path": str(ROOT / "examples/models/demo")})
    config.write_text(json.dumps({"mediapipe_config_list": graphs}))
    with Serving(ROOT, str(config), calculators=()) as serving:
        yield serving.wait_until_serving()


def ask(server: Serving, model: str, *, status: int = 200, **more: Any) -> dict[str, Any]:
    body = {"model": model, "messages": COUNT, "temperature": 0, **more}
    with server.request("POST", CHAT, body) as response:
        answer: dict[str, Any] = json.loads(response.read())
        assert response.status == status, answer
    return answer


def stream(server: Serving, model: str, **more: Any) -> list[dict[str, Any]]:
    body = {"model": model, "messages": COUNT, "temperature": 0, "stream": True, **more}
    body["stream_options"] = {"include_usage": True}
    with server.request("POST", CHAT, body) as response:
        *events, done, end = response.read().decode().split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def metric(server: Serving, name: str, model: str) -> float:
    with server.request("GET", "/metrics") as response:
        text = response.read().decode()
    (value,) = re.findall(rf'^{name}{{graph="{model}"[^}}]*}} (\S+)$', text, re.MULTILINE)
    return float(value)


@pytest.mark.parametrize("name", MODELS)
def test_the_command_of_the_comment_works(name: str) -> None:
    text = (GRAPHS / name / "graph.pbtxt").read_text(encoding="utf-8")
    assert f"#   graphrt serve examples/graphs/{name}\n" in text
    (graph,) = json.loads((GRAPHS / name / "config.json").read_text())["mediapipe_config_list"]
    assert graph == {"name": name, "base_path": "."}
    assert f'"model": "{name}"' in text


@pytest.mark.parametrize("model", MODELS)
def test_an_answer_is_that_of_the_model_alone(model: str, server: Serving) -> None:
    plain, answer = ask(server, "plain"), ask(server, model)
    assert answer["choices"][0]["message"]["content"] == COUNTED
    assert answer["choices"] == plain["choices"]
    assert answer["usage"] == plain["usage"]


@pytest.mark.parametrize("model", MODELS)
def test_a_stream_joins_to_the_whole_answer(model: str, server: Serving) -> None:
    *events, last = stream(server, model)
    choices = [event["choices"][0] for event in events]
    assert "".join(choice["delta"].get("content") or "" for choice in choices) == COUNTED
    assert choices[-1]["finish_reason"] == "stop"
    assert last["usage"] == ask(server, "plain")["usage"]


@pytest.mark.parametrize("model", MODELS)
def test_a_stop_string_may_end_the_text_amid_proposed_tokens(model: str, server: Serving) -> None:
    choice = ask(server, model, stop=[STOP])["choices"][0]
    assert choice["message"]["content"] == "3, 4, 5, 6"
    assert choice["finish_reason"] == "stop"


@pytest.mark.parametrize("model", MODELS)
def test_max_tokens_bounds_the_answer(model: str, server: Serving) -> None:
    answer = ask(server, model, max_tokens=8)
    assert answer["usage"]["completion_tokens"] == 8
    assert answer["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("model", MODELS)
def test_the_answer_follows_a_schema(model: str, server: Serving) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
    answer = ask(server, model, response_format=form, max_tokens=60)
    made = json.loads(answer["choices"][0]["message"]["content"])
    assert set(made) == {"name", "age"}


@pytest.mark.parametrize("model", MODELS)
def test_several_samples_are_generated(model: str, server: Serving) -> None:
    answer = ask(server, model, n=3, temperature=0.3, seed=1)
    contents = [choice["message"]["content"] for choice in answer["choices"]]
    assert contents == [COUNTED] * 3


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"best_of": 3}, "best_of"),
        ({"min_tokens": 5}, "min_tokens"),
        ({"num_assistant_tokens": 10**6}, "num_assistant_tokens"),
    ],
)
def test_incompatible_members_are_refused_by_name(
    model: str, body: dict[str, Any], param: str, server: Serving
) -> None:
    error = ask(server, model, status=400, **body)["error"]
    assert error["param"] == param
    assert ask(server, model)["choices"][0]["message"]["content"] == COUNTED


def test_metrics_count_accepted_tokens(server: Serving) -> None:
    ask(server, "speculative", num_assistant_tokens=5)
    assert metric(server, "graphrt_llm_accepted_candidates_total", "speculative") > 0
    assert metric(server, "graphrt_llm_candidate_passes_total", "speculative") > 0
    assert metric(server, "graphrt_llm_accepted_candidates_total", "plain") == 0
