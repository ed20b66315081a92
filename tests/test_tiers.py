"""Tiers of tests follow from what the tests use, and quick tests stay quick."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.cli.process import environment
from tests.support.checkout import ROOT
from tests.support.nested_runs import WITHOUT_PLUGINS
from tests.support.patience import PATIENCE
from tests.tiers import Tier, tier_of_file

_CONFTEST = """
from tests import tiers
from tests.tiers import child_program, in_process_engine

def pytest_addoption(parser):
    tiers.add_option(parser)

def pytest_configure(config):
    config.pluginmanager.register(tiers.Tiers(config), "tiers")
"""
_LOGIC = "def test_of_logic(): pass\n"
_FIXTURES = """
import pytest

@pytest.fixture
def engine(in_process_engine): pass

@pytest.fixture
def server(child_program): pass

def test_with_an_engine(engine): pass
def test_with_a_server(server): pass
def test_with_both(engine, server): pass
def test_with_neither(tmp_path): pass
"""
#: An engine's module that other rooms do not import.
_ENGINE = """
from calculators.llm.engine import core

def test_of_an_engine(): pass
"""
_CLIENT = """
import pytest

openai = pytest.importorskip("openai")

def test_of_a_client(): pass
"""


def run(folder: Path, tier: str, **modules: str) -> tuple[set[str], str]:
    """Run modules of tests; return the names of those that passed, and the output."""
    (folder / "conftest.py").write_text(_CONFTEST)
    for name, text in modules.items():
        (folder / f"test_{name}.py").write_text(text)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-rA", *WITHOUT_PLUGINS),
            *("--rootdir", str(folder), "--tier", tier, str(folder)),
        ],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return set(re.findall(r"^PASSED .*::(\w+)", done.stdout, re.M)), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("tier", "expected"),
    [
        ("quick", {"test_of_logic", "test_with_neither"}),
        (
            "test",
            {"test_of_logic", "test_with_neither", "test_with_an_engine", "test_of_an_engine"},
        ),
        ("rest", {"test_with_a_server", "test_with_both", "test_of_a_client"}),
        (
            "full",
            {
                *("test_of_logic", "test_with_neither", "test_with_an_engine"),
                *("test_of_an_engine", "test_with_a_server", "test_with_both", "test_of_a_client"),
            },
        ),
    ],
)
def test_a_command_runs_its_tier_and_the_earlier_ones(
    tmp_path: Path, tier: str, expected: set[str]
) -> None:
    modules = {"logic": _LOGIC, "fixtures": _FIXTURES, "engine": _ENGINE, "client": _CLIENT}
    assert run(tmp_path, tier, **modules)[0] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # By means that the rules do not know.
        ("import os\ndef test_it(): os.system('true')", "starts a process (os.system)"),
        (
            "import importlib\ndef test_it(): importlib.import_module('openvino_genai')",
            "imports openvino",
        ),
        (
            "import os, pytest\n"
            "@pytest.fixture\n"
            "def started(): os.waitpid(os.spawnlp(os.P_NOWAIT, 'true', 'true'), 0)\n"
            "def test_it(started): pass",
            "starts a process (os.",
        ),
        (
            "import importlib\nimportlib.import_module('openvino')\ndef test_it(): pass",
            "finds a model library loaded",
        ),
    ],
    ids=["process", "library", "fixture", "collection"],
)
def test_a_quick_test_that_starts_an_engine_fails(tmp_path: Path, text: str, message: str) -> None:
    passed, output = run(tmp_path, "quick", odd=text, logic=_LOGIC)
    assert "test_it" not in passed
    assert f"a test of the tier `quick` {message}" in output


@pytest.mark.parametrize(
    ("file", "tier"),
    [
        ("graph_runtime/test_timestamp.py", Tier.QUICK),
        ("protos/test_descriptor_set.py", Tier.QUICK),
        ("calculators/core/test_gate.py", Tier.QUICK),
        ("calculators/llm/parsers/test_any_text.py", Tier.QUICK),
        ("calculators/llm/engine/test_genai_pipeline.py", Tier.TEST),
        ("calculators/tensors/openvino/test_inference.py", Tier.TEST),
        ("servers/fronts/http/test_clients_that_go.py", Tier.TEST),
        ("servers/fronts/kserve_grpc/test_streams.py", Tier.TEST),
        # Through tests/servers/cli/serving.py, which starts the command.
        ("servers/cli/test_serve.py", Tier.FULL),
        ("process/test_streams.py", Tier.FULL),
        ("examples/test_sensor.py", Tier.FULL),
        ("process/clients/test_libraries.py", Tier.NIGHTLY),
        ("real_models/test_answers.py", Tier.NIGHTLY),
    ],
)
def test_a_file_has_the_tier_of_what_it_imports(file: str, tier: Tier) -> None:
    assert tier_of_file(ROOT / "tests" / file) is tier


def test_shared_fixtures_load_no_model_library_for_quick_tests() -> None:
    # Collects the whole tier in one process, and runs one test with its guard.
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tier", "quick"),
            *("-k", "test_pass_through_settles_all_outputs_at_each_timestamp"),
        ],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
