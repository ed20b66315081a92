"""A graph of `examples/graphs` that answers chats: its command, one chat, and all clients."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.examples.text_clients import ask_with_clients
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT


class ServedModel:
    """A model named after its folder, and the server of it, in one module of tests."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.folder: Final = f"examples/graphs/{name}"

    def serving(self) -> Serving:
        """Return the server as the comment of the graph starts it."""
        return Serving(ROOT, self.folder, calculators=())

    def check_comment(self, num_nodes: int) -> None:
        """Check that the command of the graph's comment serves it, and that it is valid."""
        text = (ROOT / self.folder / "graph.pbtxt").read_text(encoding="utf-8")
        assert f"#   graphrt serve {self.folder} --port 8000\n" in text
        file = f"{self.folder}/graph.pbtxt"
        done = graphrt("validate", file, cwd=ROOT)
        expected = f"{file}: ok ({num_nodes} nodes)\n"
        assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")

    def chat(self, server: Serving, text: str, **more: Any) -> tuple[int, dict[str, Any]]:
        """Send a chat of one message; return the status and the answer."""
        messages = [{"role": "user", "content": text}]
        body = {"model": self.name, "messages": messages, **more}
        with server.request("POST", "/v3/chat/completions", body) as response:
            return response.status, json.loads(response.read())

    def events(self, server: Serving, text: str, **more: Any) -> list[dict[str, Any]]:
        """Send a chat of one message as a stream; return its events, which are complete."""
        messages = [{"role": "user", "content": text}]
        body = {"model": self.name, "messages": messages, "stream": True, **more}
        with server.request("POST", "/v3/chat/completions", body) as response:
            events = response.read().decode().removesuffix("\n\n").split("\n\n")
        assert events.pop() == "data: [DONE]"
        return [json.loads(event.removeprefix("data: ")) for event in events]

    def check_clients(self, server: Serving, text: str) -> None:
        """Check that unmodified clients of all APIs get one answer, whole and streamed."""
        facts = ask_with_clients(f"http://127.0.0.1:{server.port}", self.name, text)
        assert facts["chat"] == facts["chat stream"]
        assert facts["chat"][0]
        assert facts["responses"] == facts["responses stream"]
        assert facts["responses pieces"] == facts["responses"][0] == facts["chat"][0]
        assert facts["messages"] == facts["messages stream"]
        assert facts["messages pieces"] == facts["messages"][0] == facts["chat"][0]
        assert facts["completions"] == facts["completions stream"]
        assert facts["kserve"] == facts["kserve stream"]
