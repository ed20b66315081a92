"""JSON files of a model: those that cannot be read are as if they were empty."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from calculators.kit.model_json import read_model_json


def test_an_object_is_read_up_to_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"a": 1}')
    assert read_model_json(file) == {"a": 1}
    assert read_model_json(file, 8) == {"a": 1}
    assert read_model_json(file, 7) == {}


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", "[" * 200_000, b"\xff"])
def test_other_content_is_as_an_empty_object(tmp_path: Path, text: str | bytes) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert read_model_json(file) == {}


def test_no_reader_waits_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    assert read_model_json(tmp_path / "config.json") == {}
    assert read_model_json(tmp_path) == {}
    assert read_model_json(tmp_path / "missing.json") == {}
