"""`Upload`: a file on its way into the store."""

from __future__ import annotations

from typing import BinaryIO

from servers.batches.contents import drop_file, keep_file
from servers.batches.errors import StorageFullError, storage_errors
from servers.batches.objects import StoredFile, new_id
from servers.batches.store import BatchStore


class Upload:
    """Writes one file. Methods block; one thread at a time may call them.

    Raises:
        StoreError: the constructor and every method; `StorageFullError` if the disk is full.
    """

    def __init__(self, store: BatchStore) -> None:
        self._store = store
        self._id = new_id("file-")
        with storage_errors():
            self._path = store.place_for_writing(self._id)
            self._file: BinaryIO | None = self._path.open("xb")
        self.size = 0

    def write(self, data: bytes) -> None:
        assert self._file is not None
        with storage_errors():
            self._file.write(data)
        self.size += len(data)

    def finish(
        self, *, owner: str, filename: str, purpose: str, now: int, expires_at: int | None
    ) -> StoredFile:
        """Make the file known, once it is on the disk, and return it."""
        assert self._file is not None
        try:
            keep_file(self._file, self._path, self._store.path_of(self._id))
        except StorageFullError:
            self.discard()
            raise
        self._file = None
        file = StoredFile(
            id=self._id,
            owner=owner,
            filename=filename,
            purpose=purpose,
            size=self.size,
            created_at=now,
            expires_at=expires_at,
        )
        self._store.add_file(file)
        return file

    def discard(self) -> None:
        """Remove what was written unless it is finished."""
        if self._file is not None:
            file, self._file = self._file, None
            drop_file(file, self._path)
