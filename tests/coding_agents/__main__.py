"""The coding agents of npm, unmodified, against a server whose model follows a script.

``python -m tests.coding_agents`` installs Codex, Claude Code, Gemini CLI, ollama-js (for the agent
of ``agent.mjs``) and the agents of `graphrt launch` with npm and pip into a temporary folder and
lets each do a job: read, edit by its own tools, run a command, call a tool of an MCP server, find a
tool by search. They get no other network: their home is empty and their provider is the server.
Exits with 1 if a job is not done, and with 2 without npm.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.client_table import clients
from tests.process.server_process import ServerProcess
from tests.support.checkout import ROOT

#: What npm and pip install.
PACKAGES: Final = [
    f"{each.package}@{each.version}"
    for each in clients()
    if each.npm and each.test == "tests/coding_agents"
]
AIDER: Final = next(
    f"{each.package}=={each.version}" for each in clients() if each.package == "aider-chat"
)
#: The served names. Codex knows models of the first to take patches by a grammar; to others it
#: offers the tools of MCP servers at once.
PATCHING: Final = "gpt-5.5"
OTHER: Final = "scripted"
_SECONDS: Final = 180
SCRIPT_GRAPH: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:in"
output_stream: "HTTP_RESPONSE_PAYLOAD:out"
node {
  calculator: "GenerationRequestReaderCalculator"
  input_stream: "HTTP_REQUEST_PAYLOAD:in"
  output_stream: "REQUEST:request"
}
node {
  calculator: "script"
  input_stream: "REQUEST:request"
  output_stream: "DELTAS:deltas"
}
node {
  calculator: "GenerationResponseWriterCalculator"
  input_stream: "DELTAS:deltas"
  output_stream: "HTTP_RESPONSE_PAYLOAD:out"
}
"""
_HELLO: Final = "hello world\n"
_PATCH: Final = """\
*** Begin Patch
*** Update File: hello.txt
@@
-hello world
+hello graph
*** Add File: new.txt
+made by a patch
*** End Patch
"""


@dataclass
class Job:
    """One agent's work.

    Attributes:
        calls: of the model: the tool and its arguments.
        command: of the agent, and the variables of its environment.
        check: returns what is wrong with the folder and what the model saw.
    """

    name: str
    calls: list[tuple[str, dict[str, Any]]]
    command: list[str]
    check: Callable[[Path, list[dict[str, Any]]], list[str]]
    environment: dict[str, str] = field(default_factory=dict)


def patch_job(commands: Path, home: Path, url: str) -> Job:
    """Run commands, and edit by a patch that follows a grammar."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("exec_command", {"cmd": "cat hello.txt"}),
        ("apply_patch", {"input": _PATCH}),
        ("exec_command", {"cmd": "cat hello.txt new.txt"}),
    ]

    def check(folder: Path, seen: list[dict[str, Any]]) -> list[str]:
        wrong = _files(folder, {"hello.txt": "hello graph\n", "new.txt": "made by a patch\n"})
        if "hello graph\nmade by a patch" not in str(seen[-1]["last"].get("content")):
            wrong.append("the last command's result did not come back")
        if not any("apply_patch" in each["grammars"] for each in seen):
            wrong.append("apply_patch was offered without its grammar")
        return wrong

    return _codex("Codex, patch", PATCHING, calls, check, commands, home, url)


def server_job(commands: Path, home: Path, url: str) -> Job:
    """Run a command, and call a tool of an MCP server."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("exec_command", {"cmd": "echo graph > hello.txt"}),
        ("mcp__clock__now", {}),
    ]

    def check(folder: Path, seen: list[dict[str, Any]]) -> list[str]:
        wrong = _files(folder, {"hello.txt": "graph\n"})
        if "noon o'clock" not in str(seen[-1]["last"].get("content")):
            wrong.append("the result of the MCP server's tool did not come back")
        return wrong

    return _codex("Codex, MCP server", OTHER, calls, check, commands, home, url)


def _codex(
    name: str, model: str, calls: list[tuple[str, dict[str, Any]]],
    check: Callable[[Path, list[dict[str, Any]]], list[str]], commands: Path, home: Path, url: str,
) -> Job:  # fmt: skip
    home.mkdir()
    clock = ROOT / "tests" / "coding_agents" / "clock.py"
    (home / "config.toml").write_text(f"""\
model = "{model}"
model_provider = "graphrt"
[model_providers.graphrt]
name = "graphrt"
base_url = "{url}/v1"
wire_api = "responses"
[mcp_servers.clock]
command = "{sys.executable}"
args = ["{clock}"]
default_tools_approval_mode = "approve"
""")
    words = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    command = [str(commands / "codex"), *words, "Greet the graph."]
    return Job(name, calls, command, check, {"CODEX_HOME": str(home), "HOME": str(home)})


def claude_job(commands: Path, home: Path, url: str) -> Job:
    """Find a tool by search, read, edit, and run a command."""
    home.mkdir()
    calls: list[tuple[str, dict[str, Any]]] = [
        ("ToolSearch", {"query": "select:WebFetch", "max_results": 2}),
        ("Read", {"file_path": "hello.txt"}),
        ("Edit", {"file_path": "hello.txt", "old_string": "world", "new_string": "graph"}),
        ("Bash", {"command": "cat hello.txt", "description": "Show the file"}),
    ]

    def check(folder: Path, seen: list[dict[str, Any]]) -> list[str]:
        wrong = _files(folder, {"hello.txt": "hello graph\n"})
        if "hello graph" not in str(seen[-1]["last"].get("content")):
            wrong.append("the command's result did not come back")
        if "WebFetch" not in seen[-1]["tools"]:
            wrong.append("the tool that was searched for is not offered")
        return wrong

    words = [
        "-p",
        "Greet the graph.",
        "--model",
        OTHER,
        "--allowedTools",
        "Read,Edit,Bash,ToolSearch",
    ]
    environment = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "ENABLE_TOOL_SEARCH": "true",
        "CLAUDE_CONFIG_DIR": str(home),
        "HOME": str(home),
    }
    return Job("Claude Code", calls, [str(commands / "claude"), *words], check, environment)


def gemini_job(commands: Path, home: Path, url: str) -> Job:
    """Read, edit, and run a command by Google's API."""
    (home / ".gemini").mkdir(parents=True)
    settings = {
        "general": {"disableAutoUpdate": True},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
    }
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"file_path": "hello.txt"}),
        (
            "replace",
            {
                "file_path": "hello.txt",
                "instruction": "Greet the graph",
                "old_string": "world",
                "new_string": "graph",
            },
        ),
        ("run_shell_command", {"command": "cat hello.txt", "description": "Show the file"}),
    ]

    def check(folder: Path, seen: list[dict[str, Any]]) -> list[str]:
        wrong = _files(folder, {"hello.txt": "hello graph\n"})
        if "hello graph" not in str(seen[-1]["last"].get("content")):
            wrong.append("the command's result did not come back")
        return wrong

    words = ["-m", OTHER, "--approval-mode", "yolo", "-p", "Greet the graph."]
    environment = {
        "GEMINI_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "HOME": str(home),
    }
    return Job("Gemini CLI", calls, [str(commands / "gemini"), *words], check, environment)


def ollama_job(commands: Path, home: Path, url: str) -> Job:
    """Read, write, and run a command by Ollama's API, with ollama-js."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read", {"path": "hello.txt"}),
        ("write", {"path": "hello.txt", "text": "hello graph\n"}),
        ("run", {"command": "cat hello.txt"}),
    ]

    def check(folder: Path, seen: list[dict[str, Any]]) -> list[str]:
        wrong = _files(folder, {"hello.txt": "hello graph\n"})
        if "hello graph" not in str(seen[-1]["last"].get("content")):
            wrong.append("the command's result did not come back")
        return wrong

    module = commands.parent / "ollama" / "dist" / "index.mjs"
    agent = ROOT / "tests" / "coding_agents" / "agent.mjs"
    command = ["node", str(agent), str(module), url, OTHER]
    return Job("ollama-js", calls, command, check)


def launched(
    agent: str,
    calls: list[tuple[str, dict[str, Any]]],
    words: list[str],
    *,
    elsewhere: frozenset[str] = frozenset(),
) -> Callable[[Path, Path, str], Job]:
    """Return the maker of a job of an agent that `graphrt launch` starts: read, edit, run.

    ``elsewhere``: files of the home that the agent cannot be kept from writing.
    """

    def make(commands: Path, home: Path, url: str) -> Job:
        home.mkdir()

        def check(folder: Path, seen: list[dict[str, Any]]) -> list[str]:
            wrong = _files(folder, {"hello.txt": "hello graph\n"})
            if calls[0][0] and "hello graph" not in str(seen[-1]["last"].get("content")):
                wrong.append("the last result did not come back")
            own = {path.relative_to(home).parts[0] for path in home.rglob("*") if path.is_file()}
            if own - elsewhere != {"agent"}:
                wrong.append(f"files outside the agent's folder: {sorted(own)}")
            return wrong

        launch = [sys.executable, "-m", "servers.cli", "launch", agent, "--url", url]
        launch += ["--model", OTHER, "--folder", str(home / "agent"), "--", *words]
        path = os.pathsep.join((str(commands), os.environ["PATH"]))
        environment = {"HOME": str(home), "PATH": path, "PYTHONPATH": str(ROOT)}
        return Job(f"{agent}, launched", calls, launch, check, environment)

    make.__name__ = f"{agent}_launched"
    return make


_TASK: Final = "Greet the graph."
_WHOLE_FILE: Final = "hello.txt\n```\nhello graph\n```\n\nAll done."
_RUN: Final = "cat hello.txt"
LAUNCHED: Final = (
    launched(
        "claude",
        [
            ("Read", {"file_path": "hello.txt"}),
            ("Edit", {"file_path": "hello.txt", "old_string": "world", "new_string": "graph"}),
            ("Bash", {"command": _RUN, "description": "Show the file"}),
        ],
        ["-p", _TASK, "--allowedTools", "Read,Edit,Bash"],
    ),
    launched(
        "codex",
        [("exec_command", {"cmd": "sed -i s/world/graph/ hello.txt; cat hello.txt"})],
        ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", _TASK],
    ),
    launched(
        "opencode",
        [
            ("read", {"filePath": "hello.txt"}),
            ("edit", {"filePath": "hello.txt", "oldString": "world", "newString": "graph"}),
            ("bash", {"command": _RUN, "description": "Show the file"}),
        ],
        ["run", _TASK],
    ),
    launched(
        "qwen",
        [
            ("read_file", {"file_path": "{folder}/hello.txt"}),
            (
                "edit",
                {
                    "file_path": "{folder}/hello.txt",
                    "old_string": "world",
                    "new_string": "graph",
                },
            ),
            ("run_shell_command", {"command": _RUN, "is_background": False}),
        ],
        ["--approval-mode", "yolo", "-p", _TASK],
    ),
    launched(
        "cline",
        [
            ("read_files", {"files": [{"path": "{folder}/hello.txt"}]}),
            (
                "editor",
                {
                    "path": "{folder}/hello.txt",
                    "old_text": "world",
                    "new_text": "graph",
                },
            ),
            ("run_commands", {"commands": [_RUN]}),
        ],
        [_TASK],
    ),
    launched(
        "pi",
        [
            ("read", {"path": "hello.txt"}),
            ("edit", {"path": "hello.txt", "edits": [{"oldText": "world", "newText": "graph"}]}),
            ("bash", {"command": _RUN}),
        ],
        ["-p", _TASK],
    ),
    # It offers no tools: edits are text.
    launched(
        "aider",
        [("", {"text": _WHOLE_FILE})],
        ["--yes-always", "-m", _TASK, "hello.txt"],
        elsewhere=frozenset({".aider"}),
    ),
)


def _files(folder: Path, expected: dict[str, str]) -> list[str]:
    wrong = []
    for name, text in expected.items():
        path = folder / name
        found = path.read_text() if path.exists() else None
        if found != text:
            wrong.append(f"{name} has {found!r}, not {text!r}")
    return wrong


def do(job: Job, script: Path, folder: Path) -> list[str]:
    """Let an agent do its job in a folder; return what is wrong."""
    (script / "calls.json").write_text(json.dumps(job.calls).replace("{folder}", str(folder)))
    seen_file = script / "seen.jsonl"
    seen_file.write_text("")
    folder.mkdir()
    (folder / "hello.txt").write_text(_HELLO)
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
    try:
        done = subprocess.run(
            job.command, cwd=folder, env={**kept, **job.environment}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        return [f"it did not end within {_SECONDS} s: {error.stdout!r} {error.stderr!r}"]
    seen = [json.loads(line) for line in seen_file.read_text().splitlines()]
    wrong = [] if done.returncode == 0 else [f"it ended with {done.returncode}"]
    wrong += job.check(folder, seen) if seen else ["the server got no request"]
    if "All done." not in done.stdout:
        wrong.append("the last answer was not shown")
    if wrong:
        wrong += [f"{job.name} wrote:", done.stdout[-3000:], done.stderr[-3000:]]
        wrong += [json.dumps(each)[:600] for each in seen]
    return wrong


def install_npm(folder: Path, packages: Sequence[str]) -> None:
    """Install packages with npm into a new folder."""
    folder.mkdir()
    (folder / "package.json").write_text('{"private": true}')
    subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *packages],
        cwd=folder, check=True,
    )  # fmt: skip


def install(folder: Path, packages: list[str]) -> Path:
    """Install packages with npm, and Aider with pip; return the folder of their commands."""
    install_npm(folder, packages)
    commands = folder / "node_modules" / ".bin"
    python = folder / "python"
    subprocess.run([sys.executable, "-m", "venv", python], check=True)
    subprocess.run([python / "bin" / "pip", "install", "--quiet", AIDER], check=True)
    (commands / "aider").symlink_to(python / "bin" / "aider")
    return commands


JOBS: Final = (patch_job, server_job, claude_job, gemini_job, ollama_job, *LAUNCHED)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.coding_agents", description=__doc__)
    parser.add_argument("--log", type=Path, help="where the server's log goes")
    parser.add_argument("--commands", type=Path, help="folder with installed commands, for no npm")
    parser.add_argument("--only", choices=[job.__name__ for job in JOBS], help="one job")
    arguments = parser.parse_args()
    if arguments.commands is None and shutil.which("npm") is None:
        print("npm is needed to install the agents (Node.js 20 or newer)", file=sys.stderr)
        return 2
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        commands = arguments.commands or install(top / "npm", PACKAGES)
        script = top / "script"
        script.mkdir()
        shutil.copy(Path(__file__).parent / "script.py", script)
        (script / "graph.pbtxt").write_text(SCRIPT_GRAPH)
        graphs = [{"name": each, "base_path": "script"} for each in (PATCHING, OTHER)]
        config = {"mediapipe_config_list": graphs}
        (top / "config.json").write_text(json.dumps(config))
        words = ("--config_path", top / "config.json", "--calculators", script / "script.py")
        jobs = [job for job in JOBS if arguments.only in (None, job.__name__)]
        with ServerProcess(*words, cwd=top) as server:
            for place, make in enumerate(jobs):
                job = make(commands, top / f"home{place}", server.url)
                wrong = do(job, script, top / f"work{place}")
                print(f"{job.name}: {'not done' if wrong else 'done'}", flush=True)
                print("".join(f"  {line}\n" for line in wrong), end="")
                failed += bool(wrong)
            if arguments.log is not None:
                arguments.log.write_text("".join(server.log))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
