"""Templates may read files of their model directory, and no others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.limits import ChatTemplateError
from tests.calculators.llm.prompt.chat_template.model_directories import HELLO, make_model, render


def load(directory: Path, included: str, **files: str) -> ChatTemplate:
    source = f"[{{% include {included!r} %}}]"
    return ChatTemplate.load(make_model(directory, chat_template__jinja=source, **files))


def test_a_file_beside_the_template_is_included(tmp_path: Path) -> None:
    template = load(tmp_path, "part.jinja", part__jinja="{{ messages[0].content }}")
    assert template.render(HELLO) == "[Hello]"


def test_a_file_in_a_folder_of_the_model_is_included(tmp_path: Path) -> None:
    template = load(tmp_path, "parts/part.jinja", parts___part__jinja="x")
    assert template.render(HELLO) == "[x]"


def test_macros_are_imported(tmp_path: Path) -> None:
    make_model(
        tmp_path,
        macros__jinja="{% macro shout(x) %}{{ x | upper }}{% endmacro %}",
        chat_template__jinja="{% import 'macros.jinja' as m %}{{ m.shout(messages[0].content) }}",
    )
    assert ChatTemplate.load(tmp_path).render(HELLO) == "HELLO"


@pytest.mark.parametrize(
    "name", ["../secret.txt", "parts/../../secret.txt", "nosuch.jinja", "parts", ".", ""]
)
def test_names_outside_the_directory_or_of_no_file_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "model" / "parts").mkdir(parents=True)
    with pytest.raises(ChatTemplateError, match="not a file of the model directory") as caught:
        load(tmp_path / "model", name).render(HELLO)
    assert str(tmp_path) not in str(caught.value)


def test_an_absolute_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    with pytest.raises(ChatTemplateError, match="not a file of the model directory"):
        load(tmp_path / "model", str(tmp_path / "secret.txt")).render(HELLO)


def test_a_link_out_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    template = load(tmp_path / "model", "link.txt")
    os.symlink(tmp_path / "secret.txt", tmp_path / "model" / "link.txt")
    with pytest.raises(ChatTemplateError, match="not a file of the model directory"):
        template.render(HELLO)


def test_a_folder_linked_out_of_the_directory_is_refused(tmp_path: Path) -> None:
    make_model(tmp_path / "other", part__jinja="secret")
    template = load(tmp_path / "model", "linked/part.jinja")
    os.symlink(tmp_path / "other", tmp_path / "model" / "linked")
    with pytest.raises(ChatTemplateError, match="not a file of the model directory"):
        template.render(HELLO)


def test_a_model_directory_may_be_a_link(tmp_path: Path) -> None:
    load(tmp_path / "model", "part.jinja", part__jinja="x")
    os.symlink(tmp_path / "model", tmp_path / "alias")
    assert ChatTemplate.load(tmp_path / "alias").render(HELLO) == "[x]"


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    template = load(tmp_path, "weights.bin")
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(8 << 30)  # sparse
    with pytest.raises(ChatTemplateError, match="not a small text file"):
        template.render(HELLO)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    template = load(tmp_path, "part.bin")
    (tmp_path / "part.bin").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ChatTemplateError, match="not a small text file"):
        template.render(HELLO)


def test_an_error_in_an_included_file_names_it(tmp_path: Path) -> None:
    template = load(tmp_path, "part.jinja", part__jinja="a\n{{ messages[7].content }}")
    with pytest.raises(ChatTemplateError, match=r"failed at part\.jinja:2: "):
        template.render(HELLO)
    template = load(tmp_path, "bad.jinja", bad__jinja="a\n{% if %}")
    with pytest.raises(ChatTemplateError, match=r"^bad\.jinja:2: "):
        template.render(HELLO)


def test_a_template_from_text_alone_reads_nothing() -> None:
    with pytest.raises(ChatTemplateError, match="not a file of the model directory"):
        render("{% include 'pyproject.toml' %}")


def test_files_that_include_each_other_fail(tmp_path: Path) -> None:
    template = load(tmp_path, "part.jinja", part__jinja="{% include 'part.jinja' %}")
    with pytest.raises(ChatTemplateError, match="calls itself too deeply"):
        template.render(HELLO)
