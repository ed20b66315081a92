"""`graphrt launch`: a coding agent with a model of this machine.

An agent is a declaration: its program, where that comes from, the shortest context that its own
prompt leaves room in, and the settings that point it at a server. Its files lie in a folder of its
own, so nothing that a user has set up for it is read or changed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from servers.cli.chat import OwnServer, served_models, with_scheme
from servers.cli.messages import CommandFailed, print_warning

_DEFAULT_URL: Final = "http://127.0.0.1:8000"
#: The variable from which agents read the key.
_KEY: Final = "GRAPHRT_API_KEY"
#: The longest answers that agents ask for, in tokens.
_LONGEST_ANSWER: Final = 8192
#: Seconds that an agent waits for an answer: a long prompt takes minutes on a processor.
_PATIENCE: Final = 3600


class AgentModel(NamedTuple):
    """The model that an agent is to use.

    Attributes:
        url: of the server, without a path.
        key: of the client; "unused" where the server wants none.
        model: its name there.
        context: tokens of prompt and answer together; 0 if the server does not say.
        calls_tools: whether the server knows the form of its calls, or does not say.
        folder: of the agent's own files, absolute.
    """

    url: str
    key: str
    model: str
    context: int
    calls_tools: bool
    folder: Path

    @property
    def limits(self) -> dict[str, int]:
        """Tokens of context and answer, for agents that ask for both."""
        context = self.context or 32_768
        return {"context": context, "output": min(_LONGEST_ANSWER, context // 4)}


class AgentSettings(NamedTuple):
    """How an agent is started.

    Attributes:
        environment: variables, in addition to this process's.
        arguments: those before the user's own.
        files: texts by their paths in the agent's folder.
    """

    environment: Mapping[str, str]
    arguments: tuple[str, ...] = ()
    files: Mapping[str, str] = MappingProxyType({})


class Agent(NamedTuple):
    """A coding agent.

    Attributes:
        program: its command.
        install: the command that installs it.
        tokens: the shortest context in which it works: its prompt with its tools, and an answer.
        settings: what points it at a server.
    """

    program: str
    install: str
    tokens: int
    settings: Callable[[AgentModel], AgentSettings]


def _own_directories(folder: Path) -> dict[str, str]:
    """Return the variables of XDG that keep an agent's files together."""
    names = ("CONFIG", "DATA", "STATE", "CACHE")
    return {f"XDG_{name}_HOME": str(folder / name.lower()) for name in names}


def _claude(target: AgentModel) -> AgentSettings:
    # Without these, parts of it ask for models of Anthropic.
    tiers = ("OPUS", "SONNET", "HAIKU")
    models = {f"ANTHROPIC_DEFAULT_{tier}_MODEL": target.model for tier in tiers}
    return AgentSettings(
        {
            "ANTHROPIC_BASE_URL": target.url,
            "ANTHROPIC_AUTH_TOKEN": target.key,
            "ANTHROPIC_MODEL": target.model,
            "ANTHROPIC_SMALL_FAST_MODEL": target.model,
            **models,
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(target.limits["output"]),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "true",
            "API_TIMEOUT_MS": str(_PATIENCE * 1000),
            "CLAUDE_CONFIG_DIR": str(target.folder),
        }
    )


def _codex(target: AgentModel) -> AgentSettings:
    model, url = json.dumps(target.model), json.dumps(f"{target.url}/v1")
    return AgentSettings(
        {"CODEX_HOME": str(target.folder), _KEY: target.key},
        files={
            "config.toml": f"""\
model = {model}
model_provider = "graphrt"
model_context_window = {target.limits["context"]}
check_for_update_on_startup = false
[model_providers.graphrt]
name = "graphrt"
base_url = {url}
env_key = "{_KEY}"
wire_api = "responses"
stream_idle_timeout_ms = {_PATIENCE * 1000}
"""
        },
    )


def _opencode(target: AgentModel) -> AgentSettings:
    config = {
        "$schema": "https://opencode.ai/config.json",
        "model": f"graphrt/{target.model}",
        "small_model": f"graphrt/{target.model}",
        "autoupdate": False,
        "share": "disabled",
        "provider": {
            "graphrt": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "graphrt",
                "options": {"baseURL": f"{target.url}/v1", "apiKey": f"{{env:{_KEY}}}"},
                "models": {target.model: {"name": target.model, "limit": target.limits}},
            }
        },
    }
    environment = {
        "OPENCODE_CONFIG": str(target.folder / "opencode.json"),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "NPM_CONFIG_CACHE": str(target.folder / "npm"),
        **_own_directories(target.folder),
        _KEY: target.key,
    }
    return AgentSettings(environment, files={"opencode.json": _json(config)})


def _qwen(target: AgentModel) -> AgentSettings:
    config = {
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "openai"}},
    }
    return AgentSettings(
        {
            "OPENAI_BASE_URL": f"{target.url}/v1",
            "OPENAI_API_KEY": target.key,
            "OPENAI_MODEL": target.model,
            "QWEN_HOME": str(target.folder),
        },
        ("--auth-type", "openai", "--model", target.model),
        {"settings.json": _json(config)},
    )


def _cline(target: AgentModel) -> AgentSettings:
    settings = {
        "provider": "openai-compatible",
        "apiKey": target.key,
        "model": target.model,
        "baseUrl": f"{target.url}/v1",
    }
    # Without a date it forgets the settings.
    dated = {"updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    provider = {"settings": settings, **dated}
    config = {
        "version": 1,
        "lastUsedProvider": "openai-compatible",
        "modes": {},
        "providers": {"openai-compatible": provider},
    }
    return AgentSettings(
        {"CLINE_DATA_DIR": str(target.folder)},
        (
            *("--config", str(target.folder), "--data-dir", str(target.folder)),
            *("--provider", "openai-compatible", "--model", target.model),
        ),
        {"settings/providers.json": _json(config)},
    )


def _aider(target: AgentModel) -> AgentSettings:
    # litellm's prefix chooses the form of the API, and is no part of the name.
    facts = {
        f"openai/{target.model}": {
            "max_input_tokens": target.limits["context"],
            "max_output_tokens": target.limits["output"],
            "litellm_provider": "openai",
            "mode": "chat",
        }
    }
    files = {"models.json": _json(facts)}
    own = {
        "--model-metadata-file": "models.json",
        "--input-history-file": "input.history",
        "--chat-history-file": "chat.history.md",
        "--llm-history-file": "llm.history",
    }
    return AgentSettings(
        {
            "OPENAI_API_BASE": f"{target.url}/v1",
            "OPENAI_API_KEY": target.key,
        },
        (
            *("--model", f"openai/{target.model}", "--timeout", str(_PATIENCE)),
            *(
                "--no-analytics",
                "--no-check-update",
                "--no-show-release-notes",
                "--no-show-model-warnings",
            ),
            *(word for flag, file in own.items() for word in (flag, str(target.folder / file))),
        ),
        files,
    )


def _goose(target: AgentModel) -> AgentSettings:
    environment = {
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": target.model,
        "GOOSE_CONTEXT_LIMIT": str(target.limits["context"]),
        "GOOSE_DISABLE_KEYRING": "1",
        "OPENAI_HOST": target.url,
        "OPENAI_BASE_PATH": "v1/chat/completions",
        "OPENAI_API_KEY": target.key,
        "OPENAI_TIMEOUT": str(_PATIENCE),
        **_own_directories(target.folder),
    }
    return AgentSettings(environment)


def _pi(target: AgentModel) -> AgentSettings:
    limits = target.limits
    model = {
        "id": target.model,
        "name": target.model,
        "reasoning": False,
        "input": ["text"],
        "contextWindow": limits["context"],
        "maxTokens": limits["output"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }
    provider = {
        "baseUrl": f"{target.url}/v1",
        "api": "openai-completions",
        "apiKey": _KEY,
        "models": [model],
    }
    return AgentSettings(
        {"PI_CODING_AGENT_DIR": str(target.folder), "PI_SKIP_VERSION_CHECK": "1", _KEY: target.key},
        ("--provider", "graphrt", "--model", target.model),
        {"models.json": _json({"providers": {"graphrt": provider}})},
    )


def _json(value: Any) -> str:
    return f"{json.dumps(value, indent=2)}\n"


#: The agents by name. Their pages in ``docs/agents`` say what was tried with which version.
AGENTS: Final[Mapping[str, Agent]] = MappingProxyType(
    {
        "claude": Agent("claude", "npm install -g @anthropic-ai/claude-code", 24_000, _claude),
        "codex": Agent("codex", "npm install -g @openai/codex", 16_000, _codex),
        "opencode": Agent("opencode", "npm install -g opencode-ai", 16_000, _opencode),
        "qwen": Agent("qwen", "npm install -g @qwen-code/qwen-code", 24_000, _qwen),
        "cline": Agent("cline", "npm install -g cline", 24_000, _cline),
        "aider": Agent("aider", "python -m pip install aider-chat", 8_000, _aider),
        "goose": Agent("goose", "see https://block.github.io/goose", 16_000, _goose),
        "pi": Agent("pi", "npm install -g @mariozechner/pi-coding-agent", 8_000, _pi),
    }
)


def execute(args: argparse.Namespace) -> int:
    """Run the command; return the agent's exit code."""
    agent = AGENTS[args.agent]
    model, words = args.launch_model, []
    if "--" in args.words:
        words = [*args.words[args.words.index("--") + 1 :]]
    folder = Path(args.folder or _data_directory() / args.agent).absolute()
    key = os.environ.get("OPENAI_API_KEY") or os.environ.get("API_KEY") or "unused"
    if args.print_settings:
        url = _base(args.url or _DEFAULT_URL)
        target = AgentModel(url, key, args.model or model or "MODEL", 0, True, folder)
        print(_shown(agent, agent.settings(target), target, words), end="")
        return 0
    if shutil.which(agent.program) is None:
        raise CommandFailed(f"{agent.program} is not installed", hint=agent.install)
    if model is not None and args.url is not None:
        raise CommandFailed("use either MODEL, which is served for this agent, or --url", status=2)
    with ExitStack() as stack:
        if model is None:
            url = _base(args.url or _DEFAULT_URL)
        else:
            print(f"loading {model} ...", file=sys.stderr, flush=True)
            own = OwnServer([model], is_verbose=args.verbose)
            url = _base(stack.enter_context(own).url)
        target = _target(url, key, args.model, folder, is_default=args.url is None)
        _check(args.agent, agent, target, is_forced=args.anyway)
        return _run(agent, agent.settings(target), target, words)


def _data_directory() -> Path:
    given = os.environ.get("XDG_DATA_HOME")
    return Path(given or "~/.local/share").expanduser() / "graphrt" / "agents"


def _base(url: str) -> str:
    """Return a server's URL without the path of an API."""
    return with_scheme(url).removesuffix("/v1").removesuffix("/v3").rstrip("/")


def _target(url: str, key: str, model: str | None, folder: Path, *, is_default: bool) -> AgentModel:
    """Look up a model of a server.

    Raises:
        CommandFailed: the server does not answer, or has no such model.
    """
    try:
        found = served_models(f"{url}/v1", key)
    except CommandFailed as failure:
        if not is_default:
            raise
        hint = "name the model, and it is served for this agent: graphrt launch AGENT MODEL"
        raise CommandFailed(str(failure), hint=hint) from None
    generating = (name for name, each in found.items() if each.get("max_model_len"))
    name = model or next(generating, next(iter(found)))
    if name not in found:
        raise CommandFailed(f'the server has no model "{name}"', hint=f"it has {', '.join(found)}")
    context = found[name].get("max_model_len")
    calls_tools = found[name].get("tool_parser") != "none"
    return AgentModel(
        url, key, name, context if isinstance(context, int) else 0, calls_tools, folder
    )


def _check(name: str, agent: Agent, target: AgentModel, *, is_forced: bool) -> None:
    """Check that a model can work for an agent.

    Raises:
        CommandFailed: its context is too short, or its calls cannot be read.
    """
    problems = []
    if 0 < target.context < agent.tokens:
        problems.append(
            f"{target.model} holds {target.context} tokens, and {name} needs about {agent.tokens}: "
            "its own prompt with its tools, and room for answers"
        )
    if not target.calls_tools:
        problems.append(
            f"the form in which {target.model} calls tools is unknown; `graphrt detect` shows what "
            "its template says, and --tool_parser names a form"
        )
    if problems and not is_forced:
        raise CommandFailed(
            "\n".join(problems), hint="take another model, or --anyway to try this one"
        )
    for problem in problems:
        print_warning(problem)


def _run(agent: Agent, settings: AgentSettings, target: AgentModel, words: list[str]) -> int:
    target.folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # a file may have the key
    for name, text in settings.files.items():
        path = target.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    # Ctrl-C is the agent's, which asks before it ends.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return subprocess.run(
            [agent.program, *settings.arguments, *words],
            env={**os.environ, **settings.environment},
            check=False,
            preexec_fn=_hear_interrupts,
        ).returncode
    finally:
        signal.signal(signal.SIGINT, before)


def _hear_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _shown(agent: Agent, settings: AgentSettings, target: AgentModel, words: list[str]) -> str:
    """Return the settings as lines for a shell."""
    lines = []
    for name, text in settings.files.items():
        path = target.folder / name
        lines.append(f"mkdir -p {shlex.quote(str(path.parent))}")
        lines.append(f"cat > {shlex.quote(str(path))} <<'END'\n{text.rstrip()}\nEND")
    lines += [f"export {name}={shlex.quote(value)}" for name, value in settings.environment.items()]
    lines.append(shlex.join([agent.program, *settings.arguments, *words]))
    return "\n".join(lines) + "\n"
