"""`graphrt serve MODEL`: models in their forms, without a graph."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.gguf_file import write_gguf
from bench.random_model import TINY, make_model, metadata, weights
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GGUF file alone in its directory."""
    file = make_model(tmp_path_factory.mktemp("tiny"), TINY)
    (file.parent / "graph.pbtxt").unlink()
    return file


def refused(*words: str | Path) -> str:
    """Return the standard error of a `graphrt serve` that does not start."""
    done = graphrt("serve", "--rest_port", "auto", *words)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("word", ["file", "directory"])
def test_a_gguf_file_is_served_with_a_cache_that_keeps_prefixes(gguf: Path, word: str) -> None:
    before = sorted(gguf.parent.iterdir())
    path, name = (gguf, "model") if word == "file" else (gguf.parent, gguf.parent.name)
    with Serving(gguf.parent, path, calculators=()).wait_until_serving() as serving:
        log = "".join(serving.log)
        assert f"{name}: GGUF file, served as text_generation by " in log
        assert "enable_prefix_caching: true, cache_size: 1" in log
        body = {
            "model": name,
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 3,
            "ignore_eos": True,
        }
        with serving.request("POST", "/v1/chat/completions", body) as response:
            answer = json.loads(response.read())
    assert answer["usage"]["completion_tokens"] == 3
    assert sorted(gguf.parent.iterdir()) == before


def test_a_directory_of_two_gguf_files_asks_for_one(gguf: Path, tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).symlink_to(gguf)
    log = refused(tmp_path)
    assert f"{tmp_path} holds 2 GGUF files: a.gguf, b.gguf" in log
    assert f"graphrt serve {tmp_path / 'a.gguf'}" in log


def test_a_model_in_several_gguf_files_names_the_part_that_is_missing(tmp_path: Path) -> None:
    for number in (1, 3):
        sharded = {**metadata(TINY), "split.no": number - 1, "split.count": 3}
        write_gguf(tmp_path / f"a-{number:05}-of-00003.gguf", sharded, dict(weights(TINY)))
    with Serving(tmp_path, tmp_path, calculators=()) as serving:
        line = serving.wait_for("  failed: ")
    assert "1 of them is not in its directory: a-00002-of-00003.gguf" in line


def test_an_architecture_that_the_engine_lacks_is_named_with_a_remedy(tmp_path: Path) -> None:
    other = {key.replace("qwen3", "unheard"): value for key, value in metadata(TINY).items()}
    other["general.architecture"] = "unheard"
    write_gguf(tmp_path / "a.gguf", other, dict(weights(TINY)))
    with Serving(tmp_path, tmp_path / "a.gguf", calculators=()) as serving:
        line = serving.wait_for("  failed: ")
    assert 'of the architecture "unheard", which is not known; known are' in line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["demo", "config.json"], "config.json: a config.json stands alone"),
        (["demo", "demo"], 'two of demo, demo have the name "demo"'),
        (["demo", "shapes", "--model_name", "x"], "--model_name is the name of one model"),
        (["nowhere"], "nowhere: no such file or directory"),
        (["acme/x:../y.gguf"], "would leave the directory"),
        ([], "what is to be served?"),
    ],
)
def test_words_that_name_nothing_are_refused(words: list[str], message: str) -> None:
    assert message in refused(*words)
