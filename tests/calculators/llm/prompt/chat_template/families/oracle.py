"""Hugging Face's renderer as an oracle, for templates and chats.

    python -m tests.calculators.llm.prompt.chat_template.families.oracle

writes ``expected.json`` anew, with a Python that has `transformers` and Jinja, from the checkout.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from tests.calculators.llm.prompt.chat_template.families.conversations import (
    CONVERSATIONS,
    Conversation,
)
from tests.corpora import corpora

FOLDER = Path(__file__).parent
EXPECTED = FOLDER / "expected.json"
FAMILIES = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.jinja"))}
BOS, EOS = "<bos>", "<eos>"
#: Longer prompts are stored as a digest.
LONGEST = 600

_SHARED_CASES = corpora() / "chat_template.jsonl"
_NO_TOOLS = "'NoneType' object is not iterable"


class FixedTime(datetime):
    """Clock with which ``strftime_now`` always gives the same time."""

    @classmethod
    def now(cls, tz: Any = None) -> FixedTime:
        return cls(2025, 7, 4, 12, 30, tzinfo=tz)


def shared_templates() -> dict[str, str]:
    """Return the templates of the shared cases by name."""
    cases = map(json.loads, _SHARED_CASES.read_text("utf-8").splitlines())
    files = {Path(each["template_file"]).stem: each for each in cases if "template_file" in each}
    return {f"shared {name}": case["template"] for name, case in sorted(files.items())}


def digest(answer: dict[str, Any], longest: int = LONGEST) -> dict[str, Any]:
    """Replace a long prompt by its length and the beginning of its SHA-256."""
    prompt = answer.get("prompt", "")
    if len(prompt) <= longest:
        return answer
    return {"digest": f"{len(prompt)} {hashlib.sha256(prompt.encode()).hexdigest()[:32]}"}


def render(source: str, chat: Conversation) -> dict[str, Any]:
    """Return ``{"prompt"}`` as Hugging Face renders it, or ``{"error"}`` and ``by_template``.

        Without tools Hugging Face passes None, which fails in a template that loops over them.
    OpenVINO Model Server leaves the variable out, which works. So an empty list is tried.
    """
    answer = _render(source, chat, chat.tools)
    if answer.get("error") == _NO_TOOLS and chat.tools is None:
        answer = _render(source, chat, [])
    return answer


def _render(source: str, chat: Conversation, tools: Any) -> dict[str, Any]:
    huggingface: Any = importlib.import_module("transformers.utils.chat_template_utils")
    huggingface.datetime = FixedTime
    try:
        (prompt,), _ = huggingface.render_jinja_template(
            conversations=[chat.messages],
            tools=tools,
            chat_template=source,
            add_generation_prompt=chat.add_generation_prompt,
            bos_token=BOS,
            eos_token=EOS,
            **chat.variables,
        )
    except Exception as error:
        by_template = type(error) is TemplateError
        return {"error": str(error), "by_template": by_template}
    return {"prompt": prompt}


def _main() -> None:
    """Render templates from standard input, by name, to standard output; else write the fixture."""
    is_live = "--stdin" in sys.argv
    shared = {} if is_live else shared_templates()
    templates = json.load(sys.stdin) if is_live else {**FAMILIES, **shared}
    found = {
        "transformers": version("transformers"),
        "jinja2": version("jinja2"),
        "answers": {
            name: {
                title: digest(render(source, chat), 0 if name in shared else LONGEST)
                for title, chat in CONVERSATIONS.items()
            }
            for name, source in templates.items()
        },
    }
    if is_live:
        json.dump(found, sys.stdout)
    else:
        EXPECTED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _main()
