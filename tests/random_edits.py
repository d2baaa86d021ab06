"""A folder that is edited at random, in English, Chinese and Japanese, and remembers every text it ever held."""

from __future__ import annotations

import os
import random
from pathlib import Path

from tests.end_to_end._bases import UNREADABLE

_LANGUAGES = (
    (
        "# {title}\n\n",
        "## Part {word}\n\nThis part is about {word} only.\n\n",
        ("ledger", "parcel", "harbour", "crane"),
    ),
    ("# {title}说明\n\n", "## {word}部分\n\n这一部分只讲{word}的事情。\n\n", ("仓库", "包裹", "退款", "码头")),
    (
        "# {title}の手引き\n\n",
        "## {word}について\n\nこの節は{word}だけを説明します。\n\n",
        ("倉庫", "荷物", "返金", "港"),
    ),
)
_NAMES = ("notes", "plan", "指南", "价目表", "手引き", "運用", "a b", "Übersicht")
_MOST_FILES = 12
EDITS = ("add", "rewrite", "insert", "shrink", "delete", "rename", "move", "touch", "twin", "swap", "spoil")


class RandomFolder:
    """Markdown files below `folder`, edited by `choose`."""

    def __init__(self, folder: Path, choose: random.Random) -> None:
        self.folder = folder
        self._choose = choose
        self._counter = 0
        self.texts: set[str] = set()
        """All that any file ever held."""
        folder.mkdir(parents=True)
        for _ in range(8):
            self.edit("add")

    def edit(self, what: str = "") -> str:
        """Do one edit, a random one when `what` is not given; its name."""
        what = what or self._choose.choice(EDITS)
        files = self._files()
        if what in ("add", "twin") and len(files) >= _MOST_FILES:
            what = "delete"
        elif what in ("delete", "spoil") and len(files) <= 4:
            what = "add"
        getattr(self, f"_{what}")(files)
        return what

    def mend(self) -> None:
        """Make every spoilt file readable again."""
        for file in self._files():
            if file.read_bytes() == UNREADABLE:
                self._write(file, self._text())

    def _files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*.md") if path.is_file())

    def _add(self, files: list[Path]) -> None:
        self._write(self._new_name(), self._text())

    def _rewrite(self, files: list[Path]) -> None:
        self._write(self._choose.choice(files), self._text())

    def _insert(self, files: list[Path]) -> None:
        file = self._choose.choice(files)
        text = file.read_bytes()
        if text == UNREADABLE:
            return
        head, _, rest = text.decode().partition("\n\n")
        self._write(file, f"{head}\n\n{self._section()}{rest}")

    def _shrink(self, files: list[Path]) -> None:
        file = self._choose.choice(files)
        text = file.read_bytes()
        if text == UNREADABLE:
            return
        parts = text.decode().split("## ")
        self._write(file, "## ".join(parts[: max(2, len(parts) // 2)]))

    def _delete(self, files: list[Path]) -> None:
        self._choose.choice(files).unlink()

    def _rename(self, files: list[Path]) -> None:
        self._choose.choice(files).rename(self._new_name())

    def _move(self, files: list[Path]) -> None:
        below = self.folder / self._choose.choice(("archive", "资料", "資料"))
        below.mkdir(exist_ok=True)
        file = self._choose.choice(files)
        file.rename(below / file.name)

    def _touch(self, files: list[Path]) -> None:
        os.utime(self._choose.choice(files))

    def _twin(self, files: list[Path]) -> None:
        self._new_name().write_bytes(self._choose.choice(files).read_bytes())

    def _swap(self, files: list[Path]) -> None:
        one, other = self._choose.sample(files, 2)
        texts = one.read_bytes(), other.read_bytes()
        other.write_bytes(texts[0])
        one.write_bytes(texts[1])

    def _spoil(self, files: list[Path]) -> None:
        self._choose.choice(files).write_bytes(UNREADABLE)

    def _new_name(self) -> Path:
        self._counter += 1
        return self.folder / f"{self._choose.choice(_NAMES)} {self._counter}.md"

    def _text(self) -> str:
        head, _, _ = language = self._choose.choice(_LANGUAGES)
        sections = range(self._choose.randint(1, 8))
        return head.format(title=self._choose.choice(_NAMES)) + "".join(self._section(language) for _ in sections)

    def _section(self, language: tuple[str, str, tuple[str, ...]] | None = None) -> str:
        # Few numbers, so that what was there once comes again: its vector is paid for.
        _, form, words = language or self._choose.choice(_LANGUAGES)
        return form.format(word=f"{self._choose.choice(words)} {self._choose.randint(1, 40)}")

    def _write(self, file: Path, text: str) -> None:
        file.write_text(text, encoding="utf-8")
        self.texts.add(text)
