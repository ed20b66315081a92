"""Objects as boxes in space: MediaPipe's Objectron."""
