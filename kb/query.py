"""Ask a question: `python -m kb.query "…"`. A command only; nobody imports this file.

Exit status: 0 answered, 1 not answered, 2 an error with a message, 70 what nobody foresaw.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb.knowledge_base import KnowledgeBase
    from kb.records import Answer

ANSWERED, NOT_ANSWERED, ERROR, UNFORESEEN = 0, 1, 2, 70


def main(arguments: list[str] | None = None) -> int:
    """Run the command and give its exit status."""
    options = _parser().parse_args(arguments)
    from kb.errors import KbError

    try:
        return _run(options)
    except KbError as error:
        print(f"error: {error}", file=sys.stderr)
        return ERROR
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        sys.stderr.close()
        return ANSWERED
    except Exception:  # noqa: BLE001  the last resort: show it whole, with a status of its own
        import traceback

        traceback.print_exc()
        return UNFORESEEN


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kb.query", description="Ask the ingested documents; every claim of the answer is cited."
    )
    parser.add_argument("question", nargs="*", help="the question; - reads it from stdin; none starts a prompt")
    parser.add_argument("--top-k", type=_positive, metavar="N", help="at most N hits")
    parser.add_argument("--cutoff", type=_cosine, metavar="X", help="the least similarity that counts, from -1 to 1")
    parser.add_argument("--stream", action="store_true", help="show the answer while it is written")
    parser.add_argument("--explain", action="store_true", help="show what became of every candidate")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--search-only", action="store_true", help="show the hits, write no answer")
    parser.add_argument("--collection", metavar="NAME", help="the collection to ask")
    parser.add_argument("--config", metavar="FILE", help="the configuration file (default: ./config.toml)")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("a number from 1")
    return number


def _cosine(text: str) -> float:
    number = float(text)
    if not -1 <= number <= 1:
        raise argparse.ArgumentTypeError("a similarity from -1 to 1")
    return number


def _run(options: argparse.Namespace) -> int:
    from kb.knowledge_base import KnowledgeBase

    question = " ".join(options.question)
    if question == "-":
        question = sys.stdin.read()
    overrides: dict[str, Any] = {"collection": options.collection} if options.collection else {}
    with KnowledgeBase.open(options.config, **overrides) as base:
        if not options.question:
            return _prompt(base, options)
        if not question.strip():
            from kb.errors import KbError

            raise KbError("the question is empty; write it behind the command, in quotes")
        return _ask(base, question.strip(), options)


def _ask(base: KnowledgeBase, question: str, options: argparse.Namespace) -> int:
    from kb import display

    if options.search_only:
        result = base.search(question, top_k=options.top_k, cutoff=options.cutoff)
        _warn(base)
        if options.json:
            found = {"question": question, "hits": [display.hit_as_dict(h) for h in result.hits]}
            print(json.dumps({**found, "cutoff": result.cutoff, "best_score": result.best_score}, ensure_ascii=False))
        else:
            display.print_hits(result)
            if options.explain:
                print("\n".join(map(display.safe, display.explanation(result.hits, result.dropped, result.cutoff))))
        return ANSWERED if result.hits else NOT_ANSWERED
    streamed = options.stream and not options.json
    answer = _streamed(base, question, options) if streamed else base.ask(question, options.top_k, options.cutoff)
    _warn(base)
    _show(base, answer, options, text_printed=streamed)
    return ANSWERED if answer.answered else NOT_ANSWERED


def _streamed(base: KnowledgeBase, question: str, options: argparse.Namespace) -> Answer:
    from kb.display import safe
    from kb.records import AnswerReady, TextPiece

    answer: Answer | None = None
    for event in base.stream(question, options.top_k, options.cutoff):
        if isinstance(event, TextPiece):
            print(safe(event.text), end="", flush=True)
        elif isinstance(event, AnswerReady):
            answer = event.answer
    print()
    assert answer is not None, "a stream ends with AnswerReady"
    return answer


def _show(base: KnowledgeBase, answer: Answer, options: argparse.Namespace, *, text_printed: bool) -> None:
    from kb import display

    if options.json:
        report = display.answer_as_dict(answer)
        if options.explain:
            report["explanation"] = display.explanation(answer.hits, answer.dropped, answer.cutoff)
        print(json.dumps(report, ensure_ascii=False))
        return
    if sys.stdout.isatty():
        display.print_answer(answer, base.settings.documents_dir, text_printed=text_printed)
    else:
        text = display.as_text(answer)
        print(display.safe(text[len(answer.text) :].lstrip("\n") if text_printed else text))
    if options.explain:
        print("\n" + "\n".join(map(display.safe, display.explanation(answer.hits, answer.dropped, answer.cutoff))))


def _warn(base: KnowledgeBase) -> None:
    """One line when the folder is no longer what was ingested."""
    changed = base.changed_since_ingest()
    if changed:
        print(f"warning: {changed}; to bring it in: python -m pipelines.ingest", file=sys.stderr)


def _prompt(base: KnowledgeBase, options: argparse.Namespace) -> int:
    """Ask until the input ends; an error of one question does not end it."""
    from kb.errors import KbError

    status = NOT_ANSWERED
    if sys.stdin.isatty():
        print("Ask a question; an empty line or Ctrl-D ends.", file=sys.stderr)
    while True:
        try:
            question = input("? " if sys.stdin.isatty() else "").strip()
        except EOFError:
            return status
        if not question:
            return status
        try:
            status = _ask(base, question, options)
        except KbError as error:
            print(f"error: {error}", file=sys.stderr)
            status = ERROR


if __name__ == "__main__":
    sys.exit(main())
