"""The page and what it is made of: files beside this one, sent as they are, or compressed."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response

from kb.web.refusals import not_found

router = APIRouter(include_in_schema=False)

_ASSETS = Path(__file__).parent / "assets"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_HEADERS = {
    # A new version of kb may have other files under the same names: a browser asks whether its copy still holds.
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}


@dataclass(frozen=True, slots=True)
class _File:
    """One file, and what it is compressed."""

    media_type: str
    plain: bytes
    compressed: bytes
    digest: str


@router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    """The page."""
    return _sent("index.html", request)


@router.api_route("/favicon.ico", methods=["GET", "HEAD"])
async def icon(request: Request) -> Response:
    """The icon, which browsers ask for under this name."""
    return _sent("icon.svg", request)


@router.api_route("/assets/{name}", methods=["GET", "HEAD"])
async def asset(name: str, request: Request) -> Response:
    """One file of the page."""
    return _sent(name, request)


def _sent(name: str, request: Request) -> Response:
    file = _files().get(name)
    if file is None:
        raise not_found("such file")
    compressed = _takes_gzip(request.headers.get("accept-encoding", ""))
    tag = f'"{file.digest}{"-gz" if compressed else ""}"'
    headers = {**_HEADERS, "ETag": tag}
    known = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    if compressed:
        headers["Content-Encoding"] = "gzip"
    return Response(file.compressed if compressed else file.plain, headers=headers, media_type=file.media_type)


def _takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding header lets a body be compressed."""
    for one in accepted.lower().split(","):
        coding, _, quality = one.partition(";")
        if coding.strip() in ("gzip", "*"):
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


@cache
def _files() -> dict[str, _File]:
    """All files by name, read once: they are part of the package."""
    return {file.name: _read(file) for file in _ASSETS.iterdir() if file.suffix in _TYPES}


def _read(file: Path) -> _File:
    plain = file.read_bytes()
    return _File(_TYPES[file.suffix], plain, gzip.compress(plain, 9, mtime=0), sha256(plain).hexdigest()[:32])
