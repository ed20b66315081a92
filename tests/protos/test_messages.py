"""Message classes by name, and the stubs that type checkers read instead."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from protos import generate, messages
from protos.pool import descriptor_set, message_class


def classes() -> list[ast.ClassDef]:
    return [
        node
        for node in ast.parse(generate.STUBS.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    ]


def test_the_stubs_are_those_of_the_descriptor_set() -> None:
    text = generate.stubs(descriptor_set())
    assert generate.STUBS.read_text(encoding="utf-8") == text, "run: python -m protos.generate"


def test_no_two_packages_have_a_message_of_one_name() -> None:
    names = [node.name for node in classes()]
    assert len(names) == len(set(names)) > 190


def test_each_class_of_the_stubs_has_its_members_at_run_time() -> None:
    for node in classes():
        _check(getattr(messages, node.name), node)


def _check(kind: Any, node: ast.ClassDef) -> None:
    for member in node.body:
        match member:
            case ast.ClassDef(name=name):
                _check(getattr(kind, name), member)
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.FunctionDef(name=name):
                assert hasattr(kind(), name), f"{node.name}.{name}"
            case _:
                raise AssertionError(ast.unparse(member))


def test_a_class_is_the_one_of_the_pool() -> None:
    gate = messages.GateCalculatorOptions
    assert gate is message_class("mediapipe.GateCalculatorOptions")
    assert messages.GateCalculatorOptions is gate
    assert messages.ToolsOptions.DESCRIPTOR.full_name == "graphrt.ToolsOptions"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'GateOptions'"):
        getattr(messages, "GateOptions")  # noqa: B009
