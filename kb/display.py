"""An answer as people see it: plain text, a coloured terminal, notebook markdown, JSON."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.records import Answer, Citation, Dropped, Hit, SearchResult

_QUOTE_LENGTH = 200
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def place(source: str, page: int | None, heading: str | None) -> str:
    """Where something stands: `handbook.pdf, page 3`, or `leave.md › Sick leave`."""
    if page is not None:
        return f"{source}, page {page}"
    return f"{source} › {heading}" if heading else source


def as_text(answer: Answer) -> str:
    """The answer and its sources as plain text."""
    lines = [answer.text]
    if answer.citations:
        lines += ["", "Sources:"]
        lines += [f"  {line}" for line in source_lines(answer.citations)]
    elif not answer.answered and answer.hits:
        lines += ["", "Nearest passages:"]
        lines += [f"  {place(h.source, h.chunk.page, h.chunk.heading)} ({h.similarity:.2f})" for h in answer.hits[:3]]
    lines += [f"Note: {note}" for note in answer.notes]
    return "\n".join(lines)


def source_lines(citations: Sequence[Citation]) -> list[str]:
    """One line for each number and place."""
    seen = dict.fromkeys((c.number, place(c.source, c.page, c.heading)) for c in citations)
    return [f"[{number}] {where}" for number, where in seen]


def as_markdown(answer: Answer) -> str:
    """The answer for a notebook: text, then sources with their quotes; a document's markup is inert."""
    parts = [_inert(answer.text)]
    for citation in answer.citations:
        where = _inert(place(citation.source, citation.page, citation.heading))
        parts.append(f"**[{citation.number}]** {where}\n\n> {_inert(_short(citation.quote))}")
    if not answer.answered and answer.hits:
        nearest = "\n".join(
            f"- {_inert(place(h.source, h.chunk.page, h.chunk.heading))} ({h.similarity:.2f})" for h in answer.hits[:3]
        )
        parts.append(f"Nearest passages:\n\n{nearest}")
    parts += [f"*{_inert(note)}*" for note in answer.notes]
    return "\n\n".join(parts)


def _inert(text: str) -> str:
    """Markup characters of untrusted text, escaped for markdown and HTML."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}()#+!|~$])", r"\\\1", escaped)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _QUOTE_LENGTH else line[: _QUOTE_LENGTH - 1] + "…"


def answer_as_dict(answer: Answer) -> dict[str, Any]:
    """The JSON object of `python -m kb.query --json`."""
    return {
        "question": answer.question,
        "answered": answer.answered,
        "text": answer.text,
        "citations": [
            {
                "number": c.number,
                "source": c.source,
                "page": c.page,
                "heading": c.heading,
                "start": c.start,
                "end": c.end,
                "quote": c.quote,
            }
            for c in answer.citations
        ],
        "hits": [hit_as_dict(hit) for hit in answer.hits],
        "cutoff": answer.cutoff,
        "best_score": answer.best_score,
        "embedder": answer.embedder,
        "generator": answer.generator,
        "seconds": round(answer.seconds, 4),
        "notes": list(answer.notes),
    }


def hit_as_dict(hit: Hit) -> dict[str, Any]:
    """One hit of the JSON object."""
    return {
        "chunk_id": hit.chunk.id,
        "source": hit.source,
        "page": hit.chunk.page,
        "heading": hit.chunk.heading,
        "score": round(hit.score, 6),
        "scored_by": hit.scored_by,
        "similarity": round(hit.similarity, 6),
        "text": hit.chunk.text,
    }


def explanation(hits: Sequence[Hit], dropped: Sequence[Dropped], cutoff: float) -> list[str]:
    """One line for each candidate: what it scored and what became of it."""
    lines = [f"cutoff {cutoff:.3f} on similarity; {len(hits)} kept, {len(dropped)} dropped"]
    for rank, hit in enumerate(hits, start=1):
        lines.append(f"kept {rank:>3}  {_scores(hit)}  {place(hit.source, hit.chunk.page, hit.chunk.heading)}")
    for drop in dropped:
        hit = drop.hit
        lines.append(f"dropped   {_scores(hit)}  {place(hit.source, hit.chunk.page, hit.chunk.heading)}: {drop.reason}")
    return lines


def _scores(hit: Hit) -> str:
    return f"{hit.scored_by} {hit.score:.3f} similarity {hit.similarity:.3f}"


def safe(text: str) -> str:
    """Text of a document or a model without control characters that a terminal would obey."""
    return _CONTROLS.sub("", text)


def print_answer(answer: Answer, documents_dir: Path, *, text_printed: bool = False) -> None:
    """Show an answer on a terminal: wrapped, coloured, sources as links to their files."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    if not text_printed:
        text = Text(safe(answer.text), style="" if answer.answered else "yellow")
        text.highlight_regex(r"\[\d+\]", "bold cyan")
        console.print(text)
    if answer.citations:
        console.print()
    seen = set()
    for citation in answer.citations:
        where = place(citation.source, citation.page, citation.heading)
        if (citation.number, where) in seen:
            continue
        seen.add((citation.number, where))
        line = Text.assemble(
            (f"[{citation.number}] ", "bold cyan"), (safe(where), f"link {_link(documents_dir, citation)}")
        )
        console.print(line)
    if not answer.answered and answer.hits:
        console.print(Text("Nearest passages:", style="dim"))
        for hit in answer.hits[:3]:
            where = place(hit.source, hit.chunk.page, hit.chunk.heading)
            console.print(Text(f"  {safe(where)} ({hit.similarity:.2f})", style="dim"))
    for note in answer.notes:
        console.print(Text(f"Note: {safe(note)}", style="yellow"))


def _link(documents_dir: Path, citation: Citation) -> str:
    address = "file://" + quote(str((documents_dir / citation.source).resolve()))
    return f"{address}#page={citation.page}" if citation.page is not None else address


def print_hits(result: SearchResult) -> None:
    """Show hits without an answer."""
    if not result.hits:
        print(f"nothing at or above the cutoff {result.cutoff:.3f}")
    for rank, hit in enumerate(result.hits, start=1):
        print(f"{rank}. {safe(place(hit.source, hit.chunk.page, hit.chunk.heading))}  ({_scores(hit)})")
        print(f"   {safe(_short(hit.chunk.text))}")
