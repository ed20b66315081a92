"""TFLite models on OpenVINO: their files, MediaPipe's own operations, inference as nodes."""
