"""Client libraries with their modules, and how to run a process of some."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.servers.cli.process import environment
from tests.support.checkout import ROOT

#: Modules of this folder that share a process: most of the time is importing, and nearly all
#: libraries import openai, pydantic and httpx. LiteLLM, the largest, runs beside the others.
LIBRARIES: Final = (
    (
        *("with_openai", "tools_with_openai", "responses_with_openai"),
        *("with_openai_async", "tools_with_openai_async"),
        *("with_openai_agents", "tools_with_openai_agents"),
        *("with_pydantic_ai", "tools_with_pydantic_ai"),
        *("with_instructor", "with_anthropic", "tools_with_anthropic"),
        *("with_langchain", "tools_with_langchain", "with_llama_index", "tools_with_llama_index"),
        *("with_ollama", "with_langchain_ollama"),
    ),
    ("with_litellm", "tools_with_litellm"),
    ("with_google", "with_outlines", "with_cohere"),
)

#: Variables that keep libraries from sending telemetry or fetching prices.
_QUIET: Final = {
    "ANONYMIZED_TELEMETRY": "False",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_TELEMETRY": "False",
    "LOGFIRE_SEND_TO_LOGFIRE": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
}

#: The interpreter of the libraries. Another environment may have newer ones, which cannot be
#: installed with the rest (the extra ``newest-clients``).
PYTHON: Final = os.environ.get("CLIENTS_PYTHON") or sys.executable

#: Facts that a module saw, per base URL.
Ask = Callable[[str], list[dict[str, Any]]]


def run(url: str, names: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run modules of libraries against the server at ``url``."""
    environ = {name: text for name, text in environment().items() if "proxy" not in name.lower()}
    return subprocess.run(
        [PYTHON, "-m", "tests.process.clients", url, *names],
        cwd=ROOT,
        env={**environ, **_QUIET},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
