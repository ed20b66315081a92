"""``python -m tests.examples.agents_conversation PORT FILE``: openai-agents says what is in a file.

The file has 16-bit samples at 24 kHz. Printed are the types of the SDK's events, the words of both
sides, and the seconds of sound, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from agents.realtime import RealtimeAgent, RealtimeRunner

from tests.support.patience import PATIENCE


async def facts(port: int, sound: bytes) -> dict[str, Any]:
    """Return the facts of one turn."""
    runner = RealtimeRunner(
        RealtimeAgent(name="voice", instructions="You are graphrt."),
        config={"model_settings": {"model_name": "voice", "voice": "ash"}},
    )
    url = f"ws://127.0.0.1:{port}/v1/realtime?model=voice"
    session = await runner.run(model_config={"url": url, "api_key": "unused"})
    found: dict[str, Any] = {"events": [], "errors": [], "seconds": 0.0}
    async with session:
        for at in range(0, len(sound), 9600):
            await session.send_audio(sound[at : at + 9600])
        async for event in session:
            match event.type:
                case "audio":
                    found["seconds"] += len(event.audio.data) / 48000
                case "error":
                    found["errors"].append(str(event.error))
                case "history_updated":
                    found["history"] = [
                        (item.role, part.transcript)
                        for item in event.history
                        if item.type == "message"
                        for part in item.content
                        if part.type in ("input_audio", "audio")
                    ]
                case "agent_end":
                    return found
                case _:
                    pass
            found["events"].append(event.type)
    return found


if __name__ == "__main__":
    said = facts(int(sys.argv[1]), Path(sys.argv[2]).read_bytes())
    print(json.dumps(asyncio.run(asyncio.wait_for(said, PATIENCE))))
