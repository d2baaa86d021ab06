"""Spans of OpenTelemetry, one for each stage of a question; off unless `[tracing] enabled` says otherwise.

    kb.question
    ├── kb.retrieve      kb.expand, kb.recall, kb.rerank, kb.exclude below it; kb.chat for each request of a judge
    ├── kb.generate
    └── kb.check

Spans carry counts, names and tokens. What people ask, what documents say and where they are is added only with
`[tracing] content`; keys never. Where spans go is set by whoever runs the program, by the SDK of OpenTelemetry.

A stage that is a generator may be continued in another thread, or another context. So its span is made the current one
for each step, and is never left behind between two (`along`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from kb.errors import ConfigError

_Step = TypeVar("_Step")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Span:
    """One stage that is under way; without tracing it takes everything and keeps nothing."""

    span: Any = None
    content: bool = False

    def set(self, **attributes: Any) -> None:
        """Add counts, names and numbers; None is left out."""
        if self.span is not None:
            self.span.set_attributes(_named(attributes))

    def text(self, **texts: str) -> None:
        """Add what people ask or documents say, where the settings allow that."""
        if self.content:
            self.set(**texts)


_NOTHING = Span()


@dataclass(frozen=True, slots=True)
class Tracing:
    """The tracer of OpenTelemetry, and what may be told to it."""

    api: Any
    """The module `opentelemetry.trace`."""
    tracer: Any
    content: bool

    @classmethod
    def open(cls, *, content: bool) -> Tracing:
        """Load OpenTelemetry.

        Raises:
            ConfigError: it is not installed.
        """
        try:
            from opentelemetry import trace
        except ImportError as error:
            raise ConfigError(
                "[tracing] enabled = true needs the package 'opentelemetry-api', which is not installed: "
                "pip install 'kb[tracing]'"
            ) from error
        return cls(trace, trace.get_tracer("kb"), content)

    @contextmanager
    def within(self, span: Any) -> Iterator[Span]:
        """Make a span the current one; what goes wrong in the block is noted in it, by its kind alone.

        An error's message is content, as it may quote a text.
        """
        token = _current.set(self)
        try:
            with self.api.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
                yield Span(span, self.content)
        except Exception as error:
            said = f": {error}" if self.content else ""
            span.set_status(self.api.Status(self.api.StatusCode.ERROR, type(error).__name__ + said))
            raise
        finally:
            _current.reset(token)


_current: ContextVar[Tracing | None] = ContextVar("tracing", default=None)


@contextmanager
def traced(tracing: Tracing | None) -> Iterator[None]:
    """Trace what is done in this block by `tracing`, if there is one; else as what is around it."""
    if tracing is None:
        yield
        return
    token = _current.set(tracing)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def span(name: str, **attributes: Any) -> Iterator[Span]:
    """One stage, without yields of a generator in it: a span around the block, when there is tracing."""
    tracing = _current.get()
    if tracing is None:
        yield _NOTHING
        return
    begun = tracing.tracer.start_span(name, attributes=_named(attributes))
    try:
        with tracing.within(begun) as one:
            yield one
    finally:
        begun.end()


def along(
    name: str,
    steps: Generator[_Step, None, _Result],
    told: Callable[[_Result], Mapping[str, Any]] | None = None,
    **attributes: Any,
) -> Generator[_Step, None, _Result]:
    """One stage that is a generator: the same steps and result, with a span around them, when there is tracing.

    What traces it is that of now; the span begins with the first step.

    Args:
        name: The span's.
        steps: The stage.
        told: What of its result is told.
        attributes: What is known when it begins.
    """
    tracing = _current.get()
    return steps if tracing is None else _along(tracing, name, steps, told, attributes)


def _along(
    tracing: Tracing,
    name: str,
    steps: Generator[_Step, None, _Result],
    told: Callable[[_Result], Mapping[str, Any]] | None,
    attributes: Mapping[str, Any],
) -> Generator[_Step, None, _Result]:
    begun = tracing.tracer.start_span(name, attributes=_named(attributes))
    try:
        while True:
            with tracing.within(begun) as one:
                try:
                    step = next(steps)
                except StopIteration as stop:
                    one.set(**(told(stop.value) if told else {}))
                    result: _Result = stop.value
                    return result
            try:
                yield step
            except GeneratorExit:
                with tracing.within(begun) as one:
                    one.set(stopped=True)
                    steps.close()
                raise
    finally:
        begun.end()


def note(**attributes: Any) -> None:
    """Add to the span of the stage that is under way."""
    if (tracing := _current.get()) is not None:
        Span(tracing.api.get_current_span()).set(**attributes)


def note_text(**texts: str) -> None:
    """Add what people ask or documents say, where the settings allow that."""
    if (tracing := _current.get()) is not None:
        Span(tracing.api.get_current_span(), tracing.content).text(**texts)


def _named(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {f"kb.{name}": value for name, value in attributes.items() if value is not None}
