"""Images in requests, from a reference in a message to pixels.

``reader`` gets the bytes of an image (``data_uri``, ``download``, ``local_file``) in the server's
process, as far as `MediaRules` allow; ``decoding`` makes pixels of them in the prompt process.
"""
