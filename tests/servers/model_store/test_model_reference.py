from __future__ import annotations

import pytest

from servers.model_store.model_reference import ModelError, ModelReference, read_reference


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("org/name", ModelReference("org/name")),
        ("Qwen/Qwen3-0.6B", ModelReference("Qwen/Qwen3-0.6B")),
        ("org/name@main", ModelReference("org/name", "main")),
        ("org/name@refs/pr/1", ModelReference("org/name", "refs/pr/1")),
        ("org/name:q4.gguf", ModelReference("org/name", None, "q4.gguf")),
        ("org/name@v1:sub/q4.gguf", ModelReference("org/name", "v1", "sub/q4.gguf")),
        ("org/name:Q4_K_M", ModelReference("org/name", None, "Q4_K_M")),
        ("org/name@v1:UD-IQ2_XXS", ModelReference("org/name", "v1", "UD-IQ2_XXS")),
        ("org/name:bf16", ModelReference("org/name", None, "bf16")),
    ],
)
def test_a_name_is_read_and_written_alike(text: str, expected: ModelReference) -> None:
    assert read_reference(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "name", "/abs/path", "./org/name", "org/name/more", "org//name", "../name"),
        *("org/..", "org/na..me", "org/name@", "org/name:", "org/-name", "C:\\models", "org/na me"),
        "org/" + "n" * 97,
    ],
)
def test_other_texts_are_no_names(text: str) -> None:
    assert read_reference(text) is None


@pytest.mark.parametrize(
    "text", ["org/name:../../etc/passwd.gguf", "org/name:/etc/x.gguf", "org/name:a\\b.gguf"]
)
def test_a_file_does_not_leave_its_repository(text: str) -> None:
    with pytest.raises(ModelError, match="would leave the directory"):
        read_reference(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hf.co/org/name:Q8_0", "org/name:Q8_0"),
        ("https://huggingface.co/org/name", "org/name"),
        ("org/name:latest", "org/name"),
    ],
)
def test_names_of_other_programs_are_read(text: str, expected: str) -> None:
    assert str(read_reference(text)) == expected


def test_a_file_must_be_gguf() -> None:
    with pytest.raises(ModelError, match=r'"model.bin" is not a GGUF file'):
        read_reference("org/name:model.bin")
