"""The names that authors import from `calculators.language`; each is loaded when it is used."""

from __future__ import annotations

import pytest

import calculators.language
from tests.architecture.test_imports import python

PROCESS_OF_TOOL_SESSIONS = """
import sys
import calculators.language.server_tools.mcp_process
print(*sys.modules)
"""


@pytest.mark.parametrize("name", calculators.language.__all__)
def test_every_name_can_be_imported(name: str) -> None:
    namespace: dict[str, object] = {}
    exec(f"from calculators.language import {name}", namespace)
    assert name in namespace
    assert name in dir(calculators.language)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"calculators\.language.* .Delat"):
        calculators.language.Delat  # noqa: B018


def test_a_process_of_tool_sessions_loads_neither_the_runtime_nor_what_authors_use() -> None:
    done = python(PROCESS_OF_TOOL_SESSIONS)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    assert "calculators.language.server_tools.mcp_session" in loaded
    assert not [name for name in loaded if name.startswith(("graph_runtime", "numpy"))]
    assert "calculators.language.authoring" not in loaded
