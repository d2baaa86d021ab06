"""Random histories of a folder against a dictionary: after each ingest the collection is what the dictionary is."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.end_to_end._bases import UNREADABLE, CountingEmbedder, Place, a_text

# A pair that differs in case alone where the file system can hold it; names that Unicode spells in two ways.
NAMES = ["a.md", "sub/b.md", "é.md", "ポリシー.markdown", *(["A.md"] if sys.platform == "linux" else [])]
# Patterns and what they match of the names.
PATTERNS: dict[str, Callable[[str], bool]] = {
    "/sub/": lambda name: name == "sub/b.md",
    "*.markdown": lambda name: name == "ポリシー.markdown",
    "a.md": lambda name: name == "a.md",
    "é.md": lambda name: name == "é.md",
}
ANCHOR = "stays.md"
"""Never touched, so that the folder is never empty: what is refused then has tests of its own."""


@dataclass(frozen=True)
class File:
    """A file as the folder has it."""

    kind: Literal["text", "unreadable", "broken link"]
    words: tuple[str, ...]
    form: Literal["NFC", "NFD"] = "NFC"


@dataclass(frozen=True)
class Known:
    """A source as the collection has it; no words when it was never read."""

    words: tuple[str, ...]
    failed: bool


SMALL = {"ingest": {"batch_chunks": 3}}
"""Several batches in a run."""

names, words = st.sampled_from(NAMES), st.lists(st.sampled_from("uvwxyz"), min_size=1, max_size=3, unique=True)
texts = words.map(tuple)
patterns = st.none() | st.sampled_from(list(PATTERNS))


class FolderAndCollection(RuleBasedStateMachine):
    """A folder that is changed, and ingested now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.here = Path(tempfile.mkdtemp())
        self.embedder = CountingEmbedder(batch_texts=3)
        self.place = Place(self.here / "documents", self.here / "data", embedder=self.embedder)
        self.files: dict[str, File] = {}
        self.known: dict[str, Known] = {}
        self.ignored: str | None = None
        self.clock = 1_700_000_000_000_000_000

    def teardown(self) -> None:
        shutil.rmtree(self.here)

    @initialize()
    def first(self) -> None:
        self.place.write(ANCHOR, a_text(["anchor"]))
        self.place.ingest()

    # What happens to a folder

    @rule(name=names, text=texts, form=st.sampled_from(["NFC", "NFD"]))
    def write(self, name: str, text: tuple[str, ...], form: Literal["NFC", "NFD"]) -> None:
        self._put(name, File("text", text, form))

    @rule(name=names)
    def delete(self, name: str) -> None:
        self._take_away(name)

    @rule(name=names)
    def touch(self, name: str) -> None:
        if self._is(name, "text"):
            self._stamp(self._path(name))

    @rule(name=names, to=names)
    def rename(self, name: str, to: str) -> None:
        if self._is(name, "text") and name != to:
            source, file = self._path(name), self.files[name]
            self._take_away(to)
            target = self._path(to, "NFC")
            target.parent.mkdir(exist_ok=True)
            source.rename(target)
            del self.files[name]
            self.files[to] = replace(file, form="NFC")

    @rule(name=names)
    def spell_otherwise(self, name: str) -> None:
        if self._is(name, "text"):
            file = self.files[name]
            form: Literal["NFC", "NFD"] = "NFD" if file.form == "NFC" else "NFC"
            self._path(name).rename(self._path(name, form))
            self.files[name] = replace(file, form=form)

    @rule(name=names, twin=names)
    def copy(self, name: str, twin: str) -> None:
        if self._is(name, "text") and name != twin:
            self._put(twin, replace(self.files[name], form="NFC"))

    @rule(name=names, kind=st.sampled_from(["unreadable", "broken link"]))
    def become_unreadable(self, name: str, kind: Literal["unreadable", "broken link"]) -> None:
        if name in self.files:
            self._put(name, replace(self.files[name], kind=kind))

    @rule(name=names)
    def come_back(self, name: str) -> None:
        if name in self.files:
            self._put(name, replace(self.files[name], kind="text"))

    @rule(pattern=patterns)
    def ignore(self, pattern: str | None) -> None:
        self.ignored = pattern
        self.place.write(".kbignore", pattern or "")

    # What is done about it

    @rule(only=patterns)
    def ingest(self, only: str | None) -> None:
        looked_at = [name for name in NAMES if only is None or PATTERNS[only](name)]
        if only is not None and not any(name in self.files or name in self.known for name in looked_at):
            return  # an error, which has a test of its own
        if only == "/sub/" and not (self.place.documents / "sub").is_dir() and "sub/b.md" not in self.known:
            return
        told = self.place.ingest(only=only or (), dry_run=True, options=SMALL)
        before = len(self.embedder.sent)
        report = self.place.ingest(only=only or (), options=SMALL)
        expected = self._expect(looked_at)
        if only is None:
            expected["unchanged"] += 1  # the anchor
        assert {key: getattr(report, key) for key in expected} == expected
        assert replace(told, dry_run=False, seconds=report.seconds, expected_seconds=None) == report
        assert report.embedded == len(self.embedder.sent) - before
        self._check()

    @rule()
    def rebuild(self) -> None:
        before = len(self.embedder.sent)
        told = self.place.ingest(rebuild=True, dry_run=True, options=SMALL)
        report = self.place.ingest(rebuild=True, options=SMALL)
        assert replace(told, dry_run=False, seconds=report.seconds, expected_seconds=None) == report
        self._expect(NAMES)
        assert report.embedded == len(self.embedder.sent) - before
        self._check()

    # The model

    def _expect(self, looked_at: list[str]) -> dict[str, int]:
        """Bring `known` in step, and count what that takes."""
        counts = dict.fromkeys(("indexed", "unchanged", "removed", "failed"), 0)
        for name in looked_at:
            file, known = self.files.get(name), self.known.get(name)
            if file is None or (self.ignored and PATTERNS[self.ignored](name)):
                counts["removed"] += self.known.pop(name, None) is not None
            elif file.kind == "text":
                same = known == Known(file.words, failed=False)
                counts["unchanged" if same else "indexed"] += 1
                self.known[name] = Known(file.words, failed=False)
            elif file.kind == "unreadable" or known:
                counts["failed"] += 1
                self.known[name] = Known(known.words if known else (), failed=True)
        return counts

    def _check(self) -> None:
        found: dict[str, list[str]] = {}
        for source, chunk, _ in sorted(self.place.contents().values(), key=lambda row: int(row[1].start)):
            found.setdefault(source, []).append(chunk.text.split()[-2])
        expected = {name: list(known.words) for name, known in self.known.items() if known.words}
        assert found == {**expected, ANCHOR: ["anchor"]}
        assert len(self.embedder.sent) == len(set(self.embedder.sent)), "no text is embedded twice, whatever happens"

    def _is(self, name: str, kind: str) -> bool:
        return name in self.files and self.files[name].kind == kind

    def _path(self, name: str, form: Literal["NFC", "NFD"] | None = None) -> Path:
        spelt = unicodedata.normalize(form or self.files[name].form, name)
        return self.place.documents / spelt

    def _put(self, name: str, file: File) -> None:
        self._take_away(name)
        self.files[name] = file
        path = self._path(name)
        path.parent.mkdir(exist_ok=True)
        if file.kind == "broken link":
            path.symlink_to("nowhere.md")
        else:
            path.write_bytes(UNREADABLE if file.kind == "unreadable" else a_text(file.words).encode())
            self._stamp(path)

    def _take_away(self, name: str) -> None:
        if name in self.files:
            self._path(name).unlink()
            del self.files[name]

    def _stamp(self, path: Path) -> None:
        """A time of its own: two writes may be in one tick of the file system's clock."""
        self.clock += 1_000_000_000
        os.utime(path, ns=(self.clock, self.clock))


FolderAndCollection.TestCase.settings = settings(max_examples=8, stateful_step_count=14, deadline=None)
TestFolderAndCollection = FolderAndCollection.TestCase
