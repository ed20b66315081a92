"""Cohere's API of chats: its requests and answers."""
