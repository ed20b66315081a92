"""``import graphrt``: one name for all that authors import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import calculators.language
import graph_runtime
import graphrt


def test_it_has_the_names_of_both_rooms() -> None:
    for room in (graph_runtime, calculators.language):
        for name in room.__all__:
            assert getattr(graphrt, name) is getattr(room, name)
            assert name in graphrt.__all__


def test_an_unknown_name_is_an_error_of_graphrt() -> None:
    with pytest.raises(AttributeError, match="module 'graphrt' has no attribute 'nothing'"):
        _ = graphrt.nothing


def test_nodes_of_language_are_loaded_when_they_are_named() -> None:
    program = "import sys, graphrt; print('calculators.language.delta' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n"
