"""Embeddings as the usual client libraries get them, each unmodified."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.calculators.text.embeddings.asking_clients import LIBRARIES, TEXTS
from tests.calculators.text.embeddings.tiny_embedder import expected, graph, make_model, tokens
from tests.servers.cli.serving import Serving, make_site
from tests.support.checkout import ROOT
from tests.support.markdown import blocks
from tests.support.patience import PATIENCE

MODULE = "tests.calculators.text.embeddings.asking_clients"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    site = tmp_path_factory.mktemp("site")
    make_site(site)
    make_model(site / "tiny", graph(pooling="MEAN"))
    words = ["--model_name", "tiny", "--model_path", "tiny"]
    with Serving(site, *words).wait_until_serving() as serving:
        yield f"http://127.0.0.1:{serving.port}"


def is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@pytest.fixture(scope="module")
def told(url: str) -> dict[str, Any]:
    """Return what the installed libraries tell. In one process: most of it is importing."""
    done = subprocess.run(
        [sys.executable, "-m", MODULE, url, *filter(is_installed, LIBRARIES)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    by_library: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return by_library


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_gets_the_models_vectors(told: dict[str, Any], library: str) -> None:
    if not is_installed(library):
        pytest.skip(f"{library} is not installed")
    facts = told[library]
    assert isinstance(facts, dict), facts
    wanted = np.array([expected(text, "MEAN") for text in TEXTS])
    np.testing.assert_allclose(facts.pop("vectors"), wanted, atol=1e-4)
    if "query" in facts:
        np.testing.assert_allclose(facts.pop("query"), wanted[0], atol=1e-4)
    if "floats" in facts:
        np.testing.assert_allclose(facts.pop("floats"), wanted, atol=1e-4)
    if "int8" in facts:
        assert np.abs(np.array(facts.pop("int8")) - wanted * 127).max() < 1
    if library == "openai":
        count = sum(len(tokens(text)) for text in TEXTS)
        assert facts == {"short": 3, "model": "tiny", "tokens": count, "refused": [400, "input"]}


def test_googles_methods_answer_and_refuse_in_googles_form(url: str) -> None:
    one = post(
        url,
        "embedContent",
        {"content": {"parts": [{"text": "The cat sat "}, {"text": "on the mat."}]}},
    )
    np.testing.assert_allclose(one["embedding"]["values"], expected(TEXTS[0], "MEAN"), atol=1e-4)
    texts = [{"model": "models/tiny", "content": {"parts": [{"text": text}]}} for text in TEXTS]
    both = post(url, "batchEmbedContents", {"requests": texts})
    wanted = np.array([expected(text, "MEAN") for text in TEXTS])
    np.testing.assert_allclose([each["values"] for each in both["embeddings"]], wanted, atol=1e-4)
    for verb, body, field in (
        ("embedContent", {}, "content"),
        ("embedContent", {"content": {"parts": [{"inlineData": {}}]}}, "content.parts[0]"),
        ("batchEmbedContents", {"requests": []}, "requests"),
        ("batchEmbedContents", {"requests": [{"content": 1}]}, "requests[0].content"),
        (
            "batchEmbedContents",
            {"requests": [texts[0], {**texts[1], "output_dimensionality": 2}]},
            "requests[1].outputDimensionality",
        ),
        (
            "embedContent",
            {**texts[0], "outputDimensionality": 1, "embedContentConfig": TOO_MANY},
            "embedContentConfig.outputDimensionality",
        ),
    ):
        error = post(url, verb, body)["error"]
        assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
        assert error["details"][0]["fieldViolations"][0]["field"] == field


TOO_MANY = {"outputDimensionality": 65537}


def post(url: str, verb: str, body: dict[str, Any]) -> Any:
    address = f"{url}/v1beta/models/tiny:{verb}"
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(address, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(asked) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        return json.load(error)


def test_the_snippets_of_the_page_work(url: str) -> None:
    page = blocks(ROOT / "calculators" / "text" / "embeddings" / "README.md")
    (snippet,) = [text for language, text in page if language == "python"]
    snippet = snippet.replace("http://127.0.0.1:8000", url).replace("minilm", "tiny")
    done = subprocess.run(
        [sys.executable, "-c", snippet],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    words = ["Hello", "Good morning"]
    assert done.stdout.split() == ["2", str(sum(len(tokens(text)) for text in words))]
    (commands,) = [text for language, text in page if "curl" in text]
    path, body = re.findall(r"curl \S+?:8000(/\S+)[^{]*'({.*})'", commands)[0]
    request = urllib.request.Request(
        url + path,
        body.replace("minilm", "tiny").encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        assert len(json.loads(response.read())["data"]) == 2
