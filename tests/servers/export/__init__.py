"""Exports of safetensors."""
