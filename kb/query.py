"""Ask a question: `python -m kb.query "…"`. A command only; nobody imports this file.

Exit status: 0 answered, 1 not answered, 2 an error with a message, 70 what nobody foresaw. Without a
question it is a prompt, where questions may lean on those before, or asks what stdin holds line by line,
each by itself; then the highest status of all questions.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING, Any

from kb import command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kb.answers import Answer
    from kb.conversation import Conversation
    from kb.knowledge_base import KnowledgeBase
    from kb.records import SearchResult
    from kb.terminal import Terminal

    Asked = KnowledgeBase | Conversation

ANSWERED, NOT_ANSWERED = 0, 1


def main(arguments: list[str] | None = None) -> int:
    """Run the command and give its exit status."""
    # Intermixed: the words of a question may stand before and behind an option.
    return command.run(lambda: _run(_parser().parse_intermixed_args(arguments)))


def _parser() -> argparse.ArgumentParser:
    parser = command.Parser(
        prog="python -m kb.query",
        description="Ask the ingested documents; every claim of the answer is cited.",
        epilog="exit status: 0 answered, 1 not answered, 2 an error with a message",
    )
    parser.add_argument("question", nargs="*", help="the question; - reads it from stdin; none starts a prompt")
    parser.add_argument("--top-k", type=_positive, metavar="N", help="at most N hits")
    parser.add_argument("--cutoff", type=_cosine, metavar="X", help="the least similarity that counts, from -1 to 1")
    parser.add_argument(
        "--where",
        action=_Where,
        metavar="FIELD=VALUE",
        help="look only at what passes: source, path, kind, heading, page or a field of the front matter; several "
        "have all to hold, of one field any (kind=pdf, page=3-7, path=handbook, 'heading=Install*')",
    )
    parser.add_argument("--stream", action="store_true", help="show the answer while it is written")
    parser.add_argument("--explain", action="store_true", help="show what became of every candidate")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--search-only", action="store_true", help="show the hits, write no answer")
    parser.add_argument("--collection", type=command.name, metavar="NAME", help="the collection to ask")
    parser.add_argument(
        "--config", type=command.not_blank, metavar="FILE", help="the configuration file (default: ./config.toml)"
    )
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("should be a whole number from 1")
    return int(text)


def _cosine(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not -1 <= number <= 1:
        raise argparse.ArgumentTypeError("should be a similarity from -1 to 1")
    return number


class _Where(argparse.Action):
    """Collects conditions, each of which is looked at when it is read."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, given: Any, *_: Any) -> None:
        from kb.errors import KbError
        from kb.filters import Where

        known: Where | None = namespace.where
        try:
            namespace.where = Where.parse([*(known.written if known else ()), command.as_text(given)])
        except KbError as error:
            raise argparse.ArgumentError(self, str(error)) from error


def _run(options: argparse.Namespace) -> int:
    question = _question(options.question) if options.question else None
    from kb.knowledge_base import KnowledgeBase

    overrides: dict[str, Any] = {"collection": options.collection} if options.collection else {}
    quiet = sys.stderr is None or not sys.stderr.isatty()
    with KnowledgeBase.open(options.config, quiet=quiet, **overrides) as base:
        if question is None:
            return _prompt(base, options)
        status = _ask(base, base, question, options)
        _warn(base, options)
        return status


def _prompt(base: KnowledgeBase, options: argparse.Namespace) -> int:
    """Ask until the input ends: people hold a conversation, the lines of a file are questions by themselves."""
    from kb import query_prompt

    def warn() -> None:
        _warn(base, options)

    if not query_prompt.is_interactive():
        return query_prompt.ask_each(lambda question: _ask(base, base, question, options), warn)
    session = base.chat()
    query_prompt.converse(session, lambda question: _ask(base, session, question, options), warn)
    return ANSWERED


def _question(words: Sequence[str]) -> str:
    """The question that the arguments are, or that stdin holds."""
    from kb.errors import KbError

    question = command.as_text(" ".join(words))
    if question == "-":
        question = sys.stdin.read() if sys.stdin is not None else ""
    # Blanks of any script, a byte order mark and control characters alone are no question.
    if not any(character.isprintable() and not character.isspace() for character in question):
        raise KbError("the question is empty; write it behind the command, in quotes")
    return question.removeprefix("\ufeff").strip()


def _ask(base: KnowledgeBase, asked: Asked, question: str, options: argparse.Namespace) -> int:
    if options.search_only:
        return _search(base, question, options)
    from kb import display

    if options.json:
        answer = asked.ask(question, options.top_k, options.cutoff, options.where)
        more = display.explanation_as_dict(answer.hits, answer.dropped, answer.notes) if options.explain else {}
        for note in answer.notes:
            command.say(f"note: {note}")
        command.write_json({**display.answer_as_dict(answer), **more})
    else:
        shown = _on_terminal(base, asked, question, options) if command.on_terminal() else None
        answer = shown or _as_text(asked, question, options)
        _explain(answer, options)
    return ANSWERED if answer.answered else NOT_ANSWERED


def _on_terminal(base: KnowledgeBase, asked: Asked, question: str, options: argparse.Namespace) -> Answer:
    terminal = _terminal(base)
    if options.stream:
        answer = _streamed(asked, question, options, terminal.piece)
        terminal.end_of_text()
    else:
        answer = asked.ask(question, options.top_k, options.cutoff, options.where)
        terminal.text(answer)
    terminal.below(answer)
    return answer


def _as_text(asked: Asked, question: str, options: argparse.Namespace) -> Answer:
    from kb import display

    if options.stream:
        answer = _streamed(asked, question, options, lambda piece: command.write(display.safe(piece)))
        command.write("\n\n".join(["", *display.below_text(answer)]) + "\n")
    else:
        answer = asked.ask(question, options.top_k, options.cutoff, options.where)
        command.write(display.as_text(answer) + "\n")
    return answer


def _streamed(asked: Asked, question: str, options: argparse.Namespace, show: Callable[[str], None]) -> Answer:
    """Show the text as it comes."""
    from kb.answers import AnswerReady, TextPiece

    answer: Answer | None = None
    begun = False
    try:
        for event in asked.stream(question, options.top_k, options.cutoff, options.where):
            if isinstance(event, TextPiece):
                show(event.text)
                begun = True
            elif isinstance(event, AnswerReady):
                answer = event.answer
    except Exception:
        if begun:  # the message stands on a line of its own
            command.write("\n")
        raise
    assert answer is not None, "a stream ends with AnswerReady"
    return answer


def _search(base: KnowledgeBase, question: str, options: argparse.Namespace) -> int:
    from kb import display

    result = base.search(question, options.top_k, options.cutoff, options.where)
    for note in result.notes:
        command.say(f"note: {note}")
    if options.json:
        more = display.explanation_as_dict(result.hits, result.dropped, result.notes) if options.explain else {}
        command.write_json({**display.search_as_dict(result), **more})
    elif command.on_terminal():
        _terminal(base).hits(result)
    else:
        command.write(display.hits_as_text(result) + "\n")
    if not options.json:
        _explain(result, options)
    return ANSWERED if result.hits else NOT_ANSWERED


def _terminal(base: KnowledgeBase) -> Terminal:
    from kb.terminal import Terminal

    return Terminal.open(command.write, base.root)


def _explain(found: Answer | SearchResult, options: argparse.Namespace) -> None:
    if not options.explain:
        return
    from kb.answers import Answer
    from kb.display import explanation, usage_line

    out = {drop.hit.chunk.id for drop in found.dropped}  # an answer not found shows dropped hits as the nearest
    kept = [hit for hit in found.hits if hit.chunk.id not in out]
    lines = explanation(kept, found.dropped, found.cutoff, found.where)
    if isinstance(found, Answer) and found.usage is not None:
        lines.append(usage_line(found.usage))
    command.write("\n" + "\n".join(lines) + "\n")


def _warn(base: KnowledgeBase, options: argparse.Namespace) -> None:
    """One line when the folder is no longer what was ingested."""
    from kb.errors import KbError

    try:
        changed = base.changed_since_ingest()
    except KbError as error:  # the answer stands; only what we can say about the folder is lost
        command.say(f"warning: whether the folder has changed is not known: {error}")
        return
    root = base.root
    if changed and root is not None and root.is_dir():
        changed += f"; to bring it in: {_ingest_command(root, base, options)}"
    if changed:
        command.say(f"warning: {changed}")


def _ingest_command(root: Path, base: KnowledgeBase, options: argparse.Namespace) -> str:
    """The command that ingests the same folder into the same collection."""
    words = ["python", "-m", "pipelines.ingest"]
    if root.resolve() != base.settings.documents_dir.resolve():
        words.append(str(root))
    for name in ("collection", "config"):
        if getattr(options, name):
            words += [f"--{name}", getattr(options, name)]
    return shlex.join(words)


if __name__ == "__main__":
    command.leave(main())
