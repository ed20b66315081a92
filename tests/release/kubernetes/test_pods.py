"""The containers of the manifests, run as a kubelet runs them, with the real server in them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from tests.process.http_client import CHAT, HELLO, HttpClient
from tests.process.long_streams import in_flight
from tests.process.server_process import ServerProcess
from tests.process.stream_law import read_stream
from tests.servers.cli.serving import Serving, make_site
from tests.support.checkout import ROOT
from tests.support.conditions import wait_until
from tests.support.patience import PATIENCE
from tests.support.processes import is_running

pytest.importorskip("yaml", reason="the extra `dev` has it")

from tests.release.kubernetes.test_manifests import OBJECTS, mappings_in, pod_of, the

DEMO: Final = ROOT / "examples/models/demo"
FLOWERS: Final = ROOT / "examples/graphs/flowers"
#: What the endpoint picker of the inference extension reads.
PICKED: Final = (
    "graphrt_llm_requests_running",
    "graphrt_llm_requests_waiting",
    "graphrt_llm_kv_cache_usage_ratio",
)
#: The port is a free one, and the report at the start shows it.
_LEFT_OUT: Final = re.compile(r"--(rest_port=|log_format=json)")


def arguments_of(
    container: dict[str, Any], paths: Mapping[str, Path | str] = MappingProxyType({})
) -> list[str]:
    """Return the arguments of a container for this machine: its ports are free ones."""
    assert container["command"] == ["graphrt", "serve"]
    words = [word for word in container["args"] if not _LEFT_OUT.match(word)]
    for placeholder, path in paths.items():
        words = [word.replace(placeholder, str(path)) for word in words]
    return [re.sub(r"^--port=\d+$", "--port=auto", word) for word in words]


def graphrt_container() -> dict[str, Any]:
    (container,) = pod_of(the("Deployment"))["containers"]
    return dict(container)


class Kubelet:
    """Ends a container as a kubelet does: preStop, SIGTERM, and SIGKILL when the grace is over.

    The grace period begins with preStop, whose command is run. Both are the manifest's, less the
    seconds by which a test shortens preStop and the server's drain.
    """

    def __init__(self, *, pre_stop_less: int = 0, drain_less: int = 0) -> None:
        pod = pod_of(the("Deployment"))
        command, seconds = graphrt_container()["lifecycle"]["preStop"]["exec"]["command"]
        self._hook = [command, str(int(seconds) - pre_stop_less)]
        self._grace = pod["terminationGracePeriodSeconds"] - pre_stop_less - drain_less

    def end(self, pid: int) -> None:
        """End a server.

        Raises:
            AssertionError: it had to be killed.
        """
        deadline = time.monotonic() + self._grace
        subprocess.run(self._hook, check=True)
        os.kill(pid, signal.SIGTERM)
        while is_running(pid):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                raise AssertionError("the grace period was over before the server had ended")
            time.sleep(0.02)


def test_a_pod_is_probed_and_measured_and_answers_what_it_has_begun_when_it_ends() -> None:
    container = graphrt_container()
    kubelet = Kubelet(pre_stop_less=4)
    with ServerProcess(*arguments_of(container)) as server:
        for probe in ("startup", "liveness", "readiness"):
            path = container[f"{probe}Probe"]["httpGet"]["path"]
            assert server.client.get(path).status == 200
        metrics = server.client.get("/metrics").body.decode()
        # One series each: the endpoint picker asks for a name without labels.
        for name in PICKED:
            assert len(re.findall(rf"^{name}{{.*}} ", metrics, re.M)) == 1
        with in_flight(server.client, 4, max_tokens=300) as streams:
            ending = threading.Thread(target=kubelet.end, args=(server.pid,))
            ending.start()
            # Balancers that have not heard yet still send requests during preStop.
            late = server.client.post(CHAT, messages=HELLO, max_tokens=1)
            assert late.status == 200
            for stream in streams:
                read = read_stream(stream.body())
                assert (read.error, read.finish_reason) == (None, "length")
        ending.join(PATIENCE)
        assert server.wait() == 0
        assert "cut off" not in "".join(server.log)


def test_a_request_without_end_does_not_outlive_the_grace_period(tmp_path: Path) -> None:
    words = arguments_of(graphrt_container(), {"demo": make_site(tmp_path)})
    assert "--drain_seconds=30" in words
    words[words.index("--drain_seconds=30")] = "--drain_seconds=1"
    with Serving(tmp_path, *words) as server:
        server.wait_until_serving()
        with server.request("POST", CHAT, {"model": "stream", "stream": True}) as response:
            assert response.readline() == b"data: first\n"
            # 29 seconds of the drain and 4 of preStop are left out, and of the grace period, too.
            Kubelet(pre_stop_less=4, drain_less=29).end(server.pid)
        code, _, log = server.end()
    assert code == 0
    assert "1 requests were cut off" in log


def test_a_changed_config_map_reaches_a_running_pod(tmp_path: Path) -> None:
    mounted = tmp_path / "graphrt"
    mounted.mkdir()

    def write(number: int, name: str) -> None:
        # As a kubelet does: files in a new folder, then one link that is replaced at once.
        folder = mounted / f"..{number}"
        folder.mkdir()
        config = {"mediapipe_config_list": [{"name": name, "base_path": str(tmp_path / "echo")}]}
        (folder / "config.json").write_text(json.dumps(config))
        link = mounted / "..data_tmp"
        link.symlink_to(folder.name)
        link.rename(mounted / "..data")

    make_site(tmp_path)
    write(1, "before")
    (mounted / "config.json").symlink_to("..data/config.json")
    container = graphrt_container()
    container["args"] = ["/etc/graphrt/config.json", *container["args"][1:]]
    words = arguments_of(container, {"/etc/graphrt": mounted})
    with Serving(tmp_path, *words) as server:
        server.wait_until_serving()
        write(2, "after")
        server.wait_for("after")
        wait_until(lambda: server.get("/v2/models/after/ready")[0] == 200, "the new graph")
        assert server.get("/v2/models/before/ready")[0] == 404


def test_kserves_runtime_serves_both_protocols() -> None:
    (runtime,) = [each for _, each in OBJECTS if each["kind"] == "ServingRuntime"]
    (container,) = runtime["spec"]["containers"]
    words = arguments_of(container, {"{{.Name}}": "chat", "/mnt/models": DEMO})
    with ServerProcess(*words) as server:
        assert server.client.get("/v2/models/chat/ready").status == 200
        answer = server.client.post(
            "/v1/chat/completions", model="chat", messages=HELLO, max_tokens=2
        )
        assert answer.json["usage"]["completion_tokens"] == 2


def test_the_service_of_tensors_adds_grpc() -> None:
    (service,) = [
        model
        for _, each in OBJECTS
        for model in mappings_in(each)
        if model.get("protocolVersion") == "grpc-v2"
    ]
    (runtime,) = [each for _, each in OBJECTS if each["kind"] == "ServingRuntime"]
    (container,) = runtime["spec"]["containers"]
    container = {**container, "args": [*container["args"], *service["args"]]}
    (port,) = service["ports"]
    assert f"--port={port['containerPort']}" in service["args"]
    words = arguments_of(container, {"{{.Name}}": "flowers", "/mnt/models": FLOWERS})
    with Serving(ROOT, *words, calculators=()) as server:
        server.wait_for("graphrt serves grpc://0.0.0.0:")


def without_rights(folder: Path) -> list[str]:
    """Return the words before a command that runs it without capabilities on a read-only root.

    Only ``folder`` can be written to, and the volumes of the pod, which are empty.
    """
    container = graphrt_container()
    assert container["securityContext"]["readOnlyRootFilesystem"]
    written = [each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")]
    assert written == ["/var/lib/graphrt", "/tmp"]
    script = (
        'set -e; mount --make-rprivate /; mount -t tmpfs tmpfs "$0"; mount -t tmpfs tmpfs /tmp; '
        "mount -o remount,ro,bind /; exec setpriv --bounding-set=-all --inh-caps=-all "
        '--no-new-privs "$@"'
    )
    return ["unshare", "--mount", "sh", "-c", script, str(folder)]


def can_remount(folder: Path) -> bool:
    """Tell whether this machine lets a test have a read-only root of its own."""
    if any(shutil.which(name) is None for name in ("unshare", "setpriv")):
        return False
    command = [*without_rights(folder), "sh", "-c", "! touch /graphrt-was-here"]
    done = subprocess.run(command, check=False, capture_output=True)
    return done.returncode == 0


def test_the_server_needs_no_rights_and_writes_only_to_its_volumes() -> None:
    home = Path("/var/lib")
    if ROOT.is_relative_to("/tmp"):
        pytest.skip("the checkout is in /tmp, which is empty in a pod")
    if not can_remount(home):
        pytest.skip("this machine does not allow mounts of one's own")
    words = [
        *(sys.executable, "-m", "servers.cli", "serve", "--rest_port=auto"),
        *arguments_of(graphrt_container()),
    ]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(home)}
    with subprocess.Popen(
        [*without_rights(home), *words], stderr=subprocess.PIPE, text=True, env=variables, cwd=ROOT
    ) as server:
        assert server.stderr is not None
        log = ""
        try:
            while (found := re.search(r"  curl .*:(\d+)/", log)) is None:
                line = server.stderr.readline()
                assert line, f"{shlex.join(words)} ended:\n{log}"
                log += line
            status = Path(f"/proc/{server.pid}/status").read_text()
            assert re.search(r"^CapEff:\s+0+$", status, re.M)
            assert re.search(r"^CapBnd:\s+0+$", status, re.M)
            client = HttpClient(int(found[1]))
            answer = client.post(CHAT, messages=HELLO, max_tokens=4)
            assert answer.status == 200
            server.terminate()
            log += server.stderr.read()
            assert server.wait(PATIENCE) == 0
        finally:
            server.kill()
    assert "Read-only file system" not in log
    assert "Permission denied" not in log
