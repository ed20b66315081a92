"""docs/batches.md: its server, its client and its command, with its own requests."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documents.snippets import ADDRESS, run_python, served
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.markdown import block, commands

PAGE = "docs/batches.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory in which the commands of the page can run."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "requests.jsonl").write_text(block(PAGE, "json", "custom_id"))
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[Serving]:
    (command,) = commands(PAGE, "--batch_dir batches")
    # The lowest priority starves on a machine that runs tests.
    with served(f"{command} --batch_priority normal", folder) as running:
        yield running


def test_a_client_makes_a_batch_and_reads_its_results(server: Serving, folder: Path) -> None:
    client = block(PAGE, "python", "client.batches.create")
    assert ADDRESS in client
    (folder / "client.py").write_text(client.replace(ADDRESS, f"http://127.0.0.1:{server.port}"))
    status, *lines = filter(None, run_python("client.py", folder).splitlines())
    assert status == "completed BatchRequestCounts(completed=2, failed=1, total=3)"
    found = [json.loads(each) for each in lines]
    assert [(each["custom_id"], each["response"]["status_code"]) for each in found] == [
        ("one", 200),
        ("two", 200),
        ("three", 400),
    ]
    assert (folder / "batches" / "store.sqlite").exists()


def test_a_command_answers_the_same_file(folder: Path) -> None:
    (command,) = commands(PAGE, "graphrt batch requests.jsonl")
    done = graphrt(*shlex.split(command)[1:], cwd=folder)
    assert done.returncode == 1, done.stderr
    assert "answers.jsonl: 2 answers\nfailed.jsonl: 1 requests failed\n" in done.stdout
    assert len((folder / "answers.jsonl").read_text().splitlines()) == 2
    assert "three" in (folder / "failed.jsonl").read_text()
