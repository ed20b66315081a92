"""Text of documents that clients send, read in a process of their own."""
