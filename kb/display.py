"""An answer as people see it: plain text, markdown, JSON; see `kb.terminal` and `kb.notebook` for more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from kb.inert import formatted, inert, one_line
from kb.inert import safe as safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.answers import Answer, Citation, Claim, Usage
    from kb.records import Dropped, Hit, SearchResult

_QUOTE_LENGTH = 200
_NEAREST_SHOWN = 3


class PrettyPrinter(Protocol):
    """What IPython shows a value by in a terminal."""

    def text(self, obj: str, /) -> None:
        """Show a text."""


def place(source: str, page: int | None, heading: str | None) -> str:
    """Where something stands: `handbook.pdf, page 3`, or `leave.md › Sick leave`."""
    if page is not None:
        return one_line(f"{source}, page {page}")
    return one_line(f"{source} › {heading}" if heading else source)


def place_of(hit: Hit) -> str:
    """Where a hit stands."""
    return place(hit.source, hit.chunk.page, hit.chunk.heading)


def nearest_hits(answer: Answer) -> Sequence[Hit]:
    """What comes closest to a question that is not answered, the most similar first."""
    nearest = sorted(answer.hits, key=lambda hit: -hit.similarity)
    return [] if answer.answered else nearest[:_NEAREST_SHOWN]


def one_each(citations: Sequence[Citation]) -> list[tuple[str, Citation]]:
    """The first citation of each number and place."""
    seen: dict[tuple[int, str], Citation] = {}
    for citation in citations:
        seen.setdefault((citation.number, place(citation.source, citation.page, citation.heading)), citation)
    return [(where, citation) for (_, where), citation in seen.items()]


def snippet(text: str) -> str:
    """The beginning of a text on one line."""
    line = one_line(text)
    return line if len(line) <= _QUOTE_LENGTH else line[: _QUOTE_LENGTH - 1] + "…"


def checked_lines(answer: Answer) -> list[str]:
    """How many claims are supported, then each that is not, and why; nothing when all are."""
    doubts = [claim for claim in answer.claims if claim.verdict != "supported"]
    if not doubts:
        return []
    total = len(answer.claims)
    return [f"Checked: {total - len(doubts)} of {total} claims supported", *map(_doubt, doubts)]


def _doubt(claim: Claim) -> str:
    """One line on a claim that is not supported."""
    verdict = "partly supported" if claim.verdict == "partly" else "not supported"
    reasons = "; ".join(one_line(reason) for reason in claim.reasons)
    return f"{verdict}: {snippet(claim.text)}" + (f" ({reasons})" if reasons else "")


# ── plain text ──


def as_text(answer: Answer) -> str:
    """The answer, then its sources, one a line."""
    return "\n\n".join([safe(answer.text), *below_text(answer)])


def below_text(answer: Answer) -> list[str]:
    """What stands below the text, block by block: sources, or the nearest passages, and notes."""
    sources = [f"  [{citation.number}] {where}" for where, citation in one_each(answer.citations)]
    nearest = [f"  {place_of(hit)} ({hit.similarity:.2f})" for hit in nearest_hits(answer)]
    checked, *doubts = checked_lines(answer) or [""]
    blocks = [
        ["Sources:", *sources] if sources else [],
        [checked, *(f"  {doubt}" for doubt in doubts)] if checked else [],
        ["Nearest passages:", *nearest] if nearest else [],
        [f"Note: {one_line(note)}" for note in answer.notes],
    ]
    return ["\n".join(block) for block in blocks if block]


def hits_as_text(result: SearchResult) -> str:
    """Hits without an answer, best first, each with the beginning of its text."""
    lines = [f"{i}. {place_of(hit)}  ({scores(hit)})\n   {snippet(hit.chunk.text)}" for i, hit in _ranked(result.hits)]
    return "\n".join(lines or [nothing_kept(result)])


def _ranked(hits: Sequence[Hit]) -> list[tuple[int, Hit]]:
    return list(enumerate(hits, start=1))


def nothing_kept(result: SearchResult) -> str:
    """Say that no hit reached the cutoff, and what came nearest to it; or that none that did was kept."""
    if result.best_score is not None and result.best_score >= result.cutoff:
        return "no candidate was kept; --explain shows why"
    best = "" if result.best_score is None else f"; the best similarity was {result.best_score:.3f}"
    return f"nothing at or above the cutoff {result.cutoff:.3f}{best}"


def explanation(hits: Sequence[Hit], dropped: Sequence[Dropped], cutoff: float, where: Sequence[str] = ()) -> list[str]:
    """Two lines for each candidate: what it scored and what became of it, and what each stage said."""
    lines = [f"only where {one_line(', '.join(where))}"] if where else []
    lines += [f"cutoff {cutoff:.3f} on similarity; {len(hits)} kept, {len(dropped)} dropped"]
    for rank, hit in _ranked(hits):
        lines += [f"kept {rank:>3}  {scores(hit)}  {place_of(hit)}", *_steps(hit)]
    for drop in dropped:
        lines += [f"dropped   {scores(drop.hit)}  {place_of(drop.hit)}: {one_line(drop.reason)}", *_steps(drop.hit)]
    return lines


def usage_line(usage: Usage) -> str:
    """What chat models were asked, on one line."""
    about = "about " if usage.estimated else ""
    counts = [
        f"{usage.requests:,} request{'s' if usage.requests != 1 else ''} to chat models",
        f"{about}{usage.prompt_tokens:,} tokens of prompt",
        f"{about}{usage.completion_tokens:,} of reply",
        "the price is not known" if usage.dollars is None else f"{about}${usage.dollars:.6f}",
    ]
    return ", ".join(counts)


def _steps(hit: Hit) -> list[str]:
    """What each stage said, on a line of its own below."""
    steps = [f"{step.stage} {step.score:.3f} (rank {step.rank})" for step in hit.steps]
    return [f"{'':10}{' → '.join(steps)}"] if steps else []


def scores(hit: Hit) -> str:
    """Who scored a hit, and how high."""
    return f"{hit.scored_by} {hit.score:.3f} similarity {hit.similarity:.3f}"


# ── a notebook ──


def as_markdown(answer: Answer) -> str:
    """The answer for a notebook: its text, then its sources with their quotes. A document's markup is inert."""
    parts = [formatted(answer.text)]
    for citation in answer.citations:
        where = inert(place(citation.source, citation.page, citation.heading))
        parts.append(f"**[{citation.number}]** {where}\n\n> {inert(snippet(citation.quote))}")
    checked = [inert(line) for line in checked_lines(answer)]
    if checked:
        parts.append("\n".join([checked[0], "", *(f"- {doubt}" for doubt in checked[1:])]))
    nearest = [f"- {inert(place_of(hit))} ({hit.similarity:.2f})" for hit in nearest_hits(answer)]
    if nearest:
        parts.append("Nearest passages:\n\n" + "\n".join(nearest))
    parts += [f"*Note:* {inert(one_line(note))}" for note in answer.notes]
    return "\n\n".join(parts)


def hits_as_markdown(result: SearchResult) -> str:
    """Hits without an answer, best first, each with the beginning of its text."""
    parts = [
        f"**{i}.** {inert(place_of(hit))} ({scores(hit)})\n\n> {inert(snippet(hit.chunk.text))}"
        for i, hit in _ranked(result.hits)
    ]
    notes = [f"*Note:* {inert(one_line(note))}" for note in result.notes]
    return "\n\n".join([*(parts or [inert(nothing_kept(result))]), *notes])


# ── JSON ──


def answer_as_dict(answer: Answer) -> dict[str, Any]:
    """The JSON object of `python -m kb.query --json`."""
    return {
        "question": answer.question,
        "answered": answer.answered,
        "text": answer.text,
        "citations": [citation_as_dict(citation) for citation in answer.citations],
        "claims": [claim_as_dict(claim) for claim in answer.claims],
        "support": _rounded(answer.support),
        "hits": [hit_as_dict(hit) for hit in answer.hits],
        "cutoff": answer.cutoff,
        "best_score": _rounded(answer.best_score),
        "embedder": answer.embedder,
        "generator": answer.generator,
        "seconds": round(answer.seconds, 4),
        "usage": None if answer.usage is None else usage_as_dict(answer.usage),
        **_filter(answer.where),
    }


def citation_as_dict(citation: Citation) -> dict[str, Any]:
    """One citation of the JSON object."""
    return {
        "number": citation.number,
        "source": citation.source,
        "page": citation.page,
        "heading": citation.heading,
        "start": citation.start,
        "end": citation.end,
        "quote": citation.quote,
    }


def claim_as_dict(claim: Claim) -> dict[str, Any]:
    """One claim of the JSON object."""
    return {
        "text": claim.text,
        "start": claim.start,
        "end": claim.end,
        "numbers": list(claim.numbers),
        "verdict": claim.verdict,
        "score": _rounded(claim.score),
        "evidence": [citation_as_dict(citation) for citation in claim.evidence],
        "reasons": list(claim.reasons),
    }


def search_as_dict(result: SearchResult) -> dict[str, Any]:
    """The JSON object of `--search-only`."""
    return {
        "question": result.question,
        "hits": [hit_as_dict(hit) for hit in result.hits],
        "cutoff": result.cutoff,
        "best_score": _rounded(result.best_score),
        **_filter(result.where),
    }


def usage_as_dict(usage: Usage) -> dict[str, Any]:
    """What chat models were asked, of the JSON object."""
    return {
        "requests": usage.requests,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "dollars": _rounded(usage.dollars),
        "estimated": usage.estimated,
    }


def _filter(where: Sequence[str]) -> dict[str, Any]:
    """The filter, when there is one."""
    return {"where": list(where)} if where else {}


def hit_as_dict(hit: Hit) -> dict[str, Any]:
    """One hit of the JSON object."""
    return {
        "chunk_id": hit.chunk.id,
        "source": hit.source,
        "page": hit.chunk.page,
        "heading": hit.chunk.heading,
        "score": _rounded(hit.score),
        "scored_by": hit.scored_by,
        "similarity": _rounded(hit.similarity),
        "text": hit.chunk.text,
    }


def explanation_as_dict(hits: Sequence[Hit], dropped: Sequence[Dropped], notes: Sequence[str]) -> dict[str, Any]:
    """What `--explain` adds to a JSON object: all candidates, by chunk what each stage said of it, and notes."""
    return {
        "dropped": [{**hit_as_dict(d.hit), "reason": d.reason} for d in dropped],
        "steps": {hit.chunk.id: _steps_as_list(hit) for hit in (*hits, *(d.hit for d in dropped))},
        "notes": list(notes),
    }


def _steps_as_list(hit: Hit) -> list[dict[str, Any]]:
    return [{"stage": step.stage, "rank": step.rank, "score": _rounded(step.score)} for step in hit.steps]


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, 6)
