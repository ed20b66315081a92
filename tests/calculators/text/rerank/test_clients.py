"""Unmodified client libraries against a real server, and the snippets of the task's page."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.calculators.text.rerank.tiny_rerankers import (
    DOCUMENTS,
    LOGITS,
    ORDER,
    make_bert,
    sigmoid,
)
from tests.documents.snippets import ADDRESS, asked
from tests.servers.cli.process import environment
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.markdown import blocks
from tests.support.patience import PATIENCE

PAGE: Final = "calculators/text/rerank/README.md"
EXPECTED: Final = [[place, pytest.approx(sigmoid(LOGITS[place]), abs=1e-6)] for place in ORDER]
#: Variables that keep libraries from sending telemetry or fetching prices.
QUIET: Final = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    place = tmp_path_factory.mktemp("place")
    make_bert(place / "tiny")
    make_bert(place / "ranker")
    with Serving(place, "tiny", calculators=()).wait_until_serving() as serving:
        yield serving


def seen_by(library: str, server: Serving) -> dict[str, Any]:
    """Return the facts that a library reports, see `client_libraries`."""
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed (the extra clients)")
    variables = {name: text for name, text in environment().items() if "proxy" not in name.lower()}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.calculators.text.rerank.client_libraries",
            library,
            f"http://127.0.0.1:{server.port}",
        ],
        cwd=ROOT,
        env={**variables, **QUIET},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


def test_coheres_clients_rank_documents(server: Serving) -> None:
    assert seen_by("cohere", server) == {
        "v2": EXPECTED,
        "v2_top": EXPECTED[:1],
        "v1": EXPECTED,
        "documents": [DOCUMENTS[place] for place in ORDER],
        "objects": EXPECTED,
        "error": "documents array should not be empty",
    }


def test_litellm_ranks_documents_as_each_of_its_providers_does(server: Serving) -> None:
    assert seen_by("litellm", server) == {
        "cohere": EXPECTED,
        "jina_ai": EXPECTED,
        "hosted_vllm": EXPECTED,
        "voyage_top": EXPECTED[:1],
        "infinity": EXPECTED,
        "huggingface": EXPECTED,
    }


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_pages_commands_do_what_the_page_shows(server: Serving) -> None:
    texts = [text for _, text in blocks(PAGE)]
    command = next(text[text.index("curl ") :] for text in texts if "curl " in text)
    answer = json.loads(asked(command.replace("ranker", "tiny"), server))
    shown = json.loads(next(text for text in texts if text.startswith('{"id"')))
    for each in (answer, shown):
        del each["id"], each["model"]
    assert answer == shown


def test_the_pages_snippet_of_cohere_runs(
    server: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    if importlib.util.find_spec("cohere") is None:
        pytest.skip("cohere is not installed (the extra clients)")
    text = next(text for _, text in blocks(PAGE) if "cohere.ClientV2" in text)
    text = text.replace(ADDRESS, f"http://127.0.0.1:{server.port}").replace("ranker", "tiny")
    done = subprocess.run(
        [sys.executable, "-c", f"import cohere\n{text}"],
        cwd=ROOT,
        env={name: text for name, text in environment().items() if "proxy" not in name.lower()},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr
