"""The fields that the editor of graphs offers are those of the compiled protos."""

from __future__ import annotations

import re
from typing import Final

import pytest

from protos.pool import pool
from tests.support.checkout import ROOT

FIELDS: Final = ROOT / "page" / "src" / "editor" / "fields.ts"
_MESSAGE: Final = re.compile(r"^  (\w+): \[(.*?)\],$", re.MULTILINE | re.DOTALL)
#: The offered fields by message.
OFFERED: Final = {
    name: re.findall(r'"(\w+)"', fields) for name, fields in _MESSAGE.findall(FIELDS.read_text())
}
FULL_NAMES: Final = {
    "CalculatorGraphConfig": "mediapipe.CalculatorGraphConfig",
    "Node": "mediapipe.CalculatorGraphConfig.Node",
    "InputStreamInfo": "mediapipe.InputStreamInfo",
    "InputStreamHandlerConfig": "mediapipe.InputStreamHandlerConfig",
    "ExecutorConfig": "mediapipe.ExecutorConfig",
}


def test_each_message_has_offers() -> None:
    assert set(OFFERED) == set(FULL_NAMES)


@pytest.mark.parametrize("message", FULL_NAMES)
def test_offered_fields_exist(message: str) -> None:
    known = pool().FindMessageTypeByName(FULL_NAMES[message]).fields_by_name
    assert set(OFFERED[message]) <= set(known)
