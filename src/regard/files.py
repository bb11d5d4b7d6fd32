"""Writing files so that nothing is ever half there."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from regard.errors import FailureError


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a temporary path beside `path`; when the block ends well it is synced to disk and renamed to `path`.

    Readers see the old file or the whole new one, never a part. If the block fails, the temporary file is removed and
    the old file stays.

    Raises:
        FailureError: when the disk is full or the folder cannot be written.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    except OSError as error:
        raise FailureError(
            f"cannot write {path}: {error.strerror or error}; free space or choose another folder"
        ) from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        sync(temporary)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        sync(path.parent)
    except OSError as error:
        raise FailureError(
            f"cannot write {path}: {error.strerror or error}; free space or choose another folder"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text file (UTF-8) atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def sync(path: Path) -> None:
    """Forces a file or a folder's entries to disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
