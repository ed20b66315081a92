"""MediaPipe's solutions as Python classes, each over its graph."""
