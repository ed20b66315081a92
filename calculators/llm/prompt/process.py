"""The prompt process: ``python -m calculators.llm.prompt.process DESCRIPTOR PARENT``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from calculators.kit.child_process.answering_process import Report, run
from calculators.kit.child_process.lean_openvino import leave_out_converter, leave_out_tokenizers
from calculators.kit.child_process.messages import LoadingPhase
from calculators.kit.memory import collect_seldom
from calculators.llm.prompt.messages import (
    PromptLoad,
    PromptReady,
    PromptRefused,
    to_prompt_decoder,
)


def load(message: PromptLoad, report: Report) -> tuple[PromptReady, Callable[[Any], Any]]:
    """Load tokenizer and template."""
    # Imported here, as its import may fail.
    from calculators.llm.prompt.builder import PromptBuilder
    from calculators.llm.prompt.chat_template.limits import RenderLimits

    report(LoadingPhase("loading the tokenizer", 0.5, 0.7))
    builder = PromptBuilder(
        message.model_path,
        message.max_tokens,
        sees_images=message.sees_images,
        special_tokens_in_text=message.special_tokens_in_text,
        template_directory=message.template_directory,
        limits=RenderLimits(seconds=message.render_seconds),
    )
    report(LoadingPhase("making the token table", 0.7, 1.0))
    return builder.ready(), builder.answer


def main() -> int:
    """Answer the server until it stops the process or is gone; return the exit code."""
    descriptor, parent = map(int, sys.argv[1:3])
    collect_seldom()
    leave_out_converter()
    leave_out_tokenizers()
    # Before the first message, which a server that is still starting sends later.
    with contextlib.suppress(Exception):  # `load` reports it
        import_module("calculators.llm.prompt.builder")
    return run(descriptor, parent, to_prompt_decoder.decode, PromptLoad, load, PromptRefused)


if __name__ == "__main__":
    sys.exit(main())
