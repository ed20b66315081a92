"""calculators/images/image_generation/README.md: its commands as typed, on a tiny model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from tests.calculators.images.image_generation.image_models import make_model
from tests.documents.snippets import ADDRESS, asked, run_python, served
from tests.servers.cli.serving import Serving
from tests.support.markdown import block, commands

PAGE = "calculators/images/image_generation/README.md"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    make_model(tmp_path / "models" / "images")
    (command,) = commands(PAGE, "graphrt serve models/images")
    with served(command, tmp_path) as started:
        yield started


def test_the_commands_of_the_page_draw(server: Serving, tmp_path: Path) -> None:
    (command,) = commands(PAGE, "curl -s http://127.0.0.1:8000/v3/images/generations")
    assert asked(command, server, tmp_path) == ""
    with Image.open(tmp_path / "cat.png") as cat:
        assert cat.size == (512, 512)
    pytest.importorskip("openai", reason="the extra clients")
    script = block(PAGE, "python", "client.images.edit(")
    script = script.replace(ADDRESS, f"http://127.0.0.1:{server.port}")
    (tmp_path / "edit.py").write_text(script)
    *partial, last = run_python("edit.py", tmp_path).split()
    assert partial in [["image_generation.partial_image"] * count for count in range(3)]
    assert last == "image_generation.completed"
    with Image.open(tmp_path / "dog.png") as dog:
        assert dog.size == (512, 512)
