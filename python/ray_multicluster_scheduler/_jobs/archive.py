"""Folders as zip files, named by their content.

The digest is over names, executable bits and contents, not over the bytes of the zip: the same
files give the same name on every machine.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, Callable

from ..errors import ConfigurationError
from . import ignores

logger = logging.getLogger(__name__)

#: The largest package that Ray accepts.
MAX_BYTES = 100 << 20

#: Anything this large is refused without reading it.
HOPELESS_BYTES = 10 * MAX_BYTES

PIECE = 1 << 20


@dataclass(frozen=True)
class Entry:
    """A file, or an empty folder."""

    #: Its path in the package, with slashes.
    name: str
    path: str
    is_folder: bool
    executable: bool
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Tree:
    """The files of a folder, or a single file, to pack; in order of the names."""

    path: str
    entries: tuple[Entry, ...]

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries)

    def digest(self) -> str:
        """Reads everything and returns the digest.

        Raises:
            ConfigurationError: something cannot be read.
        """
        digest = hashlib.sha256()
        for entry in self.entries:
            _read(entry, digest.update, digest.update)
        return digest.hexdigest()

    def write(self, target: BinaryIO) -> str:
        """Packs everything. Returns the digest of the packed content: files may change meanwhile.

        Raises:
            ConfigurationError: it is larger than Ray takes, or something cannot be read.
        """
        digest = hashlib.sha256()

        def pack(piece: bytes) -> None:
            digest.update(piece)
            packed.write(piece)
            if target.tell() > MAX_BYTES:
                raise self.too_large()

        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as package:
            for entry in self.entries:
                with package.open(_header(entry), "w") as packed:
                    _read(entry, digest.update, pack)
        if target.tell() > MAX_BYTES:
            raise self.too_large()
        return digest.hexdigest()

    def too_large(self) -> ConfigurationError:
        sizes: dict[str, int] = {}
        for entry in self.entries:
            first, slash, _ = entry.name.partition("/")
            sizes[first + slash] = sizes.get(first + slash, 0) + entry.size
        largest = sorted(sizes.items(), key=lambda item: -item[1])[:5]
        listed = ", ".join(f"{name} ({mebibytes(size)})" for name, size in largest)
        return ConfigurationError(
            f"{self.path} is too large: its {len(self.entries)} files have {mebibytes(self.size)}, "
            f"and packed more than the {mebibytes(MAX_BYTES)} that Ray takes\n  largest: {listed}",
            hint="leave data out with excludes=[…] in the runtime_env or with a .rayignore file, "
            "and let the job read it from where its cluster can see it",
        )


def of_folder(path: str, excludes: list[str], below: str = "") -> Tree:
    """The files of a folder to pack; in the package, they are below the folder `below`."""
    found = sorted(_walk(path, "", [ignores.Ignores("", excludes)], ()), key=lambda e: e.name)
    if below:
        found = [replace(entry, name=f"{below}/{entry.name}") for entry in found]
    return Tree(path, tuple(found))


def of_file(path: str) -> Tree:
    """A single file, such as a module."""
    return Tree(path, (_entry(path, os.path.basename(path), os.stat(path)),))


def mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


def unreadable(path: str, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"{path} cannot be read: {error.strerror or error}",
        hint="correct its permissions, or leave it out with excludes=[…] in the runtime_env",
    )


def _walk(
    folder: str,
    name: str,
    rules: list[ignores.Ignores],
    above: tuple[tuple[int, int], ...],
) -> Iterator[Entry]:
    """Links are followed, as Ray does: their targets may not exist on a cluster."""
    try:
        about = os.stat(folder)
        if (about.st_dev, about.st_ino) in above:
            logger.warning("%s leads back into a folder above it: left out", folder)
            return
        above = (*above, (about.st_dev, about.st_ino))
        rules = rules + ignores.of_folder(folder, name)
        if any(rule.match(name, True) for rule in rules):
            return
        with os.scandir(folder) as listed:
            items = sorted(listed, key=lambda item: item.name)
    except OSError as error:
        raise unreadable(folder, error) from error
    if not items and name:
        yield _entry(folder, name, about)
    for item in items:
        inner = f"{name}/{item.name}" if name else item.name
        try:
            about = item.stat()
        except FileNotFoundError:
            # A dangling link, or a file that was just deleted.
            continue
        except OSError as error:
            raise unreadable(item.path, error) from error
        if stat.S_ISDIR(about.st_mode):
            yield from _walk(item.path, inner, rules, above)
        elif stat.S_ISREG(about.st_mode) and not any(rule.match(inner, False) for rule in rules):
            yield _entry(item.path, inner, about)


def _entry(path: str, name: str, about: os.stat_result) -> Entry:
    is_folder = stat.S_ISDIR(about.st_mode)
    return Entry(
        name=name,
        path=path,
        is_folder=is_folder,
        executable=not is_folder and bool(about.st_mode & stat.S_IXUSR),
        size=0 if is_folder else about.st_size,
        mtime_ns=about.st_mtime_ns,
    )


def _read(entry: Entry, about: Callable[[bytes], object], piece: Callable[[bytes], object]) -> None:
    """Yields the name, then the content, then its length: no two trees give the same."""
    kind = "folder" if entry.is_folder else "program" if entry.executable else "file"
    about(os.fsencode(entry.name) + b"\0" + kind.encode() + b"\0")
    size = 0
    if not entry.is_folder:
        try:
            with open(entry.path, "rb") as file:
                while content := file.read(PIECE):
                    size += len(content)
                    piece(content)
        except OSError as error:
            raise unreadable(entry.path, error) from error
    about(size.to_bytes(8, "big"))


def _header(entry: Entry) -> zipfile.ZipInfo:
    try:
        entry.name.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"{entry.path!r} cannot be packed: its name is not UTF-8",
            hint="rename it, or leave it out with excludes=[…] in the runtime_env",
        ) from error
    # No times and no umask: they would differ from one checkout to the next.
    header = zipfile.ZipInfo(entry.name + ("/" if entry.is_folder else ""))
    if entry.is_folder:
        mode = stat.S_IFDIR | 0o755
    else:
        mode = stat.S_IFREG | (0o755 if entry.executable else 0o644)
    header.create_system = 3
    header.external_attr = mode << 16
    header.compress_type = zipfile.ZIP_DEFLATED
    header.file_size = entry.size
    return header
