"""Claims with the texts they cite, of which it is known whether these support them.

Of public sets, without anybody's judgement but that of those who labelled them: evidence sentences (ExpMRC, English
and Chinese), claims with abstracts (SciFact), sentences that hold an answer (JaQuAD, Japanese). What is wrong on
purpose is changed by rule (`_rewording`). SciFact's judgements don't tell support from contradiction in the form
that BEIR gave them, so its own abstract is only known to be about the claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal, TypeAlias

from kb.errors import ConfigError
from kb.evaluation._evidence_data import Proven, load_proven
from kb.evaluation._retrieval_data import Half, RetrievalData, load_data
from kb.evaluation._rewording import (
    Language,
    clauses_reworded,
    name_changed,
    negation_changed,
    number_changed,
    numbers_reworded,
)
from kb.sentences import sentence_spans

Kind: TypeAlias = Literal["right", "about", "wrong", "number", "name", "negation"]
"""`about` is a claim with the abstract that supports or refutes it; the last three are changed on purpose."""

SEED = 31
ABSTRACTS = ("own abstract", "another abstract")
"""The varieties of claims that their own abstract supports or refutes, which isn't told."""
EVIDENCE = {"en": "citations/expmrc-en.jsonl", "zh": "citations/expmrc-zh.jsonl"}
CLAIMS, ANSWERS = "retrieval/scifact", "retrieval/jaquad"
_SHORTEST = 8
"""Characters of an evidence; a shorter one says nothing to check."""
_LONGEST_ANSWER = 60
_WHO = re.compile("谁|哪[个位国家里些座支]|叫什么|什么(?:公司|学校|大学|地方|国家|城市|名|队)|誰|どこ|何という|どの")
_CJK_NAME = re.compile(r"[\u4e00-\u9fff\u30a1-\u30ff・·]{2,12}")
_GRAMMAR = re.compile("[的了是在和与及或为因]")
_ENGLISH_NAME = re.compile(r"[A-Z][a-z]+(?: [A-Z][a-z]+){0,3}")
_INNER_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}(?: [A-Z][a-z]+)*")
_NO_NAMES = re.compile(
    r"(?:The|This|It|In|On|At|January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)\b"
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A claim, what it cites, and what is known of it."""

    id: str
    language: Language
    kind: Kind
    variety: str
    claim: str
    source: str


def load_pairs(folder: Path, half: Half = "all") -> list[Pair]:
    """Make the pairs of the questions at some places, the same in every run.

    Raises:
        ConfigError: none of the sets is in the folder, or one is not of its form.
    """
    pairs: list[Pair] = []
    for language, name in EVIDENCE.items():
        if (folder / name).is_file():
            pairs += _proven_pairs(load_proven(folder / name), "en" if language == "en" else "zh", half)
    if (folder / CLAIMS).is_dir():
        pairs += _claim_pairs(load_data(folder / CLAIMS), half)
    if (folder / ANSWERS).is_dir():
        pairs += _japanese_pairs(load_data(folder / ANSWERS), half)
    if not pairs:
        raise ConfigError(f"{folder}: none of {', '.join([*EVIDENCE.values(), CLAIMS, ANSWERS])} is there")
    return pairs


def _taken(place: int, half: Half) -> bool:
    return half == "all" or (place % 2 == 0) == (half == "odd")


def _proven_pairs(items: Sequence[Proven], language: Language, half: Half) -> Iterator[Pair]:
    names = _names(items, language)
    for place, item in enumerate(items):
        if not _taken(place, half):
            continue
        evidence = item.evidences[0].strip()
        if len(evidence) < _SHORTEST:
            continue
        other = next((one.context for one in (*items[place + 1 :], *items) if one.title != item.title), "")

        def pair(kind: Kind, variety: str, claim: str | None, source: str, item: Proven = item) -> Iterator[Pair]:
            if claim and source.strip():
                yield Pair(f"{item.id} {kind} {variety}", language, kind, variety, claim, source)

        random = Random(f"{SEED} {item.id}")
        asked = f"{item.question} — {item.answers[0]}" if language == "en" else f"{item.question}——{item.answers[0]}"
        yield from pair("right", "verbatim", evidence, item.context)
        yield from pair("right", "numbers reworded", numbers_reworded(evidence, language), item.context)
        yield from pair("right", "clauses reworded", clauses_reworded(evidence, language, random), item.context)
        yield from pair("right", "question and answer", asked, item.context)
        yield from pair("wrong", "another passage", evidence, other)
        yield from pair("wrong", "rest of the passage", evidence, _rest(item))
        yield from pair("wrong", "question and answer, another passage", asked, other)
        name = _name(item, language)
        reworded = clauses_reworded(evidence, language, Random(f"{SEED} {item.id}")) or ""
        for said, how in ((evidence, "verbatim"), (reworded, "clauses reworded")):
            yield from pair("number", how, number_changed(said, item.context, language, random), item.context)
            if name:
                yield from pair("name", how, name_changed(said, item.context, name, names, random), item.context)
            yield from pair("negation", how, negation_changed(said, language), item.context)
        if name and name == item.answers[0]:
            yield from pair("name", "question and answer", _wrong(asked, name, item, names, random), item.context)


def _wrong(asked: str, name: str, item: Proven, names: Sequence[str], random: Random) -> str | None:
    """The question with the name of another answer."""
    return name_changed(asked, item.context, name, names, random)


def _rest(item: Proven) -> str:
    """The passage without the sentences that prove the answer, by any labeller."""
    spans = [(at, at + len(one)) for one in item.evidences if (at := item.context.find(one)) >= 0]
    sentences = [
        item.context[start:end]
        for start, end in sentence_spans(item.context)
        if not any(start < last and first < end for first, last in spans)
    ]
    return ("" if any("\u4e00" <= c <= "\u9fff" for c in item.context) else " ").join(sentences)


def _names(items: Sequence[Proven], language: Language) -> list[str]:
    return sorted({name for item in items if (name := _name(item, language))})


def _name(item: Proven, language: Language) -> str | None:
    """A name in the evidence: the answer when it is one, else in English one within the sentence."""
    evidence = item.evidences[0]
    if language == "en":
        for answer in item.answers:
            if answer in evidence and _ENGLISH_NAME.fullmatch(answer) and not _NO_NAMES.match(answer):
                return answer
        found = [one[0] for one in _INNER_NAME.finditer(evidence) if not _NO_NAMES.match(one[0])]
        return found[0] if found else None
    return next((answer for answer in item.answers if _is_cjk_name(item.question, answer, evidence)), None)


def _is_cjk_name(question: str, answer: str, sentence: str) -> bool:
    asked = _WHO.search(question) is not None or "·" in answer
    return asked and answer in sentence and bool(_CJK_NAME.fullmatch(answer)) and not _GRAMMAR.search(answer)


def _claim_pairs(data: RetrievalData, half: Half) -> Iterator[Pair]:
    queries = list(data.queries)
    for place, query in enumerate(queries):
        if not _taken(place, half):
            continue
        own = next(iter(data.relevant[query]))
        later = (*queries[place + 1 :], *queries)
        other = next(
            document for one in later for document in data.relevant[one] if document not in data.relevant[query]
        )
        for kind, variety, document in (("about", ABSTRACTS[0], own), ("wrong", ABSTRACTS[1], other)):
            passage = data.corpus[document]
            name: Kind = "about" if kind == "about" else "wrong"
            yield Pair(
                f"scifact {query} {variety}",
                "en",
                name,
                variety,
                data.queries[query],
                f"{passage.title}\n\n{passage.text}",
            )


def _japanese_pairs(data: RetrievalData, half: Half) -> Iterator[Pair]:
    found = [one for query in data.queries if (one := _sentence_with_answer(data, query))]
    names = sorted({answer for question, answer, sentence, _ in found if _is_cjk_name(question, answer, sentence)})
    seen: set[str] = set()
    for place, (question, answer, sentence, passage) in enumerate(found):
        if not _taken(place, half) or sentence in seen:
            continue
        seen.add(sentence)
        random = Random(f"{SEED} {question}")
        other = next((one[3] for one in (*found[place + 1 :], *found) if one[3] != passage), "")
        reworded = clauses_reworded(sentence, "ja", random)
        for kind, variety, claim, source in (
            ("right", "verbatim", sentence, passage),
            ("right", "numbers reworded", numbers_reworded(sentence, "ja"), passage),
            ("right", "clauses reworded", reworded, passage),
            ("right", "question and answer", f"{question}——{answer}", passage),
            ("wrong", "another passage", sentence, other),
            ("wrong", "rest of the passage", sentence, passage.replace(sentence, "")),
            *_changed(sentence, "verbatim", passage, answer, names, random),
            *_changed(reworded or "", "clauses reworded", passage, answer, names, random),
        ):
            if claim and source.strip():
                yield Pair(f"jaquad {place} {kind} {variety}", "ja", _KINDS[kind], variety, claim, source)


_KINDS: dict[str, Kind] = {
    "right": "right",
    "wrong": "wrong",
    "number": "number",
    "name": "name",
    "negation": "negation",
}


def _changed(
    said: str, how: str, passage: str, answer: str, names: Sequence[str], random: Random
) -> Iterator[tuple[str, str, str | None, str]]:
    yield "number", how, number_changed(said, passage, "ja", random), passage
    if answer in names:
        yield "name", how, name_changed(said, passage, answer, names, random), passage
    yield "negation", how, negation_changed(said, "ja"), passage


def _sentence_with_answer(data: RetrievalData, query: str) -> tuple[str, str, str, str] | None:
    """A question, its answer, the sentence that holds it and the passage: bare answers are documents there too."""
    texts = sorted((data.corpus[document].text for document in data.relevant[query]), key=len)
    if len(texts) < 2 or len(texts[0]) > _LONGEST_ANSWER or texts[0] not in texts[-1]:
        return None
    sentences = [texts[-1][start:end] for start, end in sentence_spans(texts[-1])]
    holding = next((one for one in sentences if texts[0] in one and len(one) >= _SHORTEST), None)
    return (data.queries[query], texts[0], holding, texts[-1]) if holding else None
