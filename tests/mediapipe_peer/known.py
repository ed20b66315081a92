"""Known, deliberate differences, each with its reason."""

from __future__ import annotations

import re

from tests.mediapipe_peer.case import PeerCase, Step

_ANY_URL = re.compile(r"\[([^\]\n]*/[^\]\n]*)\]")
_OLD_ANY_URL = re.compile(r"type\.googleapis\.com/[\w.]+")
_PARALLEL = re.compile(r"max_in_flight: ([2-9]|\d\d)")


def known_reason(case: PeerCase, found: list[str]) -> str | None:
    """Return why the two may differ on this case; None if the difference is a fault."""
    only_packets = all("stream " in line for line in found)
    if only_packets and _PARALLEL.search(case.text):
        # Calls of one node are equal items of a std::priority_queue, which does not keep the order
        # of equals. Outputs are released in order, but several at a time, so nodes below that look
        # at bounds see others.
        return "schedule of parallel calls"
    at_the_end = any(step[0] == "add" and step[4] == "MAX" for step in case.steps)
    if only_packets and at_the_end and "PreviousLoopbackCalculator" in case.text:
        # MediaPipe closes PREV_LOOP as soon as it sees MAIN's packet at MAX, even if the LOOP
        # packet that belongs to it is queued behind an older one, and so loses that packet.
        return "last packet of PreviousLoopback"
    if only_packets and case.reruns and "FixedSizeInputStreamHandler" in case.text:
        # MediaPipe's handler still remembers in the second run what it dropped in the first.
        return "FixedSize handler in a second run"
    urls = _ANY_URL.findall(case.text)
    if found[0].endswith("graphrt: None") and not all(map(_OLD_ANY_URL.fullmatch, urls)):
        # The text format allows any URL before the name of an Any's type; the protobuf in
        # MediaPipe's wheel still takes only one.
        return "URL of an Any"
    if all(line.startswith("run 1: step") and "Calculator::Open()" in line for line in found):
        # MediaPipe does not reopen a node without streams whose side packets are the same, not even
        # if opening it failed the first time.
        return "second run after a node without streams failed to open"
    if found[0].startswith("refused by graphrt") and "For output side packets of" in found[0]:
        # MediaPipe does not compare a node's output side packets with its contract; the process
        # ends when the calculator sets one that does not exist.
        return "output side packets against the contract"
    if _adds_after_the_end(case.steps):
        # A receiver that has closed drops packets, one that will close refuses them with an error.
        # In MediaPipe a node that is queued to close counts as the second, here as the first.
        return "packet after the end of its stream"
    return None


_LAST_TIMES = ("PRESTREAM", "MAX", "POSTSTREAM")


def _adds_after_the_end(steps: tuple[Step, ...]) -> bool:
    ended = set()
    for step in steps:
        if step[0] in ("add", "bound") and step[1] in ended:
            return True
        if step[0] == "close" or (step[0] in ("add", "bound") and step[-1] in _LAST_TIMES):
            ended.add(step[1])
    return False
