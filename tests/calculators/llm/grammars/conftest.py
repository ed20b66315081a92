"""The demo model, loaded once per session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.calculators.llm.grammars.answers import Answers


@pytest.fixture(scope="package")
def answers(in_process_engine: None) -> Answers:
    # Tests of the tier `quick` share this directory and load no model library.
    from tests.calculators.llm.grammars.answers import Answers

    return Answers()
