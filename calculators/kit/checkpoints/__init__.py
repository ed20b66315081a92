"""Model files of any kind as models of OpenVINO: sources, families, builders, tokenizers,
conversion.
"""

from __future__ import annotations
