"""Model directories, and the shortest way through a template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.limits import RenderLimits

HELLO = [{"role": "user", "content": "Hello"}]


def make_model(directory: Path, **files: Any) -> Path:
    """Write files: ``name__json={...}`` is name.json, ``folder___name__json`` is in a folder."""
    for name, content in files.items():
        path = directory / name.replace("___", "/").replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")
    return directory


def render(
    source: str,
    messages: list[dict[str, Any]] | None = None,
    *,
    tools: list[dict[str, Any]] | None = None,
    limits: RenderLimits | None = None,
    **template_kwargs: Any,
) -> str:
    """Render a chat with a template."""
    template = ChatTemplate.of_source(source, bos_token="<s>", eos_token="</s>", limits=limits)
    return template.render(messages or HELLO, tools=tools, template_kwargs=template_kwargs)
