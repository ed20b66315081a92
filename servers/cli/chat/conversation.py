"""The messages of a chat, and requests made of them."""

from __future__ import annotations

import base64
import json
import mimetypes
from pathlib import Path
from typing import Any, Final

#: Larger files are hardly images that a model would take.
_MOST_IMAGE_BYTES: Final = 20 << 20


class AttachmentError(Exception):
    """A file cannot be used; the text says why."""


class Conversation:
    """Messages from both sides, the system's message, tools, and images for the next message."""

    def __init__(self, system: str = "") -> None:
        self.system = system
        self.messages: list[dict[str, Any]] = []
        self.tools: list[Any] = []
        self._images: list[str] = []

    def attach_image(self, path: Path) -> None:
        """Send an image with the next message.

        Raises:
            AttachmentError: the file cannot be read, or is no image.
        """
        media = mimetypes.guess_type(path.name)[0] or ""
        if not media.startswith("image/"):
            raise AttachmentError(f"{path}: its name is none of an image, as in picture.png")
        try:
            if path.stat().st_size > _MOST_IMAGE_BYTES:
                raise AttachmentError(f"{path} is larger than 20 MiB")
            data = path.read_bytes()
        except OSError as error:
            raise AttachmentError(f"{path}: {error.strerror}") from error
        self._images.append(f"data:{media};base64,{base64.b64encode(data).decode()}")

    def read_tools(self, path: Path) -> int:
        """Read tools from a file, a JSON array as in a request, and return their number.

        Raises:
            AttachmentError: the file cannot be read, or holds something else.
        """
        try:
            tools = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise AttachmentError(f"{path}: {error.strerror}") from error
        except ValueError as error:
            raise AttachmentError(f"{path} is not JSON: {error}") from error
        if not isinstance(tools, list):
            raise AttachmentError(
                f'{path} must hold a list: [{{"type": "function", "function": {{...}}}}]'
            )
        self.tools = tools
        return len(tools)

    def say(self, text: str) -> None:
        """Add a message of the user, with the images that wait for it."""
        content: Any = text
        if self._images:
            images = [{"type": "image_url", "image_url": {"url": url}} for url in self._images]
            content = [{"type": "text", "text": text}, *images]
            self._images = []
        self.messages.append({"role": "user", "content": content})

    def hear(self, text: str, calls: list[dict[str, Any]]) -> None:
        """Add an answer of the model."""
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = calls
        self.messages.append(message)

    def return_result(self, call_id: str, result: str) -> None:
        """Add the result of a call of a tool."""
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": result})

    def take_back(self) -> None:
        """Forget the last message of the user and all after it."""
        while self.messages and self.messages.pop()["role"] != "user":
            pass

    def body(self, model: str, **options: Any) -> dict[str, Any]:
        """Return the request for the next answer; options that are None are left out."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        body: dict[str, Any] = {
            "model": model,
            "messages": [*system, *self.messages],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.tools:
            body["tools"] = self.tools
        return body | {name: value for name, value in options.items() if value is not None}
