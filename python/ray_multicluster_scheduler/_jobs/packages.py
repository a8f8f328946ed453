"""Files of this machine that jobs need: packed here, uploaded once by content."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import BinaryIO

from .._plane.client import ControlPlane, segment
from .._plane.events import may_pass
from ..errors import ConfigurationError, SchedulerError, TaskSubmissionError
from . import archive, ignores
from .progress import say

#: An upload of this size takes long enough to report it.
WORTH_TELLING = 10 << 20

#: Files that are packages already.
ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar.xz")

#: How many times an upload is tried. It is complete each time, so it may be repeated.
TRIES = 4

UPLOAD_TIMEOUT = 300.0


class Packages:
    """The packages of one program. Safe to use from any thread."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        # One at a time: threads that need the same folder upload it once.
        self._packing = threading.Lock()
        # By the request: the state of the files, and the URI they had then.
        self._known: dict[tuple[str, ...], tuple[object, str]] = {}

    def working_dir(self, path: str, excludes: list[str]) -> str:
        """The URI of a folder, or of an archive."""
        if os.path.isdir(path):
            return self._folder(path, [*ignores.default_excludes(), *excludes])
        if path.endswith(ARCHIVES):
            return self._file(path)
        raise ConfigurationError(
            f"working_dir {path} is neither a folder nor an archive",
            hint=f"give a folder, or a file that ends in {', '.join(ARCHIVES)}",
        )

    def py_module(self, path: str, excludes: list[str]) -> str:
        """The URI of a Python package (a folder), a module, a wheel or an archive."""
        if os.path.isdir(path):
            # Files that Python compiled here are useless there, and change with every import.
            return self._folder(path, ["__pycache__", *excludes], below=os.path.basename(path))
        if path.endswith(".py"):
            return self._tree(("file", path), archive.of_file(path))
        if path.endswith((".whl", *ARCHIVES)):
            return self._file(path)
        raise ConfigurationError(
            f"py_modules names {path}, which cannot be imported",
            hint="give the folder of a package, a .py file, a .whl or a .zip",
        )

    def _folder(self, path: str, excludes: list[str], below: str = "") -> str:
        tree = archive.of_folder(path, excludes, below)
        return self._tree(("folder", path, below, *excludes), tree)

    def _tree(self, key: tuple[str, ...], tree: archive.Tree) -> str:
        with self._packing:
            uri = self._remembered(key, tree.entries)
            if uri is None:
                if tree.size > archive.HOPELESS_BYTES:
                    raise tree.too_large()
                if tree.size > WORTH_TELLING:
                    size = archive.mebibytes(tree.size)
                    say(f"packing {tree.path}: {len(tree.entries)} files, {size}")
                uri = _uri(tree.digest(), ".zip")
            if not self._is_there(uri):
                with tempfile.TemporaryFile() as package:
                    uri = _uri(tree.write(package), ".zip")
                    self._upload(uri, package, tree.path)
            self._known[key] = (tree.entries, uri)
            return uri

    def _file(self, path: str) -> str:
        """A file that is a package already is uploaded unchanged."""
        if not os.access(path, os.R_OK):
            raise archive.unreadable(path, PermissionError(errno.EACCES, "Permission denied"))
        with self._packing, open(path, "rb") as file:
            about = os.fstat(file.fileno())
            looks = (about.st_size, about.st_mtime_ns, about.st_ino)
            if about.st_size > archive.MAX_BYTES:
                raise archive.of_file(path).too_large()
            uri = self._remembered(("as it is", path), looks)
            if uri is None:
                digest = hashlib.sha256()
                while piece := file.read(archive.PIECE):
                    digest.update(piece)
                uri = _file_uri(path, digest.hexdigest())
            if not self._is_there(uri):
                self._upload(uri, file, path)
            self._known["as it is", path] = (looks, uri)
            return uri

    def _remembered(self, key: tuple[str, ...], looks: object) -> str | None:
        known = self._known.get(key)
        return known[1] if known and known[0] == looks else None

    def _is_there(self, uri: str) -> bool:
        """Asked each time: a package that no job needs is deleted after a while."""
        for last in _tries():
            try:
                self._plane.open("GET", _address(uri))
            except SchedulerError as error:
                if error.code == "http_404":
                    return False
                if last or not may_pass(error):
                    raise
            else:
                return True
        raise AssertionError("the last try returns or raises")

    def _upload(self, uri: str, package: BinaryIO, path: str) -> None:
        size = package.seek(0, os.SEEK_END)
        if size > WORTH_TELLING:
            say(f"uploading {path}: {archive.mebibytes(size)}")
        for last in _tries():
            package.seek(0)
            try:
                self._plane.open(
                    "PUT",
                    _address(uri),
                    package,
                    timeout=UPLOAD_TIMEOUT,
                    headers={"Content-Length": str(size)},
                )
            except SchedulerError as error:
                if last or not may_pass(error):
                    raise TaskSubmissionError(
                        f"{path} could not be uploaded: {error.message}", hint=error.hint
                    ) from error
            else:
                return


def _tries() -> Iterator[bool]:
    """True for the last try; the pauses grow."""
    for number in range(1, TRIES):
        yield False
        time.sleep(0.2 * 2**number)
    yield True


def _address(uri: str) -> str:
    return "/api/packages/gcs/" + segment(uri[len("gcs://") :])


def _uri(digest: str, ending: str) -> str:
    return f"gcs://_ray_pkg_{digest[:32]}{ending}"


def _file_uri(path: str, digest: str) -> str:
    name = os.path.basename(path)
    if not name.endswith(".whl"):
        return _uri(digest, next(ending for ending in ARCHIVES if name.endswith(ending)))
    # pip goes by the name of a wheel, and Ray keeps the unpacked copy under that name. So the
    # content becomes the build tag: a wheel that was built again gets another name.
    parts = name[: -len(".whl")].split("-")
    if len(parts) not in (5, 6):
        raise ConfigurationError(
            f"{path} does not have the name of a wheel",
            hint="keep the name it was built with, such as mine-1.0-py3-none-any.whl",
        )
    build = parts.pop(2) + "_" if len(parts) == 6 else "0_"
    return f"gcs://{'-'.join([*parts[:2], build + digest[:16], *parts[2:]])}.whl"
