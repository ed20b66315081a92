"""The pages that `test_followed_pages` runs from top to bottom."""

from typing import Final

FOLLOWED: Final = (
    "docs/tutorials/first_graph.md",
    "docs/tutorials/chat_endpoint.md",
    "docs/tutorials/guard.md",
    "docs/tutorials/retrieval.md",
    "docs/tutorials/operate.md",
    "docs/tutorials/from_ovms.md",
    "docs/how_a_packet_travels.md",
    "docs/how_a_token_travels.md",
)
