"""GGUF files in OpenVINO's form, converted once and kept in the server's cache."""
