"""Transcription while one speaks: a session of OpenAI's Realtime API over a speech recognizer."""
