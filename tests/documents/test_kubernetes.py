"""docs/kubernetes.md: its values are rendered and served, its commands name files that exist."""

from __future__ import annotations

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from tests.servers.cli.process import graphrt
from tests.support.checkout import ROOT
from tests.support.markdown import block, commands, text_of

PAGE: Final = "docs/kubernetes.md"
yaml = pytest.importorskip("yaml", reason="the extra `dev` has it")
#: A text of each block of commands.
BLOCKS: Final = (
    "port-forward",
    "apply -k",
    "upgrade --install",
    "autoscaling.cpuPercent=0",
    "inferencePool.enabled=true",
    "serving_runtime.yaml",
    "EXTRAS=hub",
)
COMMANDS: Final = [shlex.split(line) for each in BLOCKS for line in commands(PAGE, each)]


def values_of(words: list[str]) -> dict[str, Any]:
    """Return the values that a command of Helm sets."""
    helm_python = pytest.importorskip("helm_python", reason="the extra `helm` has it")
    values: dict[str, Any] = {}
    if "--values" in words:
        values = yaml.safe_load(block(PAGE, "yaml", "mediapipe_config_list"))
    for flag, text in pairwise(words):
        if flag == "--set":
            (name, value) = next(iter(helm_python.parse_set_string(text).items()))
            values[name] = values.get(name, {}) | value
    return values


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words)[:60])
def test_a_command_names_what_exists(words: list[str]) -> None:
    paths = [word for word in words if word.startswith("deploy/")]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert words[0] in ("docker", "helm", "kubectl")
    if words[0] == "docker":
        (extras,) = re.findall(r"^ARG EXTRAS=.*$", text_of("deploy/Dockerfile"), re.M)
        assert extras
    elif words[0] == "helm":
        assert words[1] in ("install", "upgrade")
    else:
        assert words[1] in ("apply", "create", "port-forward")


@pytest.mark.parametrize(
    "words", [words for words in COMMANDS if words[0] == "helm"], ids=lambda words: words[-1]
)
def test_the_chart_takes_the_values_of_a_command(words: list[str]) -> None:
    values = values_of(words)
    from deploy.manifests import rendered
    from tests.release.kubernetes.custom_resources import check, objects_of

    texts = rendered(values, name="chat")
    for text in texts.values():
        for value in objects_of(text):
            check(value)
            # The name that the page forwards a port to.
            assert value["metadata"]["name"] == "chat-graphrt"


def test_the_config_of_the_page_is_valid_for_the_server(tmp_path: Path) -> None:
    values = yaml.safe_load(block(PAGE, "yaml", "mediapipe_config_list"))
    places = {"/models/chat": ROOT / "examples/models/demo", "/etc/graphrt": tmp_path}
    files = {"config.json": json.dumps(values["config"]), **values["files"]}
    for name, text in files.items():
        for place, path in places.items():
            text = text.replace(place, str(path))
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = graphrt("validate", "config.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "config.json: ok (2 graphs)\n"), done.stderr
