"""Servers of small bases in three languages, as the browser's tests ask them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kb import KnowledgeBase
from tests.pdf_writer import pdf
from tests.web_server import WebServer, serving

LEAVE = (
    "# Turtles\n\n"
    + "".join(f"🐢 Turtle {number} walks slowly.\n\n" for number in range(200))
    + "# Leave\n\nEmployees have 28 days of leave a year. Unused days expire in March.\n"
)
"""Behind characters that JavaScript counts twice, and far from the top."""
DOCUMENTS: Mapping[str, str] = {
    "api/limits.md": "# Limits\n\nA 429 means too many requests. Wait as long as Retry-After says.\n",
    "handbook/leave.md": LEAVE,
    "zh/退款.md": "# 退款政策\n\n退款在七天内退回原支付方式。运费不予退还。\n",
    "ja/休暇.md": "# 休暇規程\n\n有給休暇は年に二十日あります。申請は三日前までに行います。\n",
}
PARCELS = pdf(
    [
        ["Depot guide", "", "The depot opens at eight o'clock."],
        ["Weighing", "", "Parcels are weighed by the turquoise scale.", "The scale is checked on Mondays."],
    ],
    title="Depot guide",
)
QUESTIONS = {
    "en": ("How many days of leave do employees have?", "handbook/leave.md", "Employees have 28 days of leave a year."),
    "zh": ("退款在几天内退回原支付方式？", "zh/退款.md", "退款在七天内退回原支付方式。"),
    "ja": ("有給休暇は何日ありますか？", "ja/休暇.md", "有給休暇は年に二十日あります。"),
}


def _ingest(folder: Path, collection: str, documents: Mapping[str, str | bytes]) -> None:
    root = folder / ("documents" if collection == "knowledge_base" else collection)
    for name, content in documents.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    settings: dict[str, Any] = {"documents_dir": root, "data_dir": folder / "data", "collection": collection}
    with KnowledgeBase.open(**settings, embedding={"use": "hashing"}, store={"use": "chroma"}) as base:
        base.ingest()


@contextmanager
def serving_documents(
    folder: Path,
    documents: Mapping[str, str | bytes],
    config: str = "",
    *,
    others: Mapping[str, Mapping[str, str | bytes]] = {},
    env: Mapping[str, str | None] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Iterator[WebServer]:
    """Serve documents that have been read already; `others` are those of further collections."""
    for collection, held in {"knowledge_base": documents, **others}.items():
        if held:
            _ingest(folder, collection, held)
    web = f"[web]\ningest_at_start = false\nworkers = 1\n{config}"
    with serving(folder, web, env={"KB_STORE__USE": "chroma", **(env or {})}, headers=headers) as server:
        yield server
