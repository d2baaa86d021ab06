"""Documents and pages as a client reads them, as the OpenAPI description tells it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

Share = Field(ge=0, le=1, allow_inf_nan=False)


class PageSpan(BaseModel):
    """A page of a document; a blank one has `start` = `end`."""

    number: int
    """From 1."""
    start: int
    end: int


class HeadingSpan(BaseModel):
    """A heading: the document's text from `start` to `end` is its line, `text` the words in it."""

    level: int
    """1 is the highest."""
    text: str
    start: int
    end: int


class ContentBody(BaseModel):
    """A part of a document's text. All numbers count characters of the whole text, as those of a citation do."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "0f6d1c6f1f0b4c0c8d9f2f6f1a7c3b52",
                    "path": "handbook/security-policy.pdf",
                    "title": "Security policy",
                    "kind": "pdf",
                    "text": "Security policy\nVersion 4",
                    "start": 0,
                    "end": 25,
                    "length": 9120,
                    "pages": [{"number": 1, "start": 0, "end": 1830}],
                    "headings": [{"level": 1, "text": "Security policy", "start": 0, "end": 15}],
                }
            ]
        }
    )

    id: str
    path: str
    title: str
    kind: str
    text: str
    start: int
    end: int
    """Less than what was asked for where the text ends before, or the part would be too long."""
    length: int
    """Of the whole text."""
    pages: list[PageSpan]
    """All of them; none of a format without pages."""
    headings: list[HeadingSpan]
    """Those of which anything stands in this part."""


class BoxBody(BaseModel):
    """A rectangle on a page, as shares of the page's sides; `x` and `y` are its upper left corner."""

    x: float = Share
    y: float = Share
    width: float = Share
    height: float = Share


class PlacesOnPage(BaseModel):
    """A page's size in points, as it is shown, and a box for each line of a quote."""

    width: float = Field(ge=0, allow_inf_nan=False)
    height: float = Field(ge=0, allow_inf_nan=False)
    quotes: list[BoxBody] = Field(max_length=1000)


class PageBody(PlacesOnPage):
    """A page of a PDF: where its text stands in the document, and where on it the quote."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "width": 595.28,
                    "height": 841.89,
                    "quotes": [{"x": 0.104, "y": 0.21, "width": 0.79, "height": 0.013}],
                    "number": 3,
                    "start": 3620,
                    "end": 5411,
                }
            ]
        }
    )

    number: int
    start: int
    end: int
