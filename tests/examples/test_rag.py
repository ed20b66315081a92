"""`examples/graphs/rag`, served: a chat that finds passages of the documents before it answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from examples.graphs.rag.nodes.passages import Passage, parts, read_passages, sections
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT

openai = pytest.importorskip("openai", reason="the extra `clients` is not installed")

FOLDER: Final = ROOT / "examples" / "graphs" / "rag"
CONFIG: Final = "examples/graphs/rag/config.json"
#: A question with the words of a section, which any embedder and ranker should find.
QUESTION: Final = "How do I write the calculator and add an endpoint?"
FOUND: Final = "docs/tutorials/add_an_endpoint.md"


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    # With the prompt beside the answer, as the model saw it.
    with Serving(ROOT, CONFIG, "--verbose_response", calculators=()) as serving:
        yield serving.wait_until_serving()


@pytest.fixture
def client(server: Serving) -> Iterator[Any]:
    address = f"http://127.0.0.1:{server.port}/v3"
    with openai.OpenAI(base_url=address, api_key="none", max_retries=0) as client:
        yield client


def chat(content: Any, *before: dict[str, Any]) -> dict[str, Any]:
    messages = [*before, {"role": "user", "content": content}]
    return {"model": "rag", "messages": messages, "temperature": 0, "max_tokens": 16}


def test_the_command_of_the_comment_works() -> None:
    text = (FOLDER / "graph.pbtxt").read_text(encoding="utf-8")
    assert f"#   graphrt serve {CONFIG}\n" in text
    done = graphrt("validate", CONFIG, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{CONFIG}: ok (1 graph)\n", "")


def test_the_model_sees_the_passages_before_the_question(client: Any) -> None:
    answer = client.chat.completions.with_raw_response.create(**chat(QUESTION))
    assert answer.parse().choices[0].message.content.strip()
    shown = answer.text
    assert FOUND in shown
    assert shown.index("Answer with the help of these passages") < shown.index(FOUND)
    assert shown.index(FOUND) < shown.index(QUESTION)


def test_parts_and_system_texts_of_the_client_stay(client: Any) -> None:
    system = {"role": "system", "content": "Answer in one word."}
    parts = [{"type": "text", "text": QUESTION}]
    shown = client.chat.completions.with_raw_response.create(**chat(parts, system)).text
    assert shown.index(FOUND) < shown.index("Answer in one word.") < shown.index(QUESTION)


def test_a_stream_has_the_same_text_as_the_whole_answer(client: Any) -> None:
    asked = {**chat(QUESTION), "extra_body": {"min_tokens": 16}}
    whole = client.chat.completions.create(**asked)
    chunks = list(client.chat.completions.create(**asked, stream=True))
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == whole.choices[0].message.content
    # The answer of 16 tokens comes as it is made, not at the end.
    assert len([text for text in texts if text]) > 1


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "system", "content": "Hello"}],
        [{"role": "user", "content": "  "}],
        [{"role": "user", "content": [5, None]}],
        "Hello",
    ],
)
def test_a_chat_without_a_question_is_refused_and_the_next_one_answered(
    server: Serving, messages: Any
) -> None:
    body = {"model": "rag", "messages": messages}
    with server.request("POST", "/v3/chat/completions", body) as response:
        assert response.status == 400
        assert json.loads(response.read())["error"]["param"] == "messages"
    with server.request("POST", "/v3/chat/completions", chat("a" * 100_000)) as response:
        assert response.status == 400  # too long for the model, which the graph's last node says
        response.read()
    with server.request("POST", "/v3/chat/completions", chat("Hello")) as response:
        assert response.status == 200
        response.read()


def test_other_endpoints_are_refused(server: Serving) -> None:
    body = {"model": "rag", "prompt": "Hello"}
    with server.request("POST", "/v3/completions", body) as response:
        assert response.status == 404
        assert "/v3/chat/completions" in json.loads(response.read())["error"]["message"]


def test_documents_that_do_not_exist_are_named(tmp_path: Path) -> None:
    text = (FOLDER / "graph.pbtxt").read_text(encoding="utf-8")
    text = text.replace('root: "../../.."', 'root: "."')
    (tmp_path / "graph.pbtxt").write_text(text.replace("../../models", f"{FOLDER}/../../models"))
    entry = {"name": "rag", "base_path": ".", "python_path": str(FOLDER / "nodes")}
    (tmp_path / "config.json").write_text(json.dumps({"mediapipe_config_list": [entry]}))
    done = graphrt("validate", "config.json", cwd=tmp_path)
    assert done.returncode != 0
    assert 'documents: no Markdown below root "."' in done.stdout + done.stderr


def test_sections_have_their_headings_and_code_is_no_heading() -> None:
    text = "\n".join(
        ["before", "# A", "a", "## B [b](x.md)", "```", "# no heading", "```", "### C", "## D", "d"]
    )
    assert list(sections(text)) == [
        ("", "before"),
        ("A", "a"),
        ("A: B b", "```\n# no heading\n```"),
        ("A: B b: C", ""),
        ("A: D", "d"),
    ]


def test_long_sections_are_divided_between_lines() -> None:
    lines = [f"line {number} " + "x" * 80 for number in range(40)]
    found = list(parts("\n".join(lines)))
    assert len(found) > 1
    assert "\n".join(found) == "\n".join(lines)
    assert max(map(len, found)) <= 900
    assert list(parts("y" * 2000)) == ["y" * 900, "y" * 900, "y" * 200]


def test_passages_know_their_files(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "b.md"
    file.write_text("# Title\nA *text* with a [link](b.md) that is long enough to be a passage.\n")
    (found,) = read_passages([file], tmp_path)
    assert found == Passage("a/b.md", "Title", file.read_text().split("\n")[1])
    assert found.searched == "Title. A text with a link that is long enough to be a passage."
