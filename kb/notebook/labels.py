"""The few words of ours beside an answer in a notebook, in the language of its question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kb.answers import Verdict
    from kb.languages import Language


@dataclass(frozen=True, slots=True)
class Labels:
    """What has braces is filled by `str.format`."""

    answer: str
    sources: str
    nearest: str
    found: str
    """Takes {count}."""
    page: str
    """Takes {page}."""
    source: str
    similarity: str
    score: str
    verdicts: Mapping[Verdict, str]
    support: str
    """Takes {supported} and {total}."""
    closest: str
    note: str
    cutoff: str
    """Takes {cutoff}."""
    best: str
    """Takes {best}."""
    seconds: str
    """Takes {seconds}."""
    usage: str
    """Takes {requests}, {prompt} and {completion}."""
    estimated: str
    where: str
    """Takes {where}."""


LABELS: Mapping[Language, Labels] = {
    "en": Labels(
        answer="Answer",
        sources="Sources",
        nearest="Nearest passages",
        found="Passages found: {count}",
        page="page {page}",
        source="Source",
        similarity="Similarity",
        score="Score",
        verdicts={"supported": "supported", "partly": "partly supported", "unsupported": "not supported"},
        support="{supported} of {total} claims supported",
        closest="Closest passage",
        note="Note",
        cutoff="cutoff {cutoff}",
        best="best similarity {best}",
        seconds="{seconds} s",
        usage="requests: {requests}, tokens: {prompt} in, {completion} out",
        estimated="estimated",
        where="only where {where}",
    ),
    "zh": Labels(
        answer="回答",
        sources="来源",
        nearest="最接近的段落",
        found="找到的段落：{count}",
        page="第 {page} 页",
        source="来源",
        similarity="相似度",
        score="得分",
        verdicts={"supported": "有依据", "partly": "部分有依据", "unsupported": "无依据"},
        support="{total} 条论断中有 {supported} 条有依据",
        closest="最接近的原文",
        note="说明",
        cutoff="阈值 {cutoff}",
        best="最高相似度 {best}",
        seconds="{seconds} 秒",
        usage="请求 {requests} 次，token：输入 {prompt}，输出 {completion}",
        estimated="估算",
        where="仅限 {where}",
    ),
    "ja": Labels(
        answer="回答",
        sources="出典",
        nearest="最も近い箇所",
        found="見つかった箇所：{count}",
        page="{page} ページ",
        source="出典",
        similarity="類似度",
        score="スコア",
        verdicts={"supported": "根拠あり", "partly": "一部に根拠あり", "unsupported": "根拠なし"},
        support="{total} 件の記述のうち {supported} 件に根拠あり",
        closest="最も近い原文",
        note="注",
        cutoff="しきい値 {cutoff}",
        best="最高の類似度 {best}",
        seconds="{seconds} 秒",
        usage="要求 {requests} 回、トークン：入力 {prompt}、出力 {completion}",
        estimated="推定",
        where="{where} に限る",
    ),
}
