"""The demo model, loaded once."""

from __future__ import annotations

import pytest

from tests.calculators.llm.grammars.answers import Answers


@pytest.fixture(scope="package")
def answers(in_process_engine: None) -> Answers:
    return Answers()
