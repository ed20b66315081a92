"""graphrt beside the real MediaPipe on random graphs: ``python -m tests.mediapipe_peer --help``.

A command of its own, not part of the test suite: it needs a second Python environment that has
MediaPipe's wheel, whose place is an argument.
"""
