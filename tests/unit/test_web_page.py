"""What the page is made of: light enough, told apart by its content, in three languages, and never HTML of strings."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from kb.web import page

ASSETS = Path(page.__file__).parent / "assets"
MODULES = sorted(file for file in ASSETS.glob("*.js") if file.name != "marked.js")
KEY = re.compile(r"""^\s*(\w+): "(.*)",$""", re.MULTILINE)
MOST_BYTES = 150_000


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    app = FastAPI()
    app.include_router(page.router)
    with TestClient(app) as made:
        yield made


def words(language: str) -> dict[str, str]:
    return dict(KEY.findall((ASSETS / f"strings.{language}.js").read_text(encoding="utf-8")))


def test_all_of_it_together_is_light() -> None:
    assert sum(file.stat().st_size for file in ASSETS.iterdir() if file.suffix != ".txt") < MOST_BYTES


def test_each_file_that_is_named_is_there() -> None:
    named = set(re.findall(r"/assets/([\w.]+)", (ASSETS / "index.html").read_text()))
    for module in MODULES:
        named |= set(re.findall(r"""["']\./([\w.]+)["']""", module.read_text(encoding="utf-8")))
    assert named <= {file.name for file in ASSETS.iterdir()}
    assert {module.name for module in MODULES} <= named


@pytest.mark.parametrize("module", MODULES, ids=lambda file: file.name)
def test_no_module_makes_html_or_code_of_strings(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|setHTML", text)
    assert len(text.splitlines()) <= 300


@pytest.mark.parametrize("language", ["zh", "ja"])
def test_each_text_is_there_in_each_language_with_the_same_places(language: str) -> None:
    english, other = words("en"), words(language)
    assert set(other) == set(english)
    for name, text in english.items():
        assert set(re.findall(r"\{\w+\}", other[name])) == set(re.findall(r"\{\w+\}", text)), name


def test_each_text_that_is_used_is_there_and_each_that_is_there_is_used() -> None:
    code = "".join(module.read_text(encoding="utf-8") for module in MODULES if not module.name.startswith("strings."))
    used = set(re.findall(r"""\bt\("(\w+)\"""", code))
    assert used <= set(words("en"))
    quoted = set(re.findall(r'"(\w+)"', code)) | {"partly", "supported", "unsupported", "waiting", "failed"}
    assert {name for name in words("en") if not name.startswith("e_")} <= quoted


@pytest.mark.parametrize("path", ["/", "/favicon.ico", "/assets/page.css", "/assets/marked.js"])
def test_a_file_is_sent_compressed_to_who_takes_that_and_not_twice(client: TestClient, path: str) -> None:
    plain = client.get(path, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    packed = client.get(path, headers={"Accept-Encoding": "br;q=1, gzip;q=0.5"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content
    assert int(packed.headers["content-length"]) == len(gzip.compress(plain.content, 9, mtime=0))
    assert plain.headers["etag"] != packed.headers["etag"]
    for response in (plain, packed):
        assert response.headers["vary"] == "Accept-Encoding"
        again = {
            "Accept-Encoding": response.headers.get("content-encoding", ""),
            "If-None-Match": response.headers["etag"],
        }
        unchanged = client.get(path, headers=again)
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        assert unchanged.headers["etag"] == response.headers["etag"]
    assert client.get(path, headers={"If-None-Match": '"of another version"'}).status_code == 200
    assert client.head(path).content == b""


@pytest.mark.parametrize("accepted", ["", "identity", "gzip;q=0", "br", "gzip; q=0.0, br"])
def test_nothing_is_compressed_for_who_does_not_take_it(client: TestClient, accepted: str) -> None:
    assert "content-encoding" not in client.get("/", headers={"Accept-Encoding": accepted}).headers


@pytest.mark.parametrize("name", ["none.js", "..%2Fpage.py", "%2e%2e%2fpage.py", ".", "", "page.py"])
def test_nothing_else_is_sent(name: str) -> None:
    app = FastAPI()
    app.include_router(page.router)
    with TestClient(app, raise_server_exceptions=False) as client:
        assert client.get(f"/assets/{name}").status_code != 200
