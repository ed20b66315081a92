"""Comparison with the real MediaPipe on random graphs: ``python -m tests.mediapipe_peer``.

A command of its own, not part of the test suite: it needs a second Python environment with
MediaPipe's wheel, whose path is an argument.
"""
