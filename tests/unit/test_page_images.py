"""Processes that look at pages: what a hostile file does costs its page; there are few, and pictures are kept."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import zlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pypdf
import pytest

from kb.ingest import _worker_main
from kb.ingest.walk import FoundFile
from kb.settings import LoadingSection
from kb.web import page_images
from kb.web.page_images import MOST_AT_ONCE, PageImages
from kb.web.refusals import Refusal
from tests.hostile import children
from tests.page_pictures import PNG
from tests.pdf_writer import pdf

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and processes as Linux has them")

Result = TypeVar("Result")
Write = Callable[[str, bytes], FoundFile]

SECONDS = 6.0
"""A busy machine takes its time for a sound page as well."""


def looked(work: Callable[[PageImages], Coroutine[Any, Any, Result]], **settings: Any) -> Result:
    """What comes of looking at pages, in a loop of its own."""
    images = PageImages(LoadingSection(**settings))
    try:
        return asyncio.run(work(images))
    finally:
        images.close()


@pytest.fixture
def file(tmp_path: Path) -> Write:
    def write(name: str, content: bytes) -> FoundFile:
        path = tmp_path / name
        path.write_bytes(content)
        return FoundFile(path, name, len(content), path.stat().st_mtime_ns)

    return write


def processes() -> set[int]:
    return set(children())


def test_a_page_that_takes_too_long_is_given_up_and_the_next_one_is_shown(file: Write) -> None:
    slow, sound = file("slow.pdf", _slow()), file("sound.pdf", pdf([["sound"]]))

    async def work(images: PageImages) -> bytes:
        with pytest.raises(Refusal, match=f"slow.pdf.* {SECONDS:g} seconds") as caught:
            await images.picture(slow, 1, 2000)
        assert (caught.value.status, caught.value.error) == (422, "unreadable")
        return await images.picture(sound, 1, 500)

    assert looked(work, max_seconds=SECONDS).startswith(PNG)


def test_while_one_page_takes_long_another_is_shown(file: Write) -> None:
    slow, sound = file("slow.pdf", _slow()), file("sound.pdf", pdf([["sound"]]))

    async def work(images: PageImages) -> bool:
        await asyncio.gather(*(images.picture(sound, 1, 400 + width) for width in range(MOST_AT_ONCE)))
        drawing = asyncio.ensure_future(images.picture(slow, 1, 2000))
        await asyncio.sleep(0)
        await images.picture(sound, 1, 500)
        is_drawing = not drawing.done()
        drawing.cancel()
        return is_drawing

    assert looked(work)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("damaged.pdf", b"%PDF-1.7 nothing"),
        ("empty.pdf", b""),
        ("说明.pdf", "这不是 PDF".encode()),
        ("案内.pdf", "これは PDF ではありません".encode()),
    ],
)
def test_what_cannot_be_opened_is_refused_with_its_name(file: Write, name: str, content: bytes) -> None:
    damaged = file(name, content)

    async def work(images: PageImages) -> None:
        for look in (lambda: images.picture(damaged, 1, 500), lambda: images.places(damaged, 1, "文", 0, 1)):
            with pytest.raises(Refusal, match=name) as caught:
                await look()
            assert (caught.value.status, caught.value.error) == (422, "unreadable")

    looked(work)


def test_a_page_behind_the_last_one_is_refused(file: Write) -> None:
    one = file("one.pdf", pdf([["one"]]))

    async def work(images: PageImages) -> None:
        with pytest.raises(Refusal, match="1 pages"):
            await images.picture(one, 2, 500)

    looked(work)


def test_a_file_that_needs_an_unknown_password_is_refused(tmp_path: Path) -> None:
    writer = pypdf.PdfWriter()
    writer.add_blank_page(100, 100)
    writer.encrypt(user_password="secret", owner_password="owner", algorithm="AES-256")
    writer.write(tmp_path / "locked.pdf")
    locked = FoundFile(tmp_path / "locked.pdf", "locked.pdf", 0, 0)

    async def work(images: PageImages) -> None:
        with pytest.raises(Refusal, match="password"):
            await images.picture(locked, 1, 500)

    looked(work)
    assert looked(lambda images: images.picture(locked, 1, 500), pdf={"passwords": ["secret"]}).startswith(PNG)


def test_a_page_that_takes_too_much_memory_is_refused_and_the_next_one_is_shown(file: Write) -> None:
    sound, large = file("sound.pdf", pdf([["sound"]])), file("large.pdf", _of_blanks(200 * 1024 * 1024))

    async def work(images: PageImages) -> bytes:
        with pytest.raises(Refusal, match="memory") as caught:
            await images.picture(large, 1, 500)
        assert (caught.value.status, caught.value.error) == (422, "unreadable")
        return await images.picture(sound, 1, 500)

    assert looked(work, max_memory_megabytes=100).startswith(PNG)


def test_a_process_that_was_killed_is_replaced(file: Write) -> None:
    sound = file("sound.pdf", pdf([["sound"]]))
    before = processes()

    async def work(images: PageImages) -> bytes:
        await images.picture(sound, 1, 500)
        (started,) = processes() - before
        os.kill(started, signal.SIGKILL)
        os.waitid(os.P_PID, started, os.WEXITED | os.WNOWAIT)
        return await images.picture(sound, 1, 501)

    assert looked(work).startswith(PNG)


def test_few_processes_look_at_many_pages_and_none_is_left(file: Write) -> None:
    sound = file("sound.pdf", pdf([["sound"], ["页"], ["ページ"]]))
    before = processes()

    async def work(images: PageImages) -> set[int]:
        await asyncio.gather(
            *(images.picture(sound, number, 300 + width) for number in (1, 2, 3) for width in range(6))
        )
        return processes() - before

    assert 1 <= len(looked(work)) <= MOST_AT_ONCE
    assert processes() - before == set()


def test_a_picture_is_drawn_once_and_anew_when_the_file_has_changed(file: Write) -> None:
    sound = file("sound.pdf", pdf([["sound"]]))

    async def work(images: PageImages) -> None:
        first = await images.picture(sound, 1, 500)
        sound.path.write_bytes(pdf([["another one"]]))
        assert await images.picture(sound, 1, 500) is first  # by what the caller says of the file
        status = sound.path.stat()
        changed = FoundFile(sound.path, "sound.pdf", status.st_size, status.st_mtime_ns + 1)
        assert await images.picture(changed, 1, 500) != first

    looked(work)


def test_kept_pictures_have_a_limit_and_those_asked_for_last_stay(file: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = file("sound.pdf", pdf([["sound"], ["sound"], ["sound"]]))

    async def work(images: PageImages) -> None:
        one = await images.picture(sound, 1, 500)
        monkeypatch.setattr(page_images, "_MOST_KEPT_BYTES", 2 * len(one) + 10)
        two = await images.picture(sound, 2, 500)
        assert await images.picture(sound, 1, 500) is one
        await images.picture(sound, 3, 500)
        assert await images.picture(sound, 1, 500) is one
        assert await images.picture(sound, 2, 500) is not two

    looked(work)


def test_beyond_some_that_wait_pages_are_refused_for_a_moment(file: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = file("sound.pdf", pdf([["sound"]]))
    monkeypatch.setattr(page_images, "_MOST_WAITING", 3)

    async def work(images: PageImages) -> list[bytes | BaseException]:
        asked = [images.picture(sound, 1, 300 + width) for width in range(MOST_AT_ONCE + 4)]
        return await asyncio.gather(*asked, return_exceptions=True)

    *shown, refused = looked(work)
    assert all(isinstance(one, bytes) for one in shown)
    assert isinstance(refused, Refusal)
    assert (refused.status, refused.retry_seconds) == (503, 1.0)


LIAR = """
import os, struct, sys
answers = os.fdopen(os.dup(1), "wb")
for kind, line in zip(b"RPPP", sys.stdin.buffer):
    content = {answer!r} if kind == ord("P") else b""
    answers.write(struct.pack("!c?Q", bytes([kind]), True, len(content)) + content)
    answers.flush()
"""


@pytest.mark.parametrize(
    "answer",
    [
        b"no JSON",
        b"{}",
        b"[" * 100_000,
        b'{"width": 1, "height": NaN, "quotes": []}',
        b'{"width": 1, "height": 1, "quotes": [{"x": -1, "y": 0, "width": 1, "height": 1}]}',
        b'{"width": 1, "height": 1, "quotes": "<script>"}',
        b"<svg onload='alert(1)'/>",
    ],
)
def test_what_a_process_says_is_passed_on_only_when_it_is_what_was_asked_for(
    file: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    sound = file("sound.pdf", pdf([["sound"]]))
    (tmp_path / "liar.py").write_text(LIAR.format(answer=answer))
    monkeypatch.setattr(_worker_main, "__file__", str(tmp_path / "liar.py"))

    async def work(images: PageImages) -> None:
        with pytest.raises(Refusal, match="report this file"):
            await images.places(sound, 1, "sound", 0, 5)
        with pytest.raises(Refusal, match="report this file"):
            await images.picture(sound, 1, 500)

    looked(work)


def _slow() -> bytes:
    """A PDF of a page on which 20,000 discs are drawn, one over the other; that takes minutes and no memory."""
    return _of_content(zlib.compress(b"0 50 m 0 99 99 99 99 50 c 99 0 0 0 0 50 c f " * 20_000))


def _of_blanks(length: int) -> bytes:
    """A PDF of a page whose content unpacks to so many blanks."""
    packer = zlib.compressobj(1)
    megabyte = b" " * 1024 * 1024
    return _of_content(b"".join([*(packer.compress(megabyte) for _ in range(length // len(megabyte))), packer.flush()]))


def _of_content(packed: bytes) -> bytes:
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(packed), packed),
    )
    numbered = b"".join(b"%d 0 obj\n%s\nendobj\n" % (number, body) for number, body in enumerate(objects, 1))
    return b"%PDF-1.7\n" + numbered + b"trailer<</Size 5/Root 1 0 R>>\n%%EOF\n"
