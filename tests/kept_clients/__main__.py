"""Clients that rely on kept responses, unmodified, against a server whose model follows a script.

``python -m tests.kept_clients`` installs the Vercel AI SDK and OpenAI's client for Node with npm,
and Microsoft's agent framework, OpenAI's agents SDK and pydantic-ai with pip, into a temporary
folder. Each uses its own defaults: references to items, ``previous_response_id``, conversations,
responses in the background, stored chats. Exits with 1 if one does not get what it should, and with
2 without npm.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any, Final

from tests.client_table import clients
from tests.coding_agents.__main__ import SCRIPT_GRAPH, install_npm
from tests.process.server_process import ServerProcess

_HERE: Final = Path(__file__).parent
_SECONDS: Final = 120
_VERSIONS: Final = {each.package: each.version for each in clients()}
#: Beside the clients, what their programs import.
_NPM: Final = (
    *(f"{name}@{_VERSIONS[name]}" for name in ("ai", "openai")),
    *("@ai-sdk/openai@4.0.118", "zod@4.6.7"),
)
_PIP: Final = (
    f"agent-framework-core=={_VERSIONS['agent-framework-core']}",
    "agent-framework-openai==1.17.0",
    f"openai-agents=={_VERSIONS['openai-agents']}",
    f"pydantic-ai-slim[openai]=={_VERSIONS['pydantic-ai-slim']}",
)
_HELLO: Final = "1 messages, 0 thoughts, results: "
_ONE: Final = "3 messages, 1 thoughts, results: noon in Paris"
_FIVE: Final = _ONE.replace("3 messages", "5 messages")
_TWO: Final = "7 messages, 2 thoughts, results: noon in Paris, noon in Paris"
_TURN: Final = ("message", "reasoning", "function_call", "function_call_output", "message")
#: What each client sees. The agent framework shows a streamed text twice: its pieces, and whole.
EXPECTED: Final[dict[str, dict[str, Any]]] = {
    "ai_sdk.mjs": {
        "steps": 2,
        "first": _ONE,
        # The messages of a response are those of its last step.
        "second": _FIVE,
        "streamed": _FIVE,
        # Beside an earlier response the SDK does not name the thoughts of this loop.
        "continued": _TWO.replace("2 thoughts", "1 thoughts"),
    },
    "openai_node.mjs": {
        "second": "3 messages, 0 thoughts, results: ",
        "read": "3 messages, 0 thoughts, results: ",
        "inputs": 3,
        "items": ["message", "message", "message"],
        "finished": _HELLO,
        "polled": _HELLO,
        "cancelled": "completed",
        "compacted": ["message", "message", "message", "compaction"],
        "after": "4 messages, 0 thoughts, results: ",
        "chats": True,
        "messages": ["Hello"],
        "gone": 404,
    },
    "agent_framework_modes.py": {
        "default": [_ONE, _TWO + _TWO],
        "not stored": [_ONE, _TWO + _TWO],
    },
    "openai_agents_sessions.py": {
        "said": [_ONE, _TWO, _TWO, _ONE],
        "items": [*_TURN, *_TURN],
        "last": True,
        "left": 9,
        "gone": 404,
    },
    "pydantic_ai_responses.py": {
        # Without an earlier response it sends no thoughts back.
        "said": [
            *(_ONE, _TWO, _TWO),
            *(_ONE.replace("1 thoughts", "0 thoughts"), _TWO.replace("2 thoughts", "1 thoughts")),
        ]
    },
}


def seen_by(command: list[str], url: str, folder: Path) -> dict[str, Any]:
    """Return what a client has seen, which it prints as its last line."""
    done = subprocess.run(
        [*command, url], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        return {"failed": done.stderr[-3000:]}
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


def python_with(folder: Path, packages: tuple[str, ...]) -> Path:
    """Make an environment with packages; return its interpreter."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kept_clients", description=__doc__)
    parser.parse_args()
    if shutil.which("npm") is None:
        print("npm is needed to install the clients (Node.js 20 or newer)", file=sys.stderr)
        return 2
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        install_npm(top / "npm", _NPM)
        python = python_with(top / "python", _PIP)
        for each in EXPECTED:
            shutil.copy(_HERE / each, top / "npm")
        (top / "script").mkdir()
        (top / "script" / "graph.pbtxt").write_text(SCRIPT_GRAPH)
        graphs = [{"name": "scripted", "base_path": "script"}]
        (top / "config.json").write_text(json.dumps({"mediapipe_config_list": graphs}))
        words = ("--config_path", top / "config.json", "--calculators", _HERE / "script.py")
        with ServerProcess(*words, cwd=top) as server:
            for script, expected in EXPECTED.items():
                program = "node" if script.endswith(".mjs") else str(python)
                seen = seen_by([program, script], server.url, top / "npm")
                print(f"{script}: {'done' if seen == expected else 'not done'}", flush=True)
                if seen != expected:
                    failed += 1
                    print(f"  expected {json.dumps(expected)}\n  seen     {json.dumps(seen)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
