"""A follow-up becomes a question of its own, without a model: what it leaves out is carried over from before.

    How many days of leave do I get in Rotterdam?  →  And in Osaka?     →  How many days of leave do I get in Osaka?
    How long is parental leave?                    →  Who approves it?  →  Who approves it? (parental leave)

One that only adds ("And in Osaka?") is the question before with a phrase of it replaced, where one of the same kind is
seen, else with what it adds behind it; one that asks something of its own is followed by what the question before is
about. What is carried is the topic and the latest change to it, so a chain of follow-ups does not grow. A question that
stands by itself begins anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from kb.leaning import leaning, plain
from kb.prompts import question_language
from kb.words import STOP_WORDS, has_cjk

_MOST_CHARACTERS = 160
"""Of what a question is about, and of a question that is asked again: two or three lines."""
_MOST_ABOUT = 2
"""What the conversation began with, and what came last."""


@dataclass(frozen=True, slots=True)
class Topic:
    """What a conversation is about: the last question, and what was carried over to it."""

    question: str
    about: tuple[str, ...] = ()
    """What the questions before it are about; at most two phrases."""
    adds: str = ""
    """What a follow-up has added, where nothing in the question was replaced by it."""

    @property
    def standing(self) -> str:
        """The question as one of its own."""
        question = _joined(self.question, self.adds) if self.adds else self.question
        about = [phrase for phrase in self.about if phrase not in question]
        return f"{question} ({'; '.join(about)})" if about else question


def begun(question: str) -> Topic:
    """The topic of a question that stands by itself, or was made to by a model."""
    return Topic(question.strip())


def followed(topic: Topic | None, question: str) -> Topic:
    """The topic after another question; `standing` is what to search for.

    >>> followed(begun("How many days of leave do I get in Rotterdam?"), "And in Osaka?").standing
    'How many days of leave do I get in Osaka?'
    >>> followed(begun("退款要多久？"), "谁批准？").standing, followed(begun("退款要多久？"), "怎样重置密码？").standing
    ('谁批准？ (退款)', '怎样重置密码？')
    """
    leans = None if topic is None else leaning(question)
    if topic is None or leans is None:
        return begun(question)
    if not leans.adds or question_language(question) != question_language(topic.question):
        return Topic(question.strip(), _about(topic))
    asked = _tail(topic.question)
    changed = _replaced(asked, leans.adds)
    if changed is None and topic.adds:  # what was added before may be what is meant
        changed_before = _replaced(topic.adds, leans.adds)
        return replace(topic, question=asked, adds=_cut(changed_before or leans.adds))
    return replace(topic, question=changed or asked, adds="" if changed else _cut(leans.adds))


def _about(topic: Topic) -> tuple[str, ...]:
    """What a further question is about: what the conversation began with, and what came last."""
    last = subject(topic.question)
    said = [phrase for phrase in (*topic.about, last, topic.adds) if phrase]
    phrases = list(dict.fromkeys(_cut(phrase) for phrase in said))
    return tuple(phrases if len(phrases) <= _MOST_ABOUT else [phrases[0], phrases[-1]])


def _joined(question: str, adds: str) -> str:
    return f"{question}{adds}" if has_cjk(question) else f"{question} {adds[:1].upper()}{adds[1:]}?"


def _cut(text: str) -> str:
    return text[:_MOST_CHARACTERS]


def _tail(question: str) -> str:
    """The end of a long question, from a sentence on: what it asks for mostly stands there."""
    if len(question) <= _MOST_CHARACTERS:
        return question
    tail = question[-_MOST_CHARACTERS:]
    sentence = re.search(r"[.!?。！？]\s*(?=\w)", tail)
    return tail[sentence.end() :] if sentence else tail


# ── what a question is about ──

_WORD = re.compile(r"[€$£¥]?[^\W_][\w.'@/+#&-]*")
_ASKING_WORDS = """
    long many often soon far fast quickly old big large happen happens need needs please tell show explain say mean
    means take takes valid
"""
_ASKING_ENGLISH = frozenset(_ASKING_WORDS.split())
_ASKING_CHINESE = re.compile(
    "请问|什么时候|是什么意思|什么意思|什么样|什么|怎么办|怎么样|怎么|怎样|如何|多少(?:天|次|个|钱|人)?|多久"
    "|多长时间|多长|几(?:天|次|个|点|人|号|月|年|小时|分钟)?|哪里|哪些|哪个|哪|谁"
    "|为什么|为何|何时|是否|能不能|能否|可不可以|可以|有没有|需要|应该|吗|呢|吧|我们?|你们?|您|[，。？！,?!、]"
    "|要(?=\\s|$)"
)
_ASKING_JAPANESE = re.compile(
    "(?:は|が|を|に|で)?(?:何(?:日|時間?|回|個|人|円|週間|か月|年|分)?(?:前|目)?(?:まで|から|間)?(?:に|ですか)?"
    "|いつ(?:まで|から)?(?:に)?|どのくらい|どれくらい|どこ(?:で|に)?|どう(?:すれば|やって|したら)?|なぜ|いくら"
    "|誰(?:が|の|に|を)?|どの|どんな)"
    "|(?:もら|送|取|使|休)(?:え|れ|め)(?:ます|る)か?|(?:いい|よい|よろしい)?です(?:か)?|でしょうか|(?:し|され"
    "|でき|あり|なり|かかり|い)?ます(?:か)?|ましたか?|ください|とは|[、。？！?!,]"
)


def subject(question: str) -> str:
    """What a question is about: its words without those that ask.

    >>> subject("How many days of annual leave do I get?"), subject("退款要多久才能到账？")
    ('days of annual leave', '退款要 才能到账')
    """
    text = plain(question)
    language = question_language(text)
    if language == "en":
        return _cut(_english_subject(text))
    asking = _ASKING_CHINESE if language == "zh" else _ASKING_JAPANESE
    return _cut(" ".join(asking.sub(" ", text).split()))


def _english_subject(text: str) -> str:
    """Runs of words that say something, with what joins them: "of", "for", "in"."""
    runs: list[list[str]] = [[]]
    joint = ""
    for found in _WORD.finditer(text):
        word, low = found.group(), found.group().lower().rstrip(".")
        if low in _JOINTS and runs[-1]:
            joint = low
        elif low in STOP_WORDS or low in _ASKING_ENGLISH:
            if low not in _DETERMINERS:
                runs.append([])
                joint = ""
        else:
            runs[-1] += [joint, word] if joint else [word]
            joint = ""
    return ", ".join(" ".join(run).rstrip(".") for run in runs if run)


_JOINTS = frozenset(["of", "for", "in", "on", "at", "from", "to", "with", "without", "by"])
_DETERMINERS = frozenset(["a", "an", "the", "my", "our", "your"])


# ── a phrase of the same kind ──

_NAME = r"(?!I\b)[A-Z0-9][\w.+-]*(?: [A-Z0-9][\w.+-]*)*"
_BEGINS = re.compile(
    r"(?P<by>in|for|at|on|from|to|with|by|during|after|before|without|under|over)\s+(?P<rest>.+)", re.I
)
_LATIN_NAME = re.compile(r"(?<![A-Za-z0-9_])[A-Z][A-Za-z0-9+.-]*(?![A-Za-z0-9_])")


def _replaced(question: str, adds: str) -> str | None:
    """The question with a phrase of the same kind replaced, when there is just one; else None."""
    if has_cjk(question):
        return _replaced_name(question, adds, _LATIN_NAME)
    begins = _BEGINS.fullmatch(adds)
    if begins:
        phrase = re.compile(rf"\b{begins['by']}\s+(?:(?:the|a|an|my)\s+)?(?:{_NAME}|[a-z-]+(?=[?.!]*$))", re.MULTILINE)
        found = list(phrase.finditer(question))
        if len(found) == 1:
            return f"{question[: found[0].start()]}{adds}{question[found[0].end() :]}"
        return _replaced_name(question, begins["rest"], re.compile(rf"(?<=\w ){_NAME}"), adds)
    head = adds.split()[-1].lower()
    same_head = re.compile(rf"(?:[\w-]+ )?\b{re.escape(head)}\b", re.IGNORECASE)
    found = list(same_head.finditer(question)) if " " in adds else []
    if len(found) == 1:
        article = re.match(r"(?:the|a|an|my|our)\s+", adds, re.IGNORECASE)
        return f"{question[: found[0].start()]}{adds[article.end() if article else 0 :]}{question[found[0].end() :]}"
    return _replaced_name(question, adds, re.compile(rf"(?<=\w ){_NAME}"))


def _replaced_name(question: str, name: str, names: re.Pattern[str], adds: str = "") -> str | None:
    """One name by another: there has to be just one in the question, and what is added has to be one."""
    bare = re.sub(r"^(?:the|a|an)\s+", "", name)
    found = list(names.finditer(question))
    if len(found) != 1 or not re.fullmatch(
        rf"{_NAME}(?: ?[\w]+)?" if not has_cjk(name) else r"[A-Z][\w+.-]*(?: ?\w+)?", bare
    ):
        return None
    there = found[0]
    tail = bare.rpartition(" ")[2]
    rest = question[there.end() :]
    new = bare.removesuffix(tail).rstrip() if " " in bare and rest.lstrip().startswith(tail) else bare
    return f"{question[: there.start()]}{new}{rest}"
