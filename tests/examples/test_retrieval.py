"""`examples/graphs/retrieval`: its commands make an index and serve it, to clients of each API."""

from __future__ import annotations

import json
import queue
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

openai = pytest.importorskip("openai", reason="the extra `clients` is not installed")
triton_grpc = pytest.importorskip(
    "tritonclient.grpc", reason="the extra `clients` is not installed"
)

FOLDER: Final = ROOT / "examples" / "graphs" / "retrieval"
#: A question with the words of a section, which any embedder should find.
QUESTION: Final = "How do I write the calculator and add an endpoint?"
FOUND: Final = "docs/tutorials/add_an_endpoint.md"
#: Tokens of the question with the template are fewer, those of three passages more.
BETWEEN: Final = 150


def kept_of(usage: Any) -> int:
    """Return the tokens that Anthropic's API counts apart; elsewhere they are among the others."""
    return getattr(usage, "cache_read_input_tokens", 0) or 0


def commands(text: str) -> list[list[str]]:
    """Return the commands of a page or a comment."""
    return [shlex.split(line) for line in re.findall(r"^(?:\$|#  ) (graphrt .*)$", text, re.M)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, child_program: None) -> Path:
    """Run the command of the example, with a copy of the graph: nothing is written here."""
    site = tmp_path_factory.mktemp("retrieval") / "retrieval"
    shutil.copytree(FOLDER, site, ignore=shutil.ignore_patterns("docs.db*"))
    graph = site / "graph.pbtxt"
    text = graph.read_text(encoding="utf-8")
    graph.write_text(text.replace("../../models", f"{ROOT}/examples/models"), encoding="utf-8")
    index, _ = commands(text)
    assert index[:2] == ["graphrt", "index"]
    *words, out = index[1:]
    assert words[-1] == "--out"
    assert ROOT / out == FOLDER / "docs.db"
    done = graphrt(*words, site / "docs.db")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(
        r"\S+: \d\d\d+ passages; \d+ new or changed files, 0 unchanged\n", done.stdout
    )
    return site


@pytest.fixture(scope="module")
def server(site: Path) -> Iterator[Serving]:
    # With the prompt beside the answer, as the model saw it.
    words = (site, "--verbose_response", "--port", "auto")
    with Serving(ROOT, *words, calculators=()) as serving:
        yield serving.wait_until_serving()


@pytest.fixture(scope="module")
def client(server: Serving) -> Iterator[Any]:
    address = f"http://127.0.0.1:{server.port}/v3"
    with openai.OpenAI(base_url=address, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def claude(server: Serving) -> Iterator[Any]:
    # Takes more than a second, in each process that collects tests if it were above.
    anthropic = pytest.importorskip("anthropic", reason="the extra `clients` is not installed")
    address = f"http://127.0.0.1:{server.port}"
    with anthropic.Anthropic(base_url=address, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def triton(server: Serving) -> Iterator[Any]:
    match = re.search(r"grpc://(\S+)", "".join(server.log))
    assert match is not None
    with triton_grpc.InferenceServerClient(match[1]) as client:
        yield client


def chat(text: str = QUESTION) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"model": "retrieval", "messages": messages, "temperature": 0, "max_tokens": 16}


def test_the_commands_of_page_and_comment_are_the_same() -> None:
    pages = [
        FOLDER / "README.md",
        FOLDER / "graph.pbtxt",
        ROOT / "calculators/language/retrieval/README.md",
    ]
    first, *others = [commands(page.read_text(encoding="utf-8")) for page in pages]
    assert len(first) == 2
    assert others == [first, first]
    assert first[1] == ["graphrt", "serve", "examples/graphs/retrieval"]


def test_the_graph_is_valid_with_its_index_only(site: Path, tmp_path: Path) -> None:
    done = graphrt("validate", site / "graph.pbtxt")
    assert (done.returncode, done.stdout) == (0, f"{site / 'graph.pbtxt'}: ok (4 nodes)\n")
    shutil.copy(site / "graph.pbtxt", tmp_path)
    done = graphrt("validate", tmp_path / "graph.pbtxt")
    assert done.returncode == 1
    assert 'there is no index "docs.db": `graphrt index FILES' in done.stdout + done.stderr


def test_the_model_sees_numbered_passages_before_the_question(client: Any) -> None:
    answer = client.chat.completions.with_raw_response.create(**chat())
    assert answer.parse().usage.prompt_tokens > BETWEEN
    prompt = json.loads(answer.text)["__verbose"]["prompt"]
    assert re.search(rf"\[[123]\] {re.escape(FOUND)}:\d+\n", prompt)
    assert prompt.index("[1] ") < prompt.index("[2] ") < prompt.index(QUESTION)


def test_chats_are_answered_whole_and_streamed(client: Any) -> None:
    whole = client.chat.completions.create(**chat())
    assert whole.choices[0].message.content.strip()
    options = {"include_usage": True}
    chunks = list(client.chat.completions.create(**chat(), stream=True, stream_options=options))
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == whole.choices[0].message.content
    # The answer of 16 tokens comes as it is made, not at the end.
    assert len([text for text in texts if text]) > 1
    assert chunks[-1].usage == whole.usage


def test_completions_are_answered_whole_and_streamed(client: Any) -> None:
    asked = {"model": "retrieval", "prompt": QUESTION, "temperature": 0, "max_tokens": 16}
    whole = client.completions.create(**asked)
    assert whole.usage.prompt_tokens > BETWEEN
    chunks = client.completions.create(**asked, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text


def test_responses_are_answered_whole_and_streamed(client: Any) -> None:
    asked = {"model": "retrieval", "input": QUESTION, "temperature": 0, "max_output_tokens": 200}
    whole = client.responses.create(**asked)
    assert whole.usage.input_tokens + kept_of(whole.usage) > BETWEEN
    # The answer may end by its length, which is no `response.completed`: the model is a small one.
    with client.responses.stream(**asked) as stream:
        events = list(stream)
    deltas = [each.delta for each in events if each.type == "response.output_text.delta"]
    final = events[-1].response
    assert final.status == whole.status
    assert events[-1].type == f"response.{whole.status}"
    assert "".join(deltas) == whole.output_text == final.output_text
    assert final.usage == whole.usage


def test_messages_are_answered_whole_and_streamed(claude: Any) -> None:
    asked: dict[str, Any] = {
        "model": "retrieval",
        "max_tokens": 16,
        "extra_body": {"temperature": 0},
        "system": "Be short.",
        "messages": [{"role": "user", "content": QUESTION}],
    }
    whole = claude.messages.create(**asked)
    assert whole.usage.input_tokens + kept_of(whole.usage) > BETWEEN
    with claude.messages.stream(**asked) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == whole.content[0].text == final.content[0].text


def test_kserve_is_answered_whole_and_streamed(triton: Any) -> None:
    said: queue.Queue[Any] = queue.Queue()
    text = triton_grpc.InferInput("text_input", [1], "BYTES")
    text.set_data_from_numpy(_bytes(QUESTION))
    parameters = {"chat": True, "temperature": 0, "max_tokens": 16}
    whole = triton.infer("retrieval", [text], parameters=parameters, client_timeout=PATIENCE)
    triton.start_stream(lambda result, error: said.put(error or result))
    triton.async_stream_infer(
        "retrieval",
        [text],
        parameters={**parameters, "stream": True},
        enable_empty_final_response=True,
    )
    pieces = []
    while True:
        result = said.get(timeout=PATIENCE)
        assert not isinstance(result, Exception), result
        output = result.as_numpy("text_output")
        if output is not None:
            pieces.append(b"".join(output.reshape(-1)).decode())
        if result.get_response().parameters["triton_final_response"].bool_param:
            break
    triton.stop_stream()
    assert len(pieces) > 1
    assert "".join(pieces) == whole.as_numpy("text_output")[0].decode()


def test_all_apis_see_the_same_passages(client: Any, claude: Any) -> None:
    told = client.chat.completions.create(**chat())
    answered = client.responses.create(
        model="retrieval", input=QUESTION, temperature=0, max_output_tokens=16
    )
    message = claude.messages.create(
        model="retrieval",
        max_tokens=16,
        extra_body={"temperature": 0},
        messages=[{"role": "user", "content": QUESTION}],
    )
    assert answered.output_text == told.choices[0].message.content == message.content[0].text
    # Anthropic's API counts what was kept apart.
    read = message.usage.input_tokens + message.usage.cache_read_input_tokens
    counts = {told.usage.prompt_tokens, answered.usage.input_tokens, read}
    assert len(counts) == 1


def test_a_question_about_nothing_and_a_wrong_request_are_answered(server: Serving) -> None:
    for body, status in (
        (chat("   "), 200),
        ({**chat(), "messages": []}, 400),
        ({**chat(), "temperature": "hot"}, 400),
        (chat(), 200),
    ):
        with server.request("POST", "/v3/chat/completions", body) as response:
            assert response.status == status
            response.read()


def test_a_server_follows_its_index(site: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(site, tmp_path / "retrieval", ignore=shutil.ignore_patterns("docs.db"))
    document = tmp_path / "zebra.md"
    words = (document, "--root", tmp_path, "--model", ROOT / "examples/models/docs_embedder")
    with Serving(ROOT, copy, "--verbose_response", calculators=()) as server:
        server.wait_for('there is no index "docs.db"')
        match = re.search(r":(\d+)$", server.wait_for("graphrt serves http://").rstrip())
        assert match is not None
        server.port = int(match[1])
        for text in ("Zebras have stripes.", "Zebras run."):
            document.write_text(text, encoding="utf-8")
            done = graphrt("index", *words, "--out", copy / "docs.db")
            assert done.returncode == 0, done.stderr
            server.wait_for("reloaded: retrieval")
            with server.request("POST", "/v3/chat/completions", chat("Zebras?")) as response:
                assert f"zebra.md:1\\n{text}" in response.read().decode()


def _bytes(text: str) -> Any:
    import numpy as np

    return np.array([text.encode()], np.object_)
