"""docs/llm_options.md: every field of an LLM node's options, with its default."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from graph_runtime.options.options import OptionsType
from protos.pool import is_required
from tests.support.checkout import ROOT

TEXT = (ROOT / "docs" / "llm_options.md").read_text(encoding="utf-8")
ROWS = {
    name: default.strip()
    for name, default in re.findall(r"^\| `([\w.]+)` \| ([^|]*)\|", TEXT, re.MULTILINE)
}


def fields_of(message: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for field in message.fields:
        yield prefix + field.name, field
        if field.message_type is not None:
            yield from fields_of(field.message_type, f"{prefix}{field.name}.")


FIELDS = dict(fields_of(OptionsType.of("mediapipe.LLMCalculatorOptions").message_class.DESCRIPTOR))


def test_the_table_lists_exactly_the_fields() -> None:
    assert ROWS.keys() == FIELDS.keys()


@pytest.mark.parametrize(
    "name", [name for name, field in FIELDS.items() if field.has_default_value]
)
def test_the_table_has_the_defaults_of_the_proto_file(name: str) -> None:
    field = FIELDS[name]
    value = field.default_value
    if field.enum_type is not None:
        value = field.enum_type.values_by_number[value].name
    elif isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, float):
        value = f"{value:g}"
    assert ROWS[name] == (str(value) or '""')


@pytest.mark.parametrize("name", [name for name, field in FIELDS.items() if field.enum_type])
def test_the_values_of_a_choice_are_named(name: str) -> None:
    (line,) = [line for line in TEXT.splitlines() if line.startswith(f"| `{name}` ")]
    for value in FIELDS[name].enum_type.values:
        assert value.name in line


@pytest.mark.parametrize("name", [name for name, field in FIELDS.items() if is_required(field)])
def test_required_fields_are_marked(name: str) -> None:
    assert ROWS[name] == "required"
