"""A disk under SQLite that can be pulled out or break at any write: a VFS that records what was written and synced."""

import random
from pathlib import Path

import apsw

SECTOR = 512


class Disk(apsw.VFS):
    """Records every write, sync, truncate and delete; `fail_at` makes the n-th of them (from 1) fail."""

    def __init__(self, name: str, error: type[apsw.Error] = apsw.IOError) -> None:
        self.name = name
        self.error = error
        self.operations: list[tuple] = []
        self.fail_at: int | None = None
        super().__init__(name, "")

    def xOpen(self, name, flags):
        return _File(self, name, flags)

    def xDelete(self, path, sync):
        self.note("delete", path)
        return super().xDelete(path, sync)

    def note(self, kind, path, *what):
        self.operations.append((kind, path, *what))
        if len(self.operations) == self.fail_at:
            raise self.error(f"disk broken at operation {self.fail_at} ({kind})")

    def image(self, upto: int, rng: random.Random, keep: float) -> dict[str, bytes]:
        """What is on the disk after a power cut following operation `upto`.

        Of every write after the last sync of its file each sector survives with probability `keep`.
        """
        files: dict[str, bytearray] = {}
        synced = {}
        for index, (kind, path, *_) in enumerate(self.operations[:upto]):
            if kind == "sync":
                synced[path] = index
        for index, (kind, path, *what) in enumerate(self.operations[:upto]):
            safe = index < synced.get(path, -1)
            content = files.setdefault(path, bytearray())
            if kind == "delete":
                del files[path]
            elif kind == "truncate" and (safe or rng.random() < keep):
                del content[what[0] :]
            elif kind == "write":
                offset, data = what
                for at in range(0, len(data), SECTOR):
                    if safe or rng.random() < keep:
                        part = data[at : at + SECTOR]
                        content.extend(bytes(max(0, offset + at + len(part) - len(content))))
                        content[offset + at : offset + at + len(part)] = part
        return {path: bytes(content) for path, content in files.items()}


class _File(apsw.VFSFile):
    def __init__(self, disk, name, flags):
        self.disk = disk
        if name is None:  # a scratch file of SQLite, which nothing rests on
            self.path = "(temporary)"
        else:
            self.path = name if isinstance(name, str) else name.filename()
        super().__init__("", name, flags)

    def xWrite(self, data, offset):
        self.disk.note("write", self.path, offset, bytes(data))
        return super().xWrite(data, offset)

    def xSync(self, flags):
        self.disk.note("sync", self.path)
        return super().xSync(flags)

    def xTruncate(self, size):
        self.disk.note("truncate", self.path, size)
        return super().xTruncate(size)


def lay_out(image: dict[str, bytes], directory: Path) -> None:
    """Write an image's files into a directory, under their own names."""
    for path, content in image.items():
        (directory / Path(path).name).write_bytes(content)
