"""The files in `deploy/`: they fit the server, the metadata and each other."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from servers.server.lifecycle import CLOSE_SECONDS, ServerSettings
from tests.servers.cli.serving import Serving, make_site
from tests.support.checkout import ROOT

DEPLOY: Final = ROOT / "deploy"
DOCKERFILE: Final = (DEPLOY / "Dockerfile").read_text("utf-8")
IGNORED: Final = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
COMPOSE: Final = (DEPLOY / "compose.yaml").read_text("utf-8")
UNIT: Final = (DEPLOY / "graphrt.service").read_text("utf-8")
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
#: Seconds that a stop with requests in flight may take.
LONGEST_STOP: Final = ServerSettings(graphs=(), http=None).drain_seconds + CLOSE_SECONDS


def words_of(instruction: str) -> list[str]:
    """Return the words of an instruction of the Dockerfile in exec form."""
    found = re.findall(rf"^{instruction} (?:[^\[\n]*\\\n\s*CMD )?(\[.*\])$", DOCKERFILE, re.M)
    assert len(found) == 1
    words: list[str] = json.loads(found[0])
    return words


def test_a_stop_has_time_to_drain() -> None:
    (grace,) = re.findall(r"stop_grace_period: (\d+)s", COMPOSE)
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.M)
    assert int(grace) > LONGEST_STOP
    assert int(seconds) > LONGEST_STOP


def test_the_image_has_a_python_that_is_tried() -> None:
    (version,) = re.findall(r"^ARG PYTHON=(.*)$", DOCKERFILE, re.M)
    assert f"Programming Language :: Python :: {version}" in PROJECT["project"]["classifiers"]


def test_the_image_is_made_of_all_that_the_wheel_is() -> None:
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {path.partition("/")[0] for path in (*wheel["packages"], *wheel["force-include"])}
    needed |= {"pyproject.toml", "README.md", "LICENSE"}
    needed |= {"requirements.lock", "requirements-dev.lock"}
    assert IGNORED[1] == "*"
    assert {line[1:] for line in IGNORED if line.startswith("!")} == needed


def test_the_modules_that_are_compiled_exist() -> None:
    named = re.findall(
        r'"(graph_runtime/[\w/]+\.py)"', (ROOT / "hatch_build.py").read_text("utf-8")
    )
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_the_extras_of_the_image_exist_and_are_locked() -> None:
    (extras,) = re.findall(r"^ARG EXTRAS=(.*)$", DOCKERFILE, re.M)
    declared = PROJECT["project"]["optional-dependencies"]
    lock = (ROOT / "requirements-dev.lock").read_text("utf-8").lower().replace("_", "-")
    for extra in extras.split(","):
        names = [re.match(r"[\w-]+", each) for each in declared[extra]]
        assert [name for name in names if name and f"\n{name[0].lower()}==" not in lock] == []


def test_the_image_serves_as_another_user_than_root() -> None:
    _, _, final = DOCKERFILE.rpartition("\nFROM ")
    assert re.findall(r"^USER (.*)$", final, re.M) == ["10001:10001"]
    assert final.index("\nUSER ") < final.index("\nENTRYPOINT ")
    assert words_of("ENTRYPOINT")[:2] == ["graphrt", "serve"]


def test_the_health_check_fails_without_a_server(tmp_path: Path) -> None:
    command = words_of("HEALTHCHECK")
    assert command[:2] == ["python", "-c"]
    with Serving(tmp_path, make_site(tmp_path)) as server:
        server.wait_until_serving()
        program = command[2].replace(":8000/", f":{server.port}/")
        subprocess.run([sys.executable, "-c", program], check=True)
    done = subprocess.run([sys.executable, "-c", program], check=False, stderr=subprocess.DEVNULL)
    assert done.returncode != 0


def test_the_files_that_compose_mounts_exist() -> None:
    mounted = re.findall(r"^\s+- (\.[\w./-]+):", COMPOSE, re.M)
    assert len(mounted) == 4
    assert [path for path in mounted if not (DEPLOY / path).exists()] == []


def test_grafana_reads_the_dashboard_where_compose_mounts_it() -> None:
    (target,) = re.findall(r"docs/grafana/graphrt\.json:([^:]*):ro", COMPOSE)
    provider = (DEPLOY / "grafana/provisioning/dashboards/graphrt.yaml").read_text("utf-8")
    assert f"path: {Path(target).parent}\n" in provider
    assert f"DASHBOARD_PATH: {target}\n" in COMPOSE


def test_nothing_is_published_beyond_this_machine() -> None:
    ports = re.findall(r"ports: \[(.*)\]", COMPOSE)
    assert len(ports) == 3
    assert all(port.startswith('"127.0.0.1:') for port in ports)


@pytest.mark.skipif(shutil.which("docker") is None, reason="there is no docker here")
def test_docker_reads_the_compose_file() -> None:
    command = ["docker", "compose", "-f", str(DEPLOY / "compose.yaml"), "config", "--quiet"]
    if subprocess.run(
        ["docker", "compose", "version"], check=False, capture_output=True
    ).returncode:
        pytest.skip("this docker has no compose")
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "graphrt.service"
    # Verification wants the command to exist.
    unit.write_text(UNIT.replace("/opt/graphrt/bin/graphrt", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", str(unit)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
