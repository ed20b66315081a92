"""The prompt process: concurrent requests, its death, requests that hang or use up memory."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.prompt import client
from calculators.llm.prompt.builder import PromptBuilder
from calculators.llm.prompt.client import PromptProcess
from graph_runtime import Code
from tests.calculators.llm.demo_model import DEMO, copy_of_demo, rewrite
from tests.support.conditions import signal_process, soon, until
from tests.support.processes import is_running


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


async def started(path: Path = DEMO, **more: Any) -> PromptProcess:
    prompts = PromptProcess(str(path), name="demo", **more)
    await soon(prompts.start())
    return prompts


@pytest.fixture(scope="module")
def prompts(runner: asyncio.Runner) -> Iterator[PromptProcess]:
    prompts = runner.run(started())
    yield prompts
    runner.run(prompts.close())


def test_concurrent_requests_get_their_own_answers(
    prompts: PromptProcess, runner: asyncio.Runner
) -> None:
    texts = [f"Number {number}." for number in range(50)]

    async def run() -> None:
        made = await soon(asyncio.gather(*(prompts.encode(text) for text in texts)))
        assert [prompt.text for prompt in made] == texts
        decoded = await soon(
            asyncio.gather(
                *(prompts.decode(np.frombuffer(each.input_ids, np.int64).tolist()) for each in made)
            )
        )
        assert decoded == texts
        chats = await soon(asyncio.gather(*(prompts.chat(user(text)) for text in texts)))
        assert all(text in chat.text for text, chat in zip(texts, chats, strict=True))

    runner.run(run())


def test_the_answers_are_those_of_the_tokenizer_in_this_process(
    prompts: PromptProcess, runner: asyncio.Runner
) -> None:
    maker = PromptBuilder(str(DEMO))
    prompt = runner.run(soon(prompts.encode("Hello there", add_special_tokens=False)))
    assert prompt.input_ids == maker.encode("Hello there", special=False)


@pytest.mark.parametrize(
    "content", ["half of a pair: \ud83d", 2**70, [[[[[[0]]]]]], {"a": float("nan")}]
)
def test_a_request_that_cannot_be_sent_is_refused_and_disturbs_no_other(
    prompts: PromptProcess, runner: asyncio.Runner, content: Any
) -> None:
    pid = prompts.pid

    async def run() -> None:
        first, bad, last = await soon(
            asyncio.gather(
                prompts.encode("before"),
                prompts.chat(user(content)),
                prompts.encode("after"),
                return_exceptions=True,
            )
        )
        assert not isinstance(first, BaseException)
        assert not isinstance(last, BaseException)
        if isinstance(bad, BaseException):
            assert isinstance(bad, RequestError)
            assert bad.code is Code.INVALID_ARGUMENT

    runner.run(run())
    assert prompts.pid == pid


def test_a_cancelled_request_disturbs_no_other(
    prompts: PromptProcess, runner: asyncio.Runner
) -> None:
    async def run() -> None:
        asked = [asyncio.create_task(prompts.encode(f"{number}")) for number in range(10)]
        await asyncio.sleep(0)
        for task in asked[::2]:
            task.cancel()
        made = await soon(asyncio.gather(*asked, return_exceptions=True))
        assert [type(each).__name__ for each in made] == ["CancelledError", "Prompt"] * 5

    runner.run(run())


def test_a_refusal_has_the_field_and_the_code(
    prompts: PromptProcess, runner: asyncio.Runner
) -> None:
    with pytest.raises(RequestError) as caught:
        runner.run(soon(prompts.chat(user("Hi"), None, {"messages": []})))
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_requests_of_a_process_that_dies_are_retried() -> None:
    async def run() -> None:
        prompts = await started()
        old = prompts.pid
        signal_process(old, signal.SIGSTOP)
        asked = [asyncio.create_task(prompts.encode(f"text {number}")) for number in range(5)]
        await asyncio.sleep(0)
        signal_process(old, signal.SIGKILL)
        made = await soon(asyncio.gather(*asked))
        assert [prompt.text for prompt in made] == [f"text {number}" for number in range(5)]
        assert prompts.pid != old
        await prompts.close()

    asyncio.run(run())


def test_a_process_that_cannot_restart_fails_waiting_requests(tmp_path: Path) -> None:
    folder = copy_of_demo(tmp_path / "model")

    async def run() -> None:
        prompts = await started(folder)
        rewrite(folder / "openvino_tokenizer.xml", lambda _: b"gone")
        signal_process(prompts.pid, signal.SIGKILL)
        await until(lambda: prompts.pid is None)
        with pytest.raises(RequestError) as caught:
            await soon(prompts.encode("Hello"))
        assert caught.value.code is Code.UNAVAILABLE
        assert "openvino_tokenizer.xml" in str(caught.value)
        await prompts.close()

    asyncio.run(run())


def test_close_fails_waiting_requests_and_refuses_new_ones() -> None:
    async def run() -> None:
        prompts = await started()
        pid = prompts.pid
        assert pid is not None
        signal_process(pid, signal.SIGSTOP)
        waiting = asyncio.create_task(prompts.encode("Hello"))
        await asyncio.sleep(0)
        await soon(prompts.close())
        for call in (waiting, prompts.encode("Hello"), prompts.chat(user("Hi"))):
            with pytest.raises(RequestError) as caught:
                await soon(call)
            assert caught.value.code is Code.UNAVAILABLE
        assert not is_running(pid)

    asyncio.run(run())


def test_requests_before_the_start_are_refused() -> None:
    prompts = PromptProcess(str(DEMO), name="demo")
    with pytest.raises(RequestError, match="not loaded"):
        asyncio.run(soon(prompts.encode("Hello")))


# Hostile templates --------------------------------------------------------------------------------

_HOSTILE = {
    "endless": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "memory": "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
    "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "long": "{{ 'A' * 10 ** 9 }}",
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy_of_demo(tmp_path_factory.mktemp("hostile") / "model")
    cases = "".join(
        f"{{% if messages[0].content == '{name}' %}}{source}{{% endif %}}"
        for name, source in _HOSTILE.items()
    )
    rewrite(folder / "chat_template.jinja", lambda _: cases.encode() + b"{{ messages[0].content }}")
    return folder


def test_hostile_templates_fail_their_own_requests(hostile: Path) -> None:
    async def run() -> None:
        prompts = await started(hostile, seconds=1)
        bad = [asyncio.create_task(prompts.chat(user(name))) for name in _HOSTILE]
        others = [asyncio.create_task(prompts.chat(user(f"{number}"))) for number in range(5)]
        outcomes = await soon(asyncio.gather(*bad, return_exceptions=True))
        for outcome in outcomes:
            assert isinstance(outcome, RequestError)
            assert outcome.code is Code.INVALID_ARGUMENT
        assert [prompt.text for prompt in await soon(asyncio.gather(*others))] == list("01234")
        await prompts.close()

    asyncio.run(run())


def test_a_request_whose_process_is_killed_twice_from_outside_may_be_retried_later(
    hostile: Path,
) -> None:
    async def run() -> None:
        prompts = await started(hostile, seconds=60)
        at_work = asyncio.create_task(prompts.chat(user("endless")))
        waiting = asyncio.create_task(prompts.chat(user("Hello")))
        for _ in range(2):
            await until(lambda: not prompts.unavailable_reason)
            old = prompts.pid
            assert not at_work.done()
            signal_process(old, signal.SIGKILL)
            await until(lambda old=old: prompts.pid != old)  # type: ignore[misc]
        with pytest.raises(RequestError, match="ended twice") as caught:
            await soon(at_work)
        assert caught.value.code is Code.UNAVAILABLE
        assert caught.value.retry_after
        assert (await soon(waiting)).text == "Hello"
        await prompts.close()

    asyncio.run(run())


def test_a_request_that_crashes_the_process_is_refused_at_once_and_delays_no_other(
    hostile: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        prompts = await started(hostile, seconds=60)
        for _ in range(6):
            crashing = asyncio.create_task(prompts.chat(user("endless")))
            waiting = asyncio.create_task(prompts.chat(user("Hello")))
            await asyncio.sleep(0.01)  # whether or not it has begun, it is the first
            signal_process(prompts.pid, signal.SIGSEGV)
            with pytest.raises(RequestError, match="too long or too much memory") as caught:
                await soon(crashing)
            assert caught.value.code is Code.INVALID_ARGUMENT
            assert (await soon(waiting)).text == "Hello"
        await prompts.close()

    asyncio.run(run())
    deaths = [each.getMessage() for each in caplog.records if "is gone" in each.getMessage()]
    assert len(deaths) == 6
    assert all("starting it again in 0.0 s" in death for death in deaths)


def test_a_stopped_process_is_replaced_and_no_request_is_refused() -> None:
    async def run() -> None:
        prompts = await started(wall_seconds=5)
        old = prompts.pid
        signal_process(old, signal.SIGSTOP)
        made = await soon(asyncio.gather(*(prompts.encode(f"text {n}") for n in range(3))))
        assert [prompt.text for prompt in made] == ["text 0", "text 1", "text 2"]
        assert prompts.pid != old
        await prompts.close()

    asyncio.run(run())


def test_long_prompts_have_a_process_of_their_own_that_ends_when_it_is_idle() -> None:
    async def run() -> None:
        prompts = await started(idle_seconds=0.2)
        assert prompts.long_pid is None
        long = "Hello, world! " * 20_000
        assert (await soon(prompts.encode(long))).text == long
        pid = prompts.long_pid
        if pid is not None:  # otherwise it is idle already
            await until(lambda: prompts.long_pid is None)
            await until(lambda: not is_running(pid))
        assert (await soon(prompts.encode(long))).text == long
        await prompts.close()

    asyncio.run(run())


def test_a_short_prompt_does_not_wait_for_long_ones() -> None:
    async def run() -> None:
        prompts = await started()
        long = "Hello, world! " * 20_000
        await soon(prompts.encode(long))
        signal_process(prompts.long_pid, signal.SIGSTOP)
        waiting = asyncio.create_task(prompts.encode(long))
        await asyncio.sleep(0)
        assert (await soon(prompts.encode("Hello"))).text == "Hello"
        assert not waiting.done()
        signal_process(prompts.long_pid, signal.SIGCONT)
        assert (await soon(waiting)).text == long
        await prompts.close()

    asyncio.run(run())


def test_half_a_surrogate_pair_that_a_template_makes_fails_its_own_request(
    prompts: PromptProcess, runner: asyncio.Runner
) -> None:
    pid = prompts.pid
    function = {"name": "f", "arguments": r'{"a": "\ud800"}'}
    messages: list[dict[str, Any]] = [
        *user("Hi"),
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "function": function}],
        },
    ]
    with pytest.raises(RequestError, match="half of a surrogate pair"):
        runner.run(soon(prompts.chat(messages)))
    assert runner.run(soon(prompts.encode("Hello"))).text == "Hello"
    assert prompts.pid == pid


def test_thirty_thousand_parts_are_joined_within_the_limit(
    prompts: PromptProcess, runner: asyncio.Runner
) -> None:
    parts = [{"type": "text", "text": "x" * 70}] * 30_000
    prompt = runner.run(soon(prompts.chat([{"role": "user", "content": parts}])))
    assert "x" * 70 * 30_000 in prompt.text


def test_a_request_that_needs_too_much_memory_fails_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "MEMORY", 64 * 1024**2)

    async def run() -> None:
        prompts = await started()
        pid = prompts.pid
        await _ask_for_too_much(prompts)
        assert prompts.pid == pid
        await prompts.close()

    asyncio.run(run())


async def _ask_for_too_much(prompts: PromptProcess) -> None:
    hello = (await soon(prompts.encode("Hello"))).input_ids
    with pytest.raises(RequestError) as caught:
        await soon(prompts.encode("Hello, world! " * 600_000))
    assert str(caught.value) == "the prompt needs too much memory"
    assert (await soon(prompts.encode("Hello"))).input_ids == hello


@pytest.mark.skipif(sys.platform != "linux", reason="processors are chosen as Linux does")
def test_on_one_processor_no_request_gets_the_tokens_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "MEMORY", 64 * 1024**2)

    async def run() -> None:
        processors = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(processors)})
        try:
            prompts = await started()
        finally:
            os.sched_setaffinity(0, processors)
        await _ask_for_too_much(prompts)
        await prompts.close()

    asyncio.run(run())
