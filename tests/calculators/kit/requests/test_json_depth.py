"""The nesting of JSON is found before it is parsed, on every Python."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.kit.requests.json_depth import MOST_DEPTH, nests_deeper
from calculators.language.moderation.choice_guard import call_text
from calculators.language.server_tools.tools_calculator import _json_object
from servers.batches.batch_lines import InputLine, LineError, one_line, request_of


def nested(levels: int) -> str:
    return '{"a":' * (levels - 1) + "[]" + "}" * (levels - 1)


JSON = st.recursive(
    st.none() | st.text('[]{}"\\ aä'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('[]{}"\\'), inner),
)


def depth_of(value: Any) -> int:
    inner = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    )
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@given(value=JSON)
def test_levels_are_counted_outside_strings(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    depth = depth_of(value)
    assert not nests_deeper(text, depth)
    assert not depth or nests_deeper(text.encode(), depth - 1)


def test_json_of_clients_has_one_limit_wherever_it_stands() -> None:
    # Not at the top: it imports the package `mcp`.
    from calculators.language.server_tools.mcp_session import CallFailed, _object

    sound, deep = nested(MOST_DEPTH), nested(MOST_DEPTH + 1)
    assert _object(sound) == json.loads(sound)
    with pytest.raises(CallFailed):
        _object(deep)
    assert _json_object(sound) == sound
    assert json.loads(_json_object(deep)) == {"INVALID_JSON": deep}
    assert call_text("f", sound) == "f a" + " a" * (MOST_DEPTH - 2)
    assert call_text("f", deep) == f"f {deep}"


@pytest.mark.parametrize("levels", [MOST_DEPTH + 1, 500, 1000, 5000, 100_000])
def test_lines_of_batches_have_the_limit_of_bodies(levels: int) -> None:
    def line(body: str) -> InputLine:
        text = f'{{"custom_id":"a","url":"/v1/embeddings","body":{body}}}'
        return InputLine(1, text.encode(), 0)

    assert request_of(line(nested(MOST_DEPTH)), "").body == nested(MOST_DEPTH).encode()
    with pytest.raises(LineError, match="nests too deeply") as caught:
        request_of(line(nested(levels)), "")
    assert caught.value.custom_id == "a"
    assert one_line(nested(2 * MOST_DEPTH).encode()) is not None
    assert one_line(nested(2 * MOST_DEPTH + levels).encode()) is None
