"""uv, the installer, pinned by version and hash: taken from the package index with the standard library alone."""

from __future__ import annotations

import hashlib
import html.parser
import importlib.util
import io
import json
import os
import platform
import ssl
import stat
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

from arrakis.bootstrap.errors import SetupError, explained

VERSION = "0.13.9"
_WHEELS = {
    ("linux", "x86_64"): (
        "manylinux_2_17_x86_64.manylinux2014_x86_64",
        "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
    ),
    ("linux", "aarch64"): (
        "manylinux_2_28_aarch64",
        "ecb6028d79dc96fbeafffe5c8af62a7099487ebc05a701e76714eebcffd06375",
    ),
    ("darwin", "x86_64"): (
        "macosx_10_12_x86_64",
        "c16ed11e013557536b3e60065f1b912f6407bd6518e041b961e23ef9e6b4fbf5",
    ),
    ("darwin", "arm64"): (
        "macosx_11_0_arm64",
        "66c512266d633bef48384a1f53003f41f2a8e7b36fe6e7fbfd3e0fd52d96fa63",
    ),
}
_JSON = "application/vnd.pypi.simple.v1+json"
_PUBLIC_INDEX = "https://pypi.org/simple"


def index_url() -> str:
    """The package index: a mirror where the environment names one, by uv's names or pip's."""
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        if value := os.environ.get(name, "").strip():
            return value.rstrip("/")
    return _PUBLIC_INDEX


def is_mirrored() -> bool:
    return index_url() != _PUBLIC_INDEX


def uv_binary(folder: Path) -> Path:
    """The pinned uv in `folder`, fetched if it is not there."""
    binary = folder / f"uv-{VERSION}"
    if binary.exists():
        return binary
    tag, sha256 = _wheel_for_this_machine()
    name = f"uv-{VERSION}-py3-none-{tag}.whl"
    print(f"Getting uv {VERSION} ...", flush=True)
    wheel = _read(_address_of(name))
    if hashlib.sha256(wheel).hexdigest() != sha256:
        raise SetupError(f"{name} from {_shown(index_url())} is not what it should be (sha256 differs). Not used.")
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        content = archive.read(f"uv-{VERSION}.data/scripts/uv")
    folder.mkdir(parents=True, exist_ok=True)
    draft = binary.with_name(f"{binary.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.chmod(draft.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    draft.replace(binary)
    return binary


def _wheel_for_this_machine() -> tuple[str, str]:
    system, machine = platform.system().lower(), platform.machine().lower()
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine) if system == "linux" else machine
    if system == "linux" and platform.libc_ver()[0] != "glibc":
        raise SetupError("This Linux is not built on glibc; the PostgreSQL that comes with Arrakis needs it.")
    if (system, machine) not in _WHEELS:
        raise SetupError(f"Arrakis runs on Linux and macOS, on x86-64 and ARM64; this is {system} on {machine}.")
    return _WHEELS[system, machine]


def _address_of(name: str) -> str:
    """Where the index has this file. JSON where it speaks that (PEP 691), else its HTML (PEP 503)."""
    page = f"{index_url()}/uv/"
    answer = _read(page, accept=f"{_JSON}, text/html;q=0.5")
    try:
        links = {str(file["filename"]): str(file["url"]) for file in json.loads(answer)["files"]}
    except (ValueError, KeyError, TypeError):
        links = _Links.of(answer.decode("utf-8", "replace"))
    if name not in links:
        raise SetupError(f"{_shown(page)} does not have {name}. Is PIP_INDEX_URL a complete mirror?")
    return urllib.parse.urljoin(page, links[name])


class _Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}

    @classmethod
    def of(cls, page: str) -> dict[str, str]:
        parser = cls()
        parser.feed(page)
        return parser.found

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href")
        if tag == "a" and address:
            path = urllib.parse.urlsplit(address).path
            self.found[urllib.parse.unquote(path.rsplit("/", 1)[-1])] = address


def _read(address: str, accept: str = "*/*") -> bytes:
    """The body. Proxies are the environment's; a user and password in the address are sent as such."""
    parts = urllib.parse.urlsplit(address)
    if parts.scheme == "file":
        return _read_file(Path(urllib.request.url2pathname(parts.path)))
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=_tls()))
    if parts.username:
        passwords = urllib.request.HTTPPasswordMgrWithPriorAuth()
        host = parts.netloc.rsplit("@", 1)[-1]
        address = urllib.parse.urlunsplit(parts._replace(netloc=host))
        user, password = urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or "")
        passwords.add_password(None, address, user, password, is_authenticated=True)
        opener.add_handler(urllib.request.HTTPBasicAuthHandler(passwords))
    headers = {"Accept": accept, "User-Agent": f"arrakis-setup (uv {VERSION})"}
    request = urllib.request.Request(address, headers=headers)  # noqa: S310  (file: has its own way above)
    try:
        with opener.open(request, timeout=60) as answer:
            body: bytes = answer.read()
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        reason = str(getattr(error, "reason", error))
        sentence = explained(f"error {reason}") or explained("failed to fetch")
        raise SetupError(f"{sentence}\n  ({_shown(address)}: {reason})") from error
    return body


def _read_file(path: Path) -> bytes:
    try:
        return (path / "index.html" if path.is_dir() else path).read_bytes()
    except OSError as error:
        raise SetupError(f"{path} of the package index cannot be read: {error.strerror}.") from error


def has_system_certificates() -> bool:
    """Whether this machine names the authorities that it trusts; a bare container may not."""
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile or (paths.capath and any(Path(paths.capath).iterdir())))


def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    pip = importlib.util.find_spec("pip")
    if not has_system_certificates() and pip is not None and pip.submodule_search_locations:
        bundle = Path(next(iter(pip.submodule_search_locations))) / "_vendor" / "certifi" / "cacert.pem"
        if bundle.is_file():
            context.load_verify_locations(bundle)
    for name in ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE"):
        if (path := os.environ.get(name)) and Path(path).is_file():
            context.load_verify_locations(path)
    return context


def _shown(address: str) -> str:
    """The address without a password in it."""
    parts = urllib.parse.urlsplit(address)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rsplit("@", 1)[-1]))
