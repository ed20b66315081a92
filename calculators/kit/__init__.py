"""What every family of models needs: tasks, options, requests, child processes, caches on the
disk.
"""

from __future__ import annotations
