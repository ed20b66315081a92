from __future__ import annotations

from pathlib import Path

import pytest

from servers.load.client import DatasetError, arrivals, random_prompts, read_prompts


def test_random_prompts_are_the_same_for_a_seed_and_differ_from_each_other() -> None:
    def make(seed: int) -> list[str]:
        prompts = random_prompts(20, input_tokens=100, output_tokens=50, varies=True, seed=seed)
        return [prompt.text for prompt in prompts]

    assert make(1) == make(1) != make(2)
    assert len(set(make(1))) == 20


def test_prompts_of_fixed_lengths_are_as_long() -> None:
    prompts = random_prompts(5, input_tokens=130, output_tokens=50, varies=False, seed=0)
    assert {len(prompt.text.split()) for prompt in prompts} == {100}
    assert {prompt.output_tokens for prompt in prompts} == {50}


def test_a_file_of_requests_is_repeated_as_often_as_needed(tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text(
        '{"prompt": "one", "max_tokens": 3}\n\n'
        '{"messages": [{"role": "system", "content": "two"}], "output_tokens": 4}\n'
    )
    prompts = read_prompts(file, 3)
    assert [prompt.text for prompt in prompts] == ["one", "two", "one"]
    assert [prompt.output_tokens for prompt in prompts] == [3, 4, 3]
    assert len(read_prompts(file, None)) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no request is in it"),
        ("{", "line 1 is not JSON"),
        ("[]", "line 1 is not a JSON object"),
        ('{"prompt": "a"}\n{"text": 1}', "line 2 has neither messages nor a prompt"),
        ('{"prompt": "a", "max_tokens": 0}', "max_tokens is not a positive number"),
    ],
)
def test_a_file_of_something_else_is_refused_with_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text(text)
    with pytest.raises(DatasetError, match=message):
        read_prompts(file, None)


def test_requests_come_at_the_rate_that_was_asked_for() -> None:
    assert list(arrivals(3, None, 1.0, 0)) == [0.0, 0.0, 0.0]
    moments = list(arrivals(4001, 10.0, 1.0, 0))
    assert moments == sorted(moments)
    assert moments[-1] == pytest.approx(400.0, rel=0.1)
    even = list(arrivals(4001, 10.0, 1e6, 0))
    assert even[100] == pytest.approx(10.0, rel=0.01)
