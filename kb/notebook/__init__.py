"""An answer, or what a search found, as a notebook shows it: one piece of HTML that needs nothing else.

It holds its own style, scoped by a class, and no script, address or id, so that any number of them stand on one
page and none loads anything. Viewers that take the style out show the same words in the same order.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from kb.display import nearest_hits, nothing_kept, snippet
from kb.inert import one_line
from kb.languages import question_language
from kb.notebook.labels import LABELS, Labels
from kb.notebook.text import answer_html, attribute, shown, verdict_html

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kb.answers import Answer, Citation, Claim, Usage
    from kb.records import Hit, SearchResult

# What MathJax leaves alone, in its versions 2 and 3 and in 4.
_NO_FORMULAS = "tex2jax_ignore mathjax_ignore"


def as_html(answer: Answer) -> str:
    """The answer with its markers and verdicts; below it, folded, its quotes and what was found."""
    labels = LABELS[question_language(answer.question)]
    text = answer_html(answer.text, _marker_titles(answer.citations, labels), answer.claims, labels)
    return _framed(
        answer.question,
        "kb-answer" if answer.answered else "kb-answer kb-none",
        f'<div class="kb-text">{text}</div>',
        _checked(answer.claims, labels),
        _titled(labels.sources, _citations(answer.citations, labels)),
        _titled(labels.nearest, [_passage(hit, f"{hit.similarity:.2f}", labels) for hit in nearest_hits(answer)]),
        *_notes(answer.notes, labels),
        _table(answer.hits, labels) if answer.answered else "",
        _footer(
            f"{answer.generator} · {answer.embedder}",
            labels.seconds.format(seconds=f"{answer.seconds:.2f}"),
            *_limits(answer.cutoff, answer.best_score, answer.where, labels),
            _usage(answer.usage, labels) if answer.usage else "",
        ),
    )


def search_as_html(result: SearchResult) -> str:
    """What a search found, best first, each passage folded."""
    labels = LABELS[question_language(result.question)]
    passages = [
        _passage(hit, f"{hit.similarity:.2f} · {_score(hit)}", labels, f"{rank}. ")
        for rank, hit in enumerate(result.hits, start=1)
    ]
    return _framed(
        result.question,
        "kb-answer",
        "" if passages else f'<p class="kb-text">{shown(nothing_kept(result))}</p>',
        _titled(labels.found.format(count=len(passages)), passages),
        *_notes(result.notes, labels),
        _footer(*_limits(result.cutoff, result.best_score, result.where, labels)),
    )


def _framed(question: str, classes: str, *parts: str) -> str:
    language = question_language(question)
    return (
        f'<div class="{classes} {_NO_FORMULAS}" lang="{language}" role="group" aria-label="{LABELS[language].answer}">'
        f"<style>{_style()}</style>"
        f'<p class="kb-question" dir="auto"><strong>{shown(one_line(question))}</strong></p>{"".join(parts)}</div>'
    )


@cache
def _style() -> str:
    sheet = (files("kb.notebook") / "style.css").read_text(encoding="utf-8")
    return " ".join(line.strip() for line in sheet.splitlines() if not line.lstrip().startswith("/*"))


def _titled(title: str, blocks: Sequence[str]) -> str:
    return f'<p class="kb-title">{title}</p>{"".join(blocks)}' if blocks else ""


# ── quotes and passages ──


def _marker_titles(citations: Iterable[Citation], labels: Labels) -> dict[int, str]:
    """Of each number, for its marker's title, where its first quote stands, and the quote."""
    titles: dict[int, str] = {}
    for citation in citations:
        where = " · ".join([citation.source, *_places(citation.page, citation.heading, labels)])
        titles.setdefault(citation.number, attribute(where, f"“{snippet(citation.quote)}”"))
    return titles


def _citations(citations: Iterable[Citation], labels: Labels) -> list[str]:
    """Each number and place, folded, with all that is quoted from there."""
    quotes: dict[str, list[str]] = {}
    for citation in citations:
        where = _where(citation.source, citation.page, citation.heading, labels)
        summary = f'<span class="kb-number">[{citation.number}]</span> {where}'
        quotes.setdefault(summary, []).append(citation.quote)
    return [_folded(summary, *quoted) for summary, quoted in quotes.items()]


def _passage(hit: Hit, scores: str, labels: Labels, before: str = "") -> str:
    where = _where(hit.source, hit.chunk.page, hit.chunk.heading, labels)
    return _folded(f'{before}{where} <span class="kb-quiet">({shown(scores)})</span>', hit.chunk.text)


def _folded(summary: str, *quotes: str) -> str:
    # The language chooses between the Chinese and the Japanese form of a character.
    quoted = [
        f'<blockquote lang="{question_language(quote)}" dir="auto">{shown(quote)}</blockquote>' for quote in quotes
    ]
    return f"<details><summary>{summary}</summary>{''.join(quoted)}</details>"


def _where(source: str, page: int | None, heading: str | None, labels: Labels) -> str:
    places = "".join(f" · {shown(place)}" for place in _places(page, heading, labels))
    return f'<bdi class="kb-source">{shown(one_line(source))}</bdi><bdi class="kb-quiet">{places}</bdi>'


def _places(page: int | None, heading: str | None, labels: Labels) -> list[str]:
    """Page and heading, where there are any, each on one line."""
    page_named = [] if page is None else [labels.page.format(page=page)]
    return page_named + ([one_line(heading)] if heading else [])


# ── verdicts ──


def _checked(claims: Sequence[Claim], labels: Labels) -> str:
    """How many claims are supported; those that are not, with the reasons and the closest passage."""
    if not claims:
        return ""
    supported = sum(claim.verdict == "supported" for claim in claims)
    doubts = "".join(_doubt(claim, labels) for claim in claims if claim.verdict != "supported")
    line = labels.support.format(supported=supported, total=len(claims))
    return f'<p class="kb-quiet kb-support">{line}</p>' + (f'<ul class="kb-doubts">{doubts}</ul>' if doubts else "")


def _doubt(claim: Claim, labels: Labels) -> str:
    why = " · ".join([labels.verdicts[claim.verdict], *map(one_line, claim.reasons)])
    closest = ""
    if claim.evidence:
        citation = claim.evidence[0]
        where = _where(citation.source, citation.page, citation.heading, labels)
        closest = _folded(f"{labels.closest}: [{citation.number}] {where}", citation.quote)
    sign = verdict_html(claim.verdict, labels)
    said = f'<span dir="auto">{shown(one_line(claim.text))}</span>'
    return f'<li>{sign} {said}<br><span class="kb-quiet">{shown(why)}</span>{closest}</li>'


# ── figures and notes ──


def _table(hits: Sequence[Hit], labels: Labels) -> str:
    """The scores of the hits; the rank is the number of a marker."""
    heads = ("#", labels.source, labels.similarity, labels.score)
    rows = []
    for rank, hit in enumerate(hits, start=1):
        where = _where(hit.source, hit.chunk.page, hit.chunk.heading, labels)
        cells = (f"[{rank}]", where, f"{hit.similarity:.3f}", shown(_score(hit)))
        rows.append("".join(f"<td>{cell}</td>" for cell in cells))
    head = "".join(f'<th scope="col">{head}</th>' for head in heads)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<details class="kb-found"><summary>{labels.found.format(count=len(rows))}</summary>'
        f'<table class="kb-scores"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></details>'
    )


def _score(hit: Hit) -> str:
    return f"{hit.score:.3f} {hit.scored_by}"


def _notes(notes: Sequence[str], labels: Labels) -> list[str]:
    return [f'<p class="kb-note" dir="auto">{labels.note}: {shown(one_line(note))}</p>' for note in notes]


def _limits(cutoff: float, best: float | None, where: Sequence[str], labels: Labels) -> list[str]:
    return [
        labels.cutoff.format(cutoff=f"{cutoff:.2f}"),
        "" if best is None else labels.best.format(best=f"{best:.2f}"),
        labels.where.format(where=", ".join(where)) if where else "",
    ]


def _usage(usage: Usage, labels: Labels) -> str:
    asked = labels.usage.format(
        requests=usage.requests, prompt=f"{usage.prompt_tokens:,}", completion=f"{usage.completion_tokens:,}"
    )
    if usage.estimated:
        asked += f" ({labels.estimated})"
    return asked if usage.dollars is None else f"{asked} · ${usage.dollars:.4f}"


def _footer(*parts: str) -> str:
    return f'<p class="kb-quiet kb-footer">{shown(one_line(" · ".join(filter(None, parts))))}</p>'
