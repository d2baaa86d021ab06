"""The page and what it is made of: files beside this one, sent as they are."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse, Response

from kb.web.refusals import not_found

router = APIRouter(include_in_schema=False)

_ASSETS = Path(__file__).parent / "assets"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
# A new version of kb may have other files under the same names: a browser asks whether its copy still holds.
_HEADERS = {"Cache-Control": "no-cache"}


@router.get("/")
async def page() -> Response:
    """The page."""
    return _file("index.html")


@router.get("/favicon.ico")
async def icon() -> Response:
    """The icon, which browsers ask for under this name."""
    return _file("icon.svg")


@router.get("/assets/{name}")
async def asset(name: str) -> Response:
    """One file of the page; only those that are there have names that are known."""
    if name not in {file.name for file in _ASSETS.iterdir() if file.is_file()}:
        raise not_found("such file")
    return _file(name)


def _file(name: str) -> Response:
    file = _ASSETS / name
    return FileResponse(file, media_type=_TYPES[file.suffix], headers=_HEADERS)
