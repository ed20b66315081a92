"""OpenAI's own client, reading a stream while the engine dies: ``began``, then what it raised."""

from __future__ import annotations

import json
import sys

import openai

from tests.process.clients.asked import API_KEY, MODEL, QUESTION


def main(url: str) -> None:
    client = openai.OpenAI(base_url=f"{url}/v3", api_key=API_KEY, max_retries=0)
    try:
        for chunk in client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": QUESTION}],
            stream=True,
            max_tokens=1900,
            extra_body={"ignore_eos": True},
        ):
            if chunk.choices[0].delta.content:
                print("began", flush=True)
    except openai.APIError as error:
        print(
            json.dumps(
                {
                    "kind": type(error).__name__,
                    "message": error.message,
                    "code": error.code,
                    "type": error.type,
                }
            )
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
