"""Models that classify texts over HTTP, with OpenAI's client, and as their page says."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.calculators.text.text_classification.tiny_classifier import (
    CATEGORIES,
    LABELS,
    MAX_TOKENS,
    logits,
    make_model,
    sigmoid,
)
from tests.documents.snippets import ADDRESS, asked, run_python
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.servers.fronts.openapi.described import Described
from tests.support.late_import import LateImport
from tests.support.markdown import block, blocks, commands

openai = LateImport("openai", reason="the extra `clients` is not installed")

PAGE: Final = "calculators/text/text_classification/README.md"
PATHS: Final = ("classify", "moderations", "predict")
DESCRIBED: Final = Described()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a model, MODEL_DIR, without a graph, and one with that of the page."""
    place = tmp_path_factory.mktemp("place")
    make_model(place / "MODEL_DIR")
    make_model(place / "guard")
    text = next(text for _, text in blocks(PAGE) if text.startswith("input_stream"))
    (place / "guard" / "graph.pbtxt").write_text(text, encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def guard(place: Path) -> Iterator[Serving]:
    """The server of the page's graph."""
    with Serving(place, "guard", calculators=()) as serving:
        yield serving.wait_until_serving()


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_a_directory_is_served_as_the_page_says(place: Path) -> None:
    _, serve, curl = commands(PAGE, "--task text_classification")
    words = shlex.split(serve)[2:]
    with Serving(place, *words, calculators=(), is_forked=False).wait_until_serving() as serving:
        log = "".join(serving.log)
        assert "guard: OpenVINO model, served as text_classification" in log
        answer = json.loads(asked(curl, serving, place))
        assert [each["label"] for each in answer["data"]] == ["calm", "insult"]
        # Its label `insult` stands for OpenAI's category.
        status, found = serving.post("/v1/moderations", {"model": "guard", "input": "tea"})
        assert (status, found["results"][0]["flagged"]) == (200, False)
        _, models = serving.get("/v3/models")
        (model,) = models["data"]
        assert (model["task"], model["max_model_len"]) == ("text_classification", MAX_TOKENS)
        assert model["labels"] == list(LABELS)
        _, info = serving.get("/info")
        (kind, about), *_ = info["model_type"].items()
        assert (kind, info["max_input_length"]) == ("classifier", MAX_TOKENS)
        assert list(about["id2label"].values()) == list(about["label2id"]) == list(LABELS)
        maps = Path(f"/proc/{serving.pid}/maps")
        if maps.exists():  # the model is in a process of its own
            assert "libopenvino" not in maps.read_text(encoding="utf-8")


def test_a_model_of_texts_classes_is_recognized_without_its_task(place: Path) -> None:
    with Serving(place, "MODEL_DIR", calculators=()).wait_until_serving() as serving:
        status, answer = serving.post("/v3/classify", {"model": "MODEL_DIR", "input": "tea"})
        assert (status, answer["data"][0]["label"]) == (200, "calm")


def test_the_pages_program_moderates_with_openais_client(
    guard: Serving, place: Path, tmp_path: Path
) -> None:
    program = block(PAGE, "python", "moderations.create")
    address = f"http://127.0.0.1:{guard.port}"
    (tmp_path / "moderate.py").write_text(program.replace(ADDRESS, address), encoding="utf-8")
    assert run_python("moderate.py", tmp_path) == "True True\n"


@pytest.mark.parametrize("prefix", ["/v1", "/v3"])
def test_openais_client_moderates_texts_and_parts(guard: Serving, prefix: str) -> None:
    address = f"http://127.0.0.1:{guard.port}{prefix}"
    with openai.OpenAI(base_url=address, api_key="none", max_retries=0) as client:
        one = client.moderations.create(model="guard", input="you fool")
        several = client.moderations.create(model="guard", input=["tea", "beware you"])
        parts = client.moderations.create(
            model="guard",
            input=[{"type": "text", "text": "tea"}, {"type": "text", "text": "idiot"}],
        )
        with pytest.raises(openai.BadRequestError) as refused:
            client.moderations.create(
                model="guard",
                input=[{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}],
            )
        with pytest.raises(openai.NotFoundError):
            client.moderations.create(model="other", input="tea")
    assert [result.flagged for result in one.results] == [True]
    insult, threat, _ = sigmoid(logits("you fool"))[0].tolist()
    scores = one.results[0].category_scores
    assert scores.harassment == pytest.approx(insult, abs=1e-5)
    assert scores.violence == pytest.approx(threat, abs=1e-5)
    assert one.results[0].category_applied_input_types.violence == ["text"]
    assert one.results[0].category_applied_input_types.hate == []
    assert [result.flagged for result in several.results] == [False, True]
    assert several.results[1].categories.harassment_threatening is True
    assert len(parts.results) == 1
    assert parts.results[0].categories.harassment is True
    assert refused.value.param == "input[0]"


def test_the_described_requests_and_answers_are_real(guard: Serving) -> None:
    tried = set()
    for path, method, body in DESCRIBED.examples():
        if path.rpartition("/")[2] not in PATHS:
            continue
        status, answer = guard.post(path, {**body, "model": "guard"})
        assert status == 200, answer
        text = json.dumps(answer).encode()
        DESCRIBED.check_answer(path, method, status, "application/json", text)
        tried.add(path)
    assert {f"{prefix}/{name}" for prefix in ("/v1", "/v3", "/v3/v1") for name in PATHS} <= tried


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/v1/moderations", {"input": []}, 400, "input"),
        ("/v1/moderations", {"input": "a" * 200_000}, 400, "input"),
        ("/v1/moderations", {"input": "a" * 10_000_000}, 413, None),
        ("/v1/moderations", {"input": [1, 2]}, 400, "input[0]"),
        ("/v1/moderations", {"input": "\ud800"}, 400, None),
        ("/v1/classify", {"input": {"a": 1}}, 400, "input"),
        ("/classify", {"input": [[]]}, 400, "input[0]"),
        ("/predict", {"inputs": [[]]}, 400, "inputs[0]"),
    ],
)
def test_a_hostile_request_is_refused_and_the_next_one_answered(
    guard: Serving, path: str, body: dict[str, Any], status: int, param: str | None
) -> None:
    found, answer = guard.post(path, {"model": "guard", **body})
    assert (found, answer["error"]["param"]) == (status, param)
    found, answer = guard.post("/v1/classify", {"model": "guard", "input": "tea"})
    assert (found, answer["data"][0]["label"]) == (200, "calm")


def test_a_request_that_names_no_model_is_for_the_only_one(guard: Serving) -> None:
    address = f"http://127.0.0.1:{guard.port}/v1"
    with openai.OpenAI(base_url=address, api_key="none", max_retries=0) as client:
        moderation = client.moderations.create(input="you fool")
    assert (moderation.model, moderation.results[0].flagged) == ("guard", True)
    status, answer = guard.post("/predict", {"inputs": [["tea"], ["you fool"]]})
    assert (status, [each[0]["label"] for each in answer]) == (200, ["calm", "insult"])
    status, answer = guard.post("/classify", {"input": "tea"})
    assert (status, answer["model"]) == (200, "guard")


def test_a_graph_is_checked_without_loading_it(place: Path, tmp_path: Path) -> None:
    assert graphrt("validate", "guard/graph.pbtxt", cwd=place).returncode == 0
    make_model(tmp_path / "wrong", CATEGORIES.replace('"insult"', '"insolt"'))
    done = graphrt("validate", "wrong/graph.pbtxt", cwd=tmp_path)
    assert done.returncode != 0
    assert 'Did you mean "insult"' in done.stderr + done.stdout
