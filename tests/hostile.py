"""A loader that does what the file says, however bad, dropped as a new file into a copy of the package."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.commands import SERVER

PROJECT = Path(__file__).parents[1]

LOADER = r'''
"""Does what a file says."""

import ctypes
import mmap
import os
import re
import struct
import sys
import time
from pathlib import Path

from pydantic_core import to_json

from kb.components import Parts
from kb.loading._files import document_id
from kb.records import Block, Document, Heading, Page
from kb.settings import ComponentOptions

SUFFIXES = (".deed",)
VERSION = 1
PACKAGES = ()
KEPT = []


class Options(ComponentOptions):
    """What the option `say` holds can be read back."""

    say: str = ""


class DeedLoader:
    def __init__(self, options):
        self.options = options

    def load(self, path: Path, relative: str) -> Document:
        deed, _, rest = path.read_text(encoding="utf-8").partition(" ")
        self.folder = path.parent
        path.with_suffix(".pid").write_text(str(os.getpid()))
        return getattr(self, deed)(relative, rest)

    def give(self, relative, text):
        return Document(document_id(relative), relative, text, "", "deed")

    def option(self, relative, rest):
        return self.give(relative, self.options.say)

    def pid(self, relative, rest):
        return self.give(relative, str(os.getpid()))

    def everything(self, relative, rest):
        return Document(
            document_id(relative), relative, "第一页 \u2028😀\n\nNUL-free ページ", "题 \"名\"", "deed",
            {"a": 1, "b": 1.0, "c": True, "d": "はい", "e": float("nan"), "f": float("-inf"), "g": 10**30},
            (Page(1, 0, 6), Page(2, 8, 8)), (Heading(2, "第一页", 0, 3),), (Block("table", 8, 12),), ("gone: \\ ü",),
        )

    def sleep(self, relative, seconds):
        time.sleep(float(seconds))
        return self.give(relative, "Slept, and found the word awake.")

    def meet(self, relative, count):
        pids = set()
        while len(pids) < int(count):
            time.sleep(0.05)
            pids = {file.read_text() for file in self.folder.glob("*.pid")}
        return self.give(relative, "They met.")

    def hang(self, relative, rest):
        time.sleep(600)

    def spin(self, relative, rest):
        re.match("(a+)+$", "a" * 60 + "b")  # holds the interpreter, so that no other thread of it runs

    def segfault(self, relative, rest):
        ctypes.string_at(0)

    def exit(self, relative, rest):
        os._exit(3)

    def kill(self, relative, rest):
        os.kill(os.getpid(), 9)

    def leave(self, relative, rest):
        sys.exit("enough")

    def memory(self, relative, rest):
        KEPT.append([])
        while True:
            KEPT[-1].append(bytearray(10_000_000))

    def wrapped_memory(self, relative, rest):
        from kb.errors import LoadError

        try:
            bytearray(10**13)
        except MemoryError as error:
            raise LoadError(relative, "it is damaged") from error

    def native_memory(self, relative, rest):
        taken = [mmap.mmap(-1, 100_000_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in range(100)]
        ctypes.string_at(0)

    def keep(self, relative, megabytes):
        KEPT.append(b"x" * (int(megabytes) * 1_000_000))
        return self.pid(relative, "")

    def explode(self, relative, megabytes):
        return self.give(relative, "boom " * (int(megabytes) * 200_000))

    def head(self, relative, count):
        text = "# a\n" * int(count)
        headings = tuple(Heading(1, "a", at, at + 3) for at in range(0, len(text), 4))
        return Document(document_id(relative), relative, text, "", "deed", headings=headings)

    def noise(self, relative, text):
        print("noise of Python")
        print("noise of Python", file=sys.stderr)
        os.write(1, b"noise of C")
        os.write(2, b"noise of C")
        sys.stdin.read()
        return self.give(relative, text)

    def wrong_span(self, relative, rest):
        return Document(document_id(relative), relative, "short", "", "deed", headings=(Heading(1, "x", 3, 400),))

    def surrogate(self, relative, rest):
        return self.give(relative, "half \ud800 a pair")

    def garbage(self, relative, rest):
        for pipe in range(3, 20):
            try:
                os.write(pipe, b"\xff" * 4000)
            except OSError:
                pass
        time.sleep(600)

    def forge(self, relative, other):
        content = to_json(self.give(other, "words that somebody else wrote"))
        for pipe in range(3, 20):
            try:
                os.write(pipe, struct.pack("!c?Q", b"D", True, len(content)) + content)
            except OSError:
                pass
        time.sleep(600)


def build(options: Options, parts: Parts) -> DeedLoader:
    """Build the loader."""
    return DeedLoader(options)
'''


def copy_with_loader(folder: Path) -> Path:
    """A copy of the packages in `folder`, with the loader `deed`; it comes first on a path that begins with it."""
    for package in ("kb", "pipelines"):
        # With what is compiled already, which stays valid as files keep their times: each process starts sooner.
        shutil.copytree(PROJECT / package, folder / package, ignore=shutil.ignore_patterns("*.pyc.*"))
    (folder / "kb" / "loading" / "deed.py").write_text(LOADER, encoding="utf-8")
    return folder


def is_running(pid_file: Path) -> bool:
    """Whether the process that began a file still exists, also as a zombie."""
    return Path("/proc", pid_file.read_text()).exists()


def children() -> list[int]:
    """The processes that this one has started and not yet waited for, but for the one that runs commands."""
    tasks = Path("/proc/self/task").glob("*/children")
    return [int(pid) for task in tasks for pid in task.read_text().split() if int(pid) != SERVER.pid]
