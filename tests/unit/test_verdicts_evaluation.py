"""The evaluation of verdicts: claims made by rule, areas and shares."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from kb.errors import ConfigError
from kb.evaluation._measures import share_interval
from kb.evaluation._rewording import (
    clauses_reworded,
    english,
    han,
    name_changed,
    negation_changed,
    number_changed,
    numbers_reworded,
)
from kb.evaluation.verdicts import evaluate, load_pairs
from pipelines import evaluate as command

ENGLISH = [
    (
        "Tower",
        "The tower in Arles was built by Anna Berg in 1890. It is 40 metres high.",
        "Who built the tower?",
        "Anna Berg",
    ),
    (
        "Bridge",
        "The bridge, which is red, was opened by Carl Doe in May 1925. It has two lanes.",
        "Who opened it?",
        "Carl Doe",
    ),
    ("Ferry", "In 1930, the ferry was bought by Emil Frank. It carries 85 cars.", "Who bought it?", "Emil Frank"),
]
CHINESE = [
    ("塔", "该塔由王建国于1890年建造，位于城北，高40米。塔里有三层。", "该塔是谁建造的？", "王建国"),
    ("桥", "这座桥由李卫东于1925年设计，是红色的，长85米。桥上有两条路。", "这座桥是谁设计的？", "李卫东"),
]


def _lines(rows: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "sets"
    (made / "citations").mkdir(parents=True)
    for name, items in (("en", ENGLISH), ("zh", CHINESE)):
        rows: list[dict[str, object]] = [
            {
                "id": f"{name}{i}",
                "title": title,
                "context": context,
                "question": question,
                "answers": [answer],
                "evidences": [context[: context.index("。" if name == "zh" else ". ") + 1]],
            }
            for i, (title, context, question, answer) in enumerate(items)
        ]
        (made / "citations" / f"expmrc-{name}.jsonl").write_text(_lines(rows), encoding="utf-8")
    claims, answers = made / "retrieval" / "scifact", made / "retrieval" / "jaquad"
    for one, corpus, queries in (
        (
            claims,
            {"a": "Cats sleep all day.", "b": "Owls hunt at night."},
            {"1": "Cats sleep by day.", "2": "Owls hunt."},
        ),
        (
            answers,
            {"a": "藤山は南方慰問団に1941年に参加した。彼は歌った。", "b": "南方慰問団"},
            {"1": "藤山は何という団に参加したか。"},
        ),
    ):
        one.mkdir(parents=True)
        (one / "corpus.jsonl").write_text(
            _lines([{"_id": key, "title": "", "text": text} for key, text in corpus.items()]), encoding="utf-8"
        )
        (one / "queries.jsonl").write_text(
            _lines([{"_id": key, "text": text} for key, text in queries.items()]), encoding="utf-8"
        )
        own = {"1": ["a"], "2": ["b"]} if one == claims else {"1": ["a", "b"]}
        rows_of = [f"{query}\t{document}\t1\n" for query, found in own.items() for document in found]
        (one / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows_of), encoding="utf-8")
    return made


def test_pairs_of_every_kind_are_made_and_are_the_same_again(folder: Path) -> None:
    pairs = load_pairs(folder)
    assert pairs == load_pairs(folder)
    made = Counter((pair.language, pair.kind) for pair in pairs)
    assert {kind for language, kind in made if language == "en"} == {
        *("right", "about", "wrong", "number", "name", "negation")
    }
    assert {kind for language, kind in made if language == "zh"} == {"right", "wrong", "number", "name", "negation"}
    assert made["ja", "right"] == 4
    assert len({pair.id for pair in pairs}) == len(pairs)
    halves = [load_pairs(folder, "odd"), load_pairs(folder, "even")]
    assert {pair.id for pair in pairs} == {pair.id for half in halves for pair in half}
    assert not {pair.id for pair in halves[0]} & {pair.id for pair in halves[1]}


def test_what_is_changed_is_not_in_its_passage_and_what_is_wrong_is_elsewhere(folder: Path) -> None:
    for pair in load_pairs(folder):
        if pair.variety == "verbatim":
            assert (pair.claim in pair.source) == (pair.kind == "right")
        if pair.kind == "wrong":
            assert pair.claim not in pair.source


def test_the_figures_are_those_of_the_judgements(folder: Path) -> None:
    result = evaluate(load_pairs(folder))
    told = result.as_dict()
    areas = {one.name: one for one in result.areas()}
    assert areas["English"].right + areas["English"].others == sum(pair.language == "en" for pair, _ in result.judged)
    assert areas["English, evidence only"].right == areas["English"].right - 2
    assert areas["Chinese"].area > 0.9
    for share in result.shares():
        flags = [
            judged.verdict != "supported"
            for pair, judged in result.judged
            if (pair.language, pair.kind) == (share.language, share.kind) and share.variety in ("", pair.variety)
        ]
        assert (share.claims, share.flagged) == (len(flags), sum(flags) / len(flags))
        assert share.between[0] <= share.flagged <= share.between[1]
    assert told["claims"] == len(told["each"]) == len(result.judged)


def test_the_command_prints_areas_and_shares(
    folder: Path, project: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    project('[embedding]\nuse = "hashing"\n[store]\nuse = "memory"\n')
    assert command.main(["verdicts", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "similarities asked of: none" in printed
    assert "en  a negation changed" in printed
    assert command.main(["verdicts", str(folder), "--json", "--half", "odd", "--embedder"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["half"], told["nearness"]) == ("odd", "hashing")
    assert set(told["auc"]) >= {"English and Chinese", "English", "Chinese"}


def test_what_is_missing_or_not_of_the_form_is_said(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"none of citations/expmrc-en\.jsonl"):
        load_pairs(tmp_path)
    (folder / "citations" / "expmrc-en.jsonl").write_text(
        '{"id": "1", "title": "t", "context": "c", "question": "q", "answers": []}\n', encoding="utf-8"
    )
    with pytest.raises(ConfigError, match="answers has to be a list of at least one text"):
        load_pairs(folder)


@pytest.mark.parametrize(
    ("sentence", "language", "reworded"),
    [
        ("It has 30 cars and 1,200 seats in 1990.", "en", "It has thirty cars and 1200 seats in 1990."),
        ("It has twelve cars.", "en", "It has 12 cars."),
        ("It opened on March 5, 2021 with 50%.", "en", "It opened on 5 March 2021 with fifty percent."),
        ("该线于2021年3月5日开通", "zh", "该线于2021-03-05开通"),
        ("该线有30个车站，占50%", "zh", "该线有三十个车站，占百分之五十"),
        ("本站共三层。", "zh", "本站共3层。"),
        ('It says "30 cars".', "en", None),
        ("It has cars.", "en", None),
    ],
)
def test_numbers_are_reworded(sentence: str, language: str, reworded: str | None) -> None:
    assert numbers_reworded(sentence, language) == reworded  # type: ignore[arg-type]


def test_clauses_are_reworded() -> None:
    random = Random(1)
    assert clauses_reworded("In 1990, the bridge (a long one) opened.", "en", random) == "The bridge opened in 1990."
    assert (
        clauses_reworded("The bridge, which is red, opened.", "en", random)
        == "According to the text, the bridge, opened."
    )
    assert clauses_reworded("桥（红色）很长，于1990年建成，位于城北。", "zh", random) in (
        "根据原文，桥很长，位于城北。",
        "根据原文，桥很长，于1990年建成。",
    )


def test_one_thing_is_changed() -> None:
    random = Random(1)
    for language, sentence in (("en", "It has 44 cars."), ("en", "It has twelve cars."), ("zh", "本站共三层。")):
        changed = number_changed(sentence, sentence, language, random)  # type: ignore[arg-type]
        assert changed
        assert changed != sentence
    assert name_changed("Ann Berg built it.", "Ann Berg built it.", "Ann Berg", ["Ann Roe", "Carl Doe"], random) == (
        "Carl Doe built it."
    )
    assert name_changed("Ann built it for Ann.", "", "Ann", ["Carl"], random) is None


@pytest.mark.parametrize(
    ("sentence", "language", "changed"),
    [
        ("The bridge was opened.", "en", "The bridge was not opened."),
        ("The bridge was not opened.", "en", "The bridge was opened."),
        ("He asked whether it was open.", "en", None),
        ("他是医生", "zh", "他不是医生"),
        ("他没有参加比赛", "zh", "他有参加比赛"),
        ("但是很好", "zh", None),
        ("彼は参加した。", "ja", "彼は参加しなかった。"),
        ("猫ではない。", "ja", "猫である。"),
    ],
)
def test_a_negation_is_added_or_removed(sentence: str, language: str, changed: str | None) -> None:
    assert negation_changed(sentence, language) == changed  # type: ignore[arg-type]


def test_numbers_are_written() -> None:
    assert [english(number) for number in (2, 13, 20, 42)] == ["two", "thirteen", "twenty", "forty-two"]
    assert [han(number) for number in (2, 10, 13, 20, 42)] == ["二", "十", "十三", "二十", "四十二"]


def test_an_interval_is_no_point_at_the_ends() -> None:
    assert share_interval(10, 10)[0] == pytest.approx(0.722, abs=0.001)  # Wilson, by hand: 1 / (1 + 1.96² / 10)
    assert share_interval(0, 10)[0] == 0.0
