"""Answers made by hand, with everything that an answer can have, in three languages."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from kb.answers import Answer, Citation, Claim, Usage, Verdict
from kb.records import Chunk, Hit


def hit(text: str, source: str, similarity: float = 0.64, page: int | None = None, *heading_path: str) -> Hit:
    chunk = Chunk(f"c-{source}", "d", text, 0, len(text), page, heading_path)
    return Hit(chunk, source, similarity + 0.2, "fused", similarity)


def cite(number: int, source: str, quote: str, page: int | None = None, heading: str | None = None) -> Citation:
    return Citation(number, source, page, heading, 0, len(quote), quote, f"c-{source}")


def claim(text: str, said: str, verdict: Verdict, evidence: tuple[Citation, ...] = (), *reasons: str) -> Claim:
    """A claim that stands in `text` as `said`, cited or not."""
    start = text.index(said)
    return Claim(re.sub(r" ?\[\d\][.,]?", "", said), start, start + len(said), (1,), verdict, 0.5, evidence, reasons)


def answer(text: str, **fields: Any) -> Answer:
    made = Answer("Why?", True, text, (), (), 0.28, 0.64, "e5", "extractive", 0.053)
    return replace(made, **fields)


_REFUNDS = cite(1, "support/refunds.md", "Unused labels can be\nreturned within 30 days.", heading="Refunds")
_KEYS = cite(2, "handbook/security-policy.pdf", "Keys are rotated every 90 days.", 3, "Rotation of keys")
_TEXT = (
    "**Short answer:** an unused label can be returned within 30 days [1], and keys rotate every 60 days [2].\n\n"
    "- Call `refund(label)` [1].\n- Refunds are free of charge [1][2].\n\n```py\nrefund(label[1])\n```"
)
ENGLISH = answer(
    _TEXT,
    question="How long can a label be returned, and how often do keys rotate?",
    citations=(_REFUNDS, _KEYS),
    hits=(
        hit(_REFUNDS.quote, "support/refunds.md", 0.64, None, "Refunds"),
        hit(_KEYS.quote, "handbook/security-policy.pdf", 0.52, 3, "Rotation of keys"),
        hit("…", "operations/a-very-long-folder-name/incident-runbook-for-the-night-shift.md", 0.41, None, "Incidents"),
    ),
    notes=("the answer cited [9], which is none of the sources that were found; it does not count",),
    claims=(
        claim(_TEXT, "an unused label can be returned within 30 days [1],", "supported", (_REFUNDS,)),
        claim(_TEXT, "and keys rotate every 60 days [2].", "unsupported", (_KEYS,), "60 is not in [2]", "[2] has 90"),
        claim(_TEXT, "Call `refund(label)` [1].", "supported", (_REFUNDS,)),
        claim(_TEXT, "Refunds are free of charge [1][2].", "partly", (), "no source says “free of charge”"),
    ),
    usage=Usage(2, 1234, 56, 0.0012, estimated=True),
    where=("kind=markdown",),
)

_CHINESE_QUOTE = cite(1, "zh/退款政策.md", "退款须在 30 天内申请。", heading="退款")
_CHINESE_TEXT = "退款须在 30 天内申请。[1]退款需要 45 天。[1]"
CHINESE = answer(
    _CHINESE_TEXT,
    question="退款政策是什么？",
    citations=(_CHINESE_QUOTE,),
    hits=(hit(_CHINESE_QUOTE.quote, "zh/退款政策.md", 0.6, 2),),
    claims=(
        claim(_CHINESE_TEXT, "退款须在 30 天内申请。[1]", "supported", (_CHINESE_QUOTE,)),
        claim(_CHINESE_TEXT, "退款需要 45 天。[1]", "unsupported", (_CHINESE_QUOTE,), "[1] 中没有 45"),
    ),
)

JAPANESE = answer(
    "この質問への答えは文書の中に見つかりませんでした。",
    question="1998年のワールドカップで優勝したのはどこですか？",
    answered=False,
    hits=(
        hit("パスワードを忘れた場合は再設定します。", "ja/アカウント.pdf", 0.31, 2, "パスワード"),
        hit("返金は30日以内です。", "ja/返金.md", 0.33),
    ),
    notes=("cutoff 0.70 removed all, best 0.33",),
)
