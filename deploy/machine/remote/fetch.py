"""Downloads the files of plan.json into model/: resumed by Range, checked by digest, told in state.json.

Standard library of Python 3.8. The hub's token comes on stdin and is kept in memory only. Ends with stage
`downloaded`, or `failed` and an error code: hub_unreachable, not_found, gated, checksum_mismatch, disk_full, truncated.
A file that is whole and checked is never fetched again; a `.part` is thrown away only when its digest is wrong.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import json
import os
import shutil
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import statefile

BASE = Path(__file__).resolve().parent
CHUNK_BYTES = 1024 * 1024
SHOW_SECONDS = 0.5
MARGIN_BYTES = 256 * 1024 * 1024
TIMEOUT_SECONDS = 30
TRIES = 6
STREAMS = 4
RETRY_AFTER_CAP_SECONDS = 60.0


class Failed(Exception):
    """The download cannot go on; `code` is the reason."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Again(Exception):
    """Try again after a pause of `seconds` (0: the usual back-off); `code` is the reason if that goes on for long."""

    def __init__(self, code: str, seconds: float = 0.0) -> None:
        super().__init__(code)
        self.code = code
        self.seconds = seconds


class Progress:
    """Bytes on disk of all files together, written to the state at most every half second."""

    def __init__(self, total: int) -> None:
        self._lock = threading.Lock()
        self._done: dict[str, int] = {}
        self._shown_at = 0.0
        self._total = total

    def set(self, name: str, size: int) -> None:
        with self._lock:
            self._done[name] = size
            if time.monotonic() - self._shown_at < SHOW_SECONDS:
                return
            self._shown_at = time.monotonic()
            self._show()

    def end(self) -> None:
        with self._lock:
            self._show()

    def _show(self) -> None:
        statefile.update(BASE, bytes_done=sum(self._done.values()), bytes_total=self._total)


class SameHostRedirects(urllib.request.HTTPRedirectHandler):
    """The token follows a redirect only to the host it was meant for; hubs send to storage elsewhere."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        before, after = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        if before.scheme == "https" and after.scheme != "https":
            raise urllib.error.URLError("redirect to an unencrypted address")
        token = req.unredirected_hdrs.get("Authorization")
        if new is not None and token and (before.scheme, before.netloc) == (after.scheme, after.netloc):
            new.add_unredirected_header("Authorization", token)
        return new


class Download:
    def __init__(self, plan: dict[str, Any], token: str) -> None:
        self._plan = plan
        self._token = token
        self._root = BASE / "model"
        self._pause = float(plan.get("retry_seconds", 1.0))
        self._progress = Progress(sum(file["size"] for file in plan["files"]))
        self._opener = urllib.request.build_opener(SameHostRedirects())
        self._checked = Checked(BASE / "run" / "checked.json")

    def run(self) -> None:
        self._check_disk()
        with ThreadPoolExecutor(STREAMS) as pool:
            futures = [pool.submit(self._file, file) for file in self._plan["files"]]
            try:
                for future in futures:
                    future.result()
            except Failed:
                for future in futures:
                    future.cancel()
                raise
            finally:
                self._progress.end()

    def _check_disk(self) -> None:
        have = sum(_size(self._path(file)) or _size(self._part(file)) for file in self._plan["files"])
        need = sum(file["size"] for file in self._plan["files"]) - have
        if need > 0 and shutil.disk_usage(BASE).free < need + MARGIN_BYTES:
            raise Failed("disk_full")

    def _path(self, file: dict[str, Any]) -> Path:
        path = self._root / file["path"]
        if self._root not in path.resolve().parents:
            raise Failed("not_found")
        return path

    def _part(self, file: dict[str, Any]) -> Path:
        path = self._path(file)
        return path.with_name(path.name + ".part")

    def _file(self, file: dict[str, Any]) -> None:
        path, part = self._path(file), self._part(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            if self._checked.knows(path, file) or _digest(path, file) == _wanted(file):
                return self._keep(path, file)
            path.replace(part)
        tries = wrong = 0
        while True:
            before = _size(part)
            try:
                self._stream(file, part)
                if _digest(part, file) == _wanted(file):
                    part.replace(path)
                    return self._keep(path, file)
                part.unlink()
                wrong += 1
                if wrong > 1:
                    raise Failed("checksum_mismatch")
            except Again as again:
                tries = 0 if _size(part) > before else tries + 1
                if tries >= TRIES:
                    raise Failed(again.code) from again
                time.sleep(again.seconds or self._pause * 2 ** max(tries - 1, 0))
            except OSError as error:
                raise Failed("disk_full" if error.errno in {errno.ENOSPC, errno.EDQUOT} else "fetch_crashed") from error

    def _keep(self, path: Path, file: dict[str, Any]) -> None:
        self._checked.add(path, file)
        self._progress.set(file["path"], file["size"])

    def _stream(self, file: dict[str, Any], part: Path) -> None:
        """Append what is missing to `part`. Returns when it has the planned size."""
        have = _size(part)
        if have > file["size"]:
            os.truncate(part, 0)
            have = 0
        self._progress.set(file["path"], have)
        if have == file["size"] and have:
            return
        with self._open(file, have) as answer, part.open("ab") as out:
            if answer.status != 206 or not str(answer.headers.get("Content-Range", "")).startswith(f"bytes {have}-"):
                out.truncate(0)  # the hub does not resume: from the beginning
                have = 0
            self._copy(answer, out, file, have)

    def _copy(self, answer: Any, out: IO[bytes], file: dict[str, Any], have: int) -> None:
        while have < file["size"]:
            try:
                chunk = answer.read(min(CHUNK_BYTES, file["size"] - have))
            except (OSError, http.client.HTTPException) as error:
                raise Again("truncated") from error
            if not chunk:
                raise Again("truncated")
            out.write(chunk)
            have += len(chunk)
            self._progress.set(file["path"], have)

    def _open(self, file: dict[str, Any], have: int) -> Any:
        repo, revision = self._plan["repo_id"], urllib.parse.quote(self._plan["revision"], safe="")
        address = f"{self._plan['endpoint']}/{repo}/resolve/{revision}/{urllib.parse.quote(file['path'])}"
        request = urllib.request.Request(address, headers={"User-Agent": "arrakis", "Accept-Encoding": "identity"})
        if have:
            request.add_header("Range", f"bytes={have}-")
        if self._token:
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            return self._opener.open(request, timeout=TIMEOUT_SECONDS)
        except urllib.error.HTTPError as error:
            raise _refused(error, self._part(file)) from error
        except (OSError, http.client.HTTPException) as error:
            raise Again("hub_unreachable") from error


def _refused(error: urllib.error.HTTPError, part: Path) -> Exception:
    if error.code in {401, 403}:
        return Failed("gated")
    if error.code in {404, 410}:
        return Failed("not_found")
    if error.code == 416:
        part.unlink(missing_ok=True)
        return Again("truncated")
    if error.code == 429 or error.code >= 500:
        return Again("hub_unreachable", _retry_after(error.headers.get("Retry-After")))
    return Failed("hub_unreachable")


def _retry_after(value: str | None) -> float:
    return min(float(value), RETRY_AFTER_CAP_SECONDS) if value and value.isdigit() else 0.0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _wanted(file: dict[str, Any]) -> str:
    return str(file.get("sha256") or file.get("git_sha1"))


def _digest(path: Path, file: dict[str, Any]) -> str:
    """sha256 of the bytes; for a file kept in git itself the blob id, which is the only digest a hub tells of it."""
    size = _size(path)
    digest = hashlib.sha256() if file.get("sha256") else hashlib.sha1(b"blob %d\0" % size)  # noqa: S324
    with path.open("rb") as data:
        while chunk := data.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


class Checked:
    """Which files were checked already, so that a retry does not read hundreds of gigabytes again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = {}
        self._known: dict[str, Any] = found if isinstance(found, dict) else {}

    def knows(self, path: Path, file: dict[str, Any]) -> bool:
        return bool(self._known.get(file["path"]) == self._fact(path, file))

    def add(self, path: Path, file: dict[str, Any]) -> None:
        with self._lock:
            self._known[file["path"]] = self._fact(path, file)
            part = self._path.with_name("checked.json.part")
            part.write_text(json.dumps(self._known), encoding="utf-8")
            part.replace(self._path)

    @staticmethod
    def _fact(path: Path, file: dict[str, Any]) -> list[Any]:
        status = path.stat()
        return [status.st_size, status.st_mtime_ns, _wanted(file)]


def main() -> None:
    os.umask(0o077)
    token = sys.stdin.readline().strip()
    lock = statefile.Held(BASE / "run" / "fetch.lock")
    if not lock.take():
        return
    plan = json.loads((BASE / "plan.json").read_text(encoding="utf-8"))
    statefile.update(BASE, stage="downloading", error_code=None, bytes_total=sum(f["size"] for f in plan["files"]))
    try:
        Download(plan, token).run()
    except Failed as failed:
        statefile.update(BASE, stage="failed", error_code=failed.code)
        return
    statefile.update(BASE, stage="downloaded", error_code=None)


if __name__ == "__main__":
    main()
