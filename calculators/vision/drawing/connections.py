"""The lines between landmarks that make them a face, a hand or a body.

A connection is a pair of places in the list of landmarks.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

Connections = tuple[tuple[int, int], ...]


def _chains(*chains: tuple[int, ...]) -> Connections:
    return tuple(pair for chain in chains for pair in pairwise(chain))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


#: 33 landmarks of a pose.
POSE: Final = _chains(
    (0, 1, 2, 3, 7),
    (0, 4, 5, 6, 8),
    (9, 10),
    (11, 12),
    (11, 13, 15, 17, 19, 15, 21),
    (12, 14, 16, 18, 20, 16, 22),
    (11, 23, 25, 27, 29, 31, 27),
    (12, 24, 26, 28, 30, 32, 28),
    (23, 24),
)
#: 21 landmarks of a hand.
HAND: Final = _chains(
    (0, 1, 2, 3, 4),
    (0, 5, 6, 7, 8),
    (5, 9, 10, 11, 12),
    (9, 13, 14, 15, 16),
    (13, 17, 18, 19, 20),
    (0, 17),
)
LIPS: Final = _chains(
    (61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291),
    (61, 185, 40, 39, 37, 0, 267, 269, 270, 409, 291),
    (78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308),
    (78, 191, 80, 81, 82, 13, 312, 311, 310, 415, 308),
)
LEFT_EYE: Final = _chains(
    (263, 249, 390, 373, 374, 380, 381, 382, 362),
    (263, 466, 388, 387, 386, 385, 384, 398, 362),
)
LEFT_EYEBROW: Final = _chains((276, 283, 282, 295, 285), (300, 293, 334, 296, 336))
RIGHT_EYE: Final = _chains(
    (33, 7, 163, 144, 145, 153, 154, 155, 133),
    (33, 246, 161, 160, 159, 158, 157, 173, 133),
)
RIGHT_EYEBROW: Final = _chains((46, 53, 52, 65, 55), (70, 63, 105, 66, 107))
FACE_OVAL: Final = _chains(
    _numbers(
        "10 338 297 332 284 251 389 356 454 323 361 288 397 365 379 378 400 377 "
        "152 148 176 149 150 136 172 58 132 93 234 127 162 21 54 103 67 109 10"
    )
)
IRISES: Final = _chains((469, 470, 471, 472, 469), (474, 475, 476, 477, 474))
#: 468 landmarks of a face.
FACE: Final = LIPS + LEFT_EYE + LEFT_EYEBROW + RIGHT_EYE + RIGHT_EYEBROW + FACE_OVAL
