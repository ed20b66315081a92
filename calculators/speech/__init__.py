"""Sound: its packets, speech to text, text to speech."""
