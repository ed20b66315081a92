"""Images from texts and from other images: diffusion models behind OpenAI's images API.

openvino-genai draws in a child process. The server's process queues requests, checks them, and
writes answers.
"""
