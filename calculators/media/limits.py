"""How large the images of a request may be."""

from __future__ import annotations

from typing import Final

#: Images in a request, those of earlier messages included.
MAX_IMAGES: Final = 16
#: Of one image as a file, in bytes; OpenVINO Model Server's limit for what it downloads.
MAX_IMAGE_BYTES: Final = 20_000_000
#: Of all images of a request together: what one message to the prompt process may hold.
MAX_REQUEST_BYTES: Final = 64_000_000
#: Of one image; looked up in the file's header, before anything is unpacked.
MAX_PIXELS: Final = 25_000_000
#: Of all images of a request, as often as the engine is given them: once for each answer.
MAX_REQUEST_PIXELS: Final = 50_000_000
#: Models cut images into squares, and refuse or misread what is nearly a line.
MAX_RATIO: Final = 200
