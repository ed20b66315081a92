"""`graphrt examples`, and examples by their names where nothing of that name lies."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from servers.cli.arguments import KINDS
from servers.cli.command_line import main
from tests.servers.cli.process import graphrt
from tests.support.checkout import ROOT

GUARD = "examples/graphs/guard"


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_example_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    folders = {
        f"graphs/{path.name}"
        for path in (ROOT / "examples/graphs").iterdir()
        if any(path.glob("*.pbtxt"))
    }
    models = {
        f"models/{path.parent.name}" for path in (ROOT / "examples/models").glob("*/README.md")
    }
    projects = {f"projects/{kind}" for kind in KINDS}
    assert folders | models | projects <= listed
    assert "graphs/hello" in listed


@pytest.mark.parametrize("name", ["graphs/guard", "examples/graphs/guard/"])
def test_a_graph_is_copied_with_its_models(name: str, tmp_path: Path) -> None:
    assert main(["examples", name]) == 0
    graph = (tmp_path / "guard" / "graph.pbtxt").read_text()
    (models_path,) = re.findall(r'models_path: "([^"]+)"', graph)
    assert (tmp_path / "guard" / models_path / "openvino_model.xml").is_file()
    done = graphrt("validate", "guard", "--calculators", "guard/guard.py", cwd=tmp_path)
    assert done.stdout == "guard/graph.pbtxt: ok (5 nodes)\n"


def test_a_graph_of_one_file_is_copied_with_what_it_needs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["examples", "smooth_twice", "mine"]) == 0
    words = ["--calculators", "smooth_twice.py", "--feed", "smooth_twice.feed.jsonl"]
    done = graphrt("run", "smooth_twice.pbtxt", *words, cwd=tmp_path / "mine")
    expected = (tmp_path / "mine" / "smooth_twice.expected.jsonl").read_text()
    assert [*map(json.loads, done.stdout.splitlines())] == [*map(json.loads, expected.splitlines())]


def test_all_are_copied(tmp_path: Path) -> None:
    assert main(["examples", "all"]) == 0
    done = graphrt("validate", "examples/config.json", f"{GUARD}/graph.pbtxt", cwd=tmp_path)
    assert "examples/config.json: ok (1 graph)" in done.stdout
    assert (tmp_path / "examples/graphs/hello.pbtxt").is_file()


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("gard", "there is no example gard", "did you mean guard?"),
        ("guard", "guard may be models/guard or graphs/guard or projects/guard", "name one of"),
        ("nothing_like_it", "there is no example nothing_like_it", "`graphrt examples` lists"),
    ],
)
def test_a_wrong_name_is_refused(
    name: str, message: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["examples", name]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert hint in error
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hello").mkdir()
    (tmp_path / "hello" / "mine.txt").write_text("mine")
    assert main(["examples", "hello"]) == 1
    assert "hello is not empty: it has mine.txt" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "hello").iterdir()] == ["mine.txt"]


def test_commands_take_examples_that_do_not_lie_here(tmp_path: Path) -> None:
    words = ["examples/config.json", GUARD, "demo", f"--calculators={GUARD}/guard.py"]
    done = graphrt("validate", *words, cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "examples/config.json: ok (1 graph)",
        f"{GUARD}/graph.pbtxt: ok (5 nodes)",
        "examples/models/demo/graph.pbtxt: ok (1 node)",
    ]
    described = graphrt("describe", "demo", cwd=tmp_path)
    assert described.stdout.startswith("graph.pbtxt: 1 node")
    join = "examples/graphs/join"
    words = [f"{join}.pbtxt", "--calculators", f"{join}.py", "--feed", f"{join}.feed.jsonl"]
    assert '"sum"' in graphrt("run", *words, cwd=tmp_path).stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["validate", "run"])
def test_a_graph_of_one_file_needs_no_suffix_and_its_calculators_are_named(
    command: str, tmp_path: Path
) -> None:
    done = graphrt(command, "examples/graphs/join", cwd=tmp_path)
    assert done.returncode == 1
    assert "hint: it may be in the file beside the graph: `--calculators " in done.stderr
    assert "examples/graphs/join.py`" in done.stderr
    words = ["examples/graphs/join", "--calculators=examples/graphs/join.py"]
    assert graphrt(command, *words, cwd=tmp_path).returncode == 0


def test_what_lies_here_comes_first(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "config.json").write_text('{"mediapipe_config_list": []}')
    done = graphrt("validate", "examples/config.json", cwd=tmp_path)
    assert "0 graphs" in done.stdout


@pytest.mark.parametrize("models_path", ["demo", "examples/models/demo"])
def test_nodes_and_configs_name_example_models(models_path: str, tmp_path: Path) -> None:
    text = (ROOT / "examples/models/demo/graph.pbtxt").read_text()
    assert 'models_path: "./"' in text
    (tmp_path / "graph.pbtxt").write_text(text.replace('"./"', f'"{models_path}"'))
    config = {
        "mediapipe_config_list": [
            {"name": "mine", "base_path": "."},
            {"name": "other", "base_path": models_path},
        ]
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = graphrt("validate", ".", "config.json", cwd=tmp_path)
    assert done.stdout == "graph.pbtxt: ok (1 node)\nconfig.json: ok (2 graphs)\n"


def test_a_name_alone_is_no_example(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"mediapipe_config_list": [{"name": "demo"}]}')
    done = graphrt("validate", "config.json", cwd=tmp_path)
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("dmo", "did you mean `demo`?"),
        ("gaurd", "did you mean `guard`?"),
        ("something", "`graphrt list` shows the models that are here"),
    ],
)
def test_a_misspelt_model_is_not_served(word: str, hint: str, tmp_path: Path) -> None:
    done = graphrt("serve", word, cwd=tmp_path)
    assert done.returncode == 1
    assert f"error: {word}: no such file or directory" in done.stderr
    assert hint in done.stderr


def test_models_that_come_with_graphrt_are_listed(tmp_path: Path) -> None:
    listed = graphrt("list", cwd=tmp_path).stdout.splitlines()
    of_graphrt = [line.split()[0] for line in listed if line.endswith("comes with graphrt")]
    assert {"demo", "guard", "counter"} <= set(of_graphrt)
