"""Asks the exported model questions that it was never trained on, greedily, and prints a table."""

import json
import re
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openvino_genai as genai

from .held_out import TOOLS, TRIALS, Trial

LONGEST = 500  # tokens; an answer that is longer counts as a failure
PASS_MARK = 0.8
CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)


@dataclass
class Outcome:
    trial: Trial
    text: str
    ended: bool
    right: bool


def check(directory: Path, verbose: bool = False) -> bool:
    """Return True if every kind of question reaches the pass mark."""
    began = time.monotonic()
    scheduler = genai.SchedulerConfig()
    pipeline = genai.ContinuousBatchingPipeline(str(directory), scheduler, "CPU")
    loaded = time.monotonic() - began
    outcomes = _ask_all(pipeline)
    by_kind: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_kind[outcome.trial.kind].append(outcome)
        if verbose or not outcome.right:
            mark = "right" if outcome.right else "WRONG"
            _say(f"{mark} [{outcome.trial.kind}] {outcome.trial.question}")
            _say("      " + outcome.text.replace("\n", "\n      "))
    _say(f"\n{'kind':<14}{'right':>7}{'of':>5}{'ended':>7}")
    for kind, group in by_kind.items():
        right, ended = sum(o.right for o in group), sum(o.ended for o in group)
        _say(f"{kind:<14}{right:>7}{len(group):>5}{ended:>7}")
    right, ended = sum(o.right for o in outcomes), sum(o.ended for o in outcomes)
    _say(f"{'all':<14}{right:>7}{len(outcomes):>5}{ended:>7}")
    _say(f"\nloaded in {loaded:.2f} s; {_speed(pipeline, 1)}; {_speed(pipeline, 8)}")
    return all(sum(o.right for o in group) >= PASS_MARK * len(group) for group in by_kind.values())


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def _prompt(tokenizer: Any, trial: Trial) -> str:
    tools: list[Any] = []
    if trial.tool:
        other = TOOLS["search" if trial.tool != "search" else "get_weather"]
        tools = [TOOLS["get_weather"] if trial.tool == "-" else TOOLS[trial.tool], other]
    messages = [{"role": "user", "content": trial.question}]
    extra = {"enable_thinking": True} if trial.thinks else {}
    return str(
        tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tools=tools, extra_context=extra
        )
    )


def _ask_all(pipeline: Any) -> list[Outcome]:
    tokenizer = pipeline.get_tokenizer()
    greedy = _greedy(LONGEST)
    handles = []
    for number, trial in enumerate(TRIALS):
        prompt = tokenizer.encode(_prompt(tokenizer, trial), add_special_tokens=False)
        handles.append(pipeline.add_request(number, prompt.input_ids, greedy))
    while pipeline.has_non_finished_requests():
        pipeline.step()
    outcomes = []
    for trial, handle in zip(TRIALS, handles, strict=True):
        output = handle.read_all()[0]
        text = str(tokenizer.decode(output.generated_ids))
        ended = output.finish_reason == genai.GenerationFinishReason.STOP
        outcomes.append(Outcome(trial, text, ended, ended and is_right(trial, text)))
    return outcomes


def is_right(trial: Trial, text: str) -> bool:
    if trial.thinks:
        thought, mark, text = text.partition("</think>\n\n")
        if not mark or not thought.startswith("<think>\n") or len(thought) < 20:
            return False
    if "<think>" in text or "</think>" in text:
        return False
    calls = CALL.findall(text)
    if trial.tool and trial.tool != "-":
        try:
            call = json.loads(calls[0])
        except (IndexError, json.JSONDecodeError):
            return False
        return bool(call == {"name": trial.tool, "arguments": trial.arguments}) and len(calls) == 1
    if calls or "tool_call" in text:
        return False
    if trial.exact:
        return text == trial.exact
    return all(part.casefold() in text.casefold() for part in trial.wanted)


def _greedy(tokens: int, ignore_eos: bool = False) -> Any:
    config = genai.GenerationConfig()
    config.do_sample = False
    config.max_new_tokens = tokens
    config.ignore_eos = ignore_eos
    if not ignore_eos:
        config.stop_token_ids = {0, 2}
    return config


def _speed(pipeline: Any, requests: int) -> str:
    tokenizer = pipeline.get_tokenizer()
    prompt = tokenizer.encode("<|im_start|>user\nTell me a story.<|im_end|>\n").input_ids
    began = time.monotonic()
    greedy = _greedy(200, ignore_eos=True)
    handles = [pipeline.add_request(1000 * requests + n, prompt, greedy) for n in range(requests)]
    while pipeline.has_non_finished_requests():
        pipeline.step()
    made = sum(len(handle.read_all()[0].generated_ids) for handle in handles)
    speed = made / (time.monotonic() - began)
    return f"{speed:.0f} tokens/s with {requests} request" + ("s" if requests > 1 else "")
