"""Images in requests: from what a message says of one to its pixels.

``reader`` gets the bytes of an image (``data_uri``, ``download``, ``local_file``) in the server's
process, as far as `MediaRules` allow; ``decoding`` makes pixels of them in the prompt process.
"""
