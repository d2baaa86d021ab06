"""Notebooks: words and code are kept, what a cell printed is kept within bounds, pictures are not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kb.errors import LoadError
from kb.loading import load_document
from kb.records import Document

Load = Callable[..., Document]
Cell = dict[str, Any]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a notebook of cells, of a whole table, or of a text; keywords are options of the loader."""

    def load_it(content: list[Cell] | dict[str, Any] | str, **options: Any) -> Document:
        path = tmp_path / "file-name.ipynb"
        notebook = {"nbformat": 4, "metadata": {}, "cells": content} if isinstance(content, list) else content
        path.write_text(notebook if isinstance(notebook, str) else json.dumps(notebook), encoding="utf-8")
        return load_document(path, options={"notebook": options})

    return load_it


def words(source: str | list[str], kind: str = "markdown") -> Cell:
    return {"cell_type": kind, "metadata": {}, "source": source}


def code(source: str | list[str], *outputs: dict[str, Any]) -> Cell:
    return {"cell_type": "code", "metadata": {}, "execution_count": 1, "source": source, "outputs": list(outputs)}


def stream(text: str | list[str]) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def result(**data: Any) -> dict[str, Any]:
    mime = {"plain": "text/plain", "markdown": "text/markdown", "html": "text/html", "png": "image/png"}
    return {"output_type": "execute_result", "metadata": {}, "data": {mime.get(k, k): v for k, v in data.items()}}


def blocks(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, document.text[block.start : block.end]) for block in document.blocks]


def test_words_are_markdown_and_code_is_fenced_with_the_language_of_the_kernel(load: Load) -> None:
    cells = [
        words(["# 运费分析\n", "\n", "按城市。"]),
        code(["import csv\n", "print('大阪')"], stream(["大阪\n"])),
        words("## 手順\n\n- 一\n- 二\n\n| a | b |\n|---|---|\n| 1 | 2 |"),
    ]
    notebook = {"nbformat": 4, "metadata": {"language_info": {"name": "python"}}, "cells": cells}
    document = load(notebook)
    assert document.text == (
        "# 运费分析\n\n按城市。\n\n```python\nimport csv\nprint('大阪')\n```\n\nOutput:\n```\n大阪\n```\n\n"
        "## 手順\n\n- 一\n- 二\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    )
    assert [(h.level, h.text, document.text[h.start : h.end]) for h in document.headings] == [
        (1, "运费分析", "# 运费分析"),
        (2, "手順", "## 手順"),
    ]
    assert blocks(document) == [
        ("code", "```python\nimport csv\nprint('大阪')\n```"),
        ("code", "```\n大阪\n```"),
        ("list", "- 一\n- 二"),
        ("table", "| a | b |\n|---|---|\n| 1 | 2 |"),
    ]
    assert document.title == "运费分析"
    assert document.warnings == ()


def test_format_3_with_worksheets_and_heading_cells_is_read(load: Load) -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": ["Old\n", "notes"]},
        {"cell_type": "markdown", "source": "Words."},
        {
            "cell_type": "code",
            "language": "julia",
            "input": ["1 + 1"],
            "outputs": [
                {"output_type": "pyout", "text": ["2"], "html": ["<b>2</b>"]},
                {"output_type": "pyerr", "ename": "Oops", "evalue": "no", "traceback": ["long"]},
                {"output_type": "display_data", "png": "iVBORw0KGgo"},
            ],
        },
    ]
    document = load({"nbformat": 3, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]})
    assert document.text == "## Old notes\n\nWords.\n\n```julia\n1 + 1\n```\n\nOutput:\n```\n2\nOops: no\n```"
    assert document.title == "Old notes"


def test_pictures_widgets_and_names_of_objects_leave_no_trace(load: Load) -> None:
    document = load(
        [
            words("![plot](data:image/png;base64," + "iVBORw0KGgo" * 50 + ")"),
            code(
                "draw()",
                result(png="iVBORw0KGgo", plain="<Figure size 640x480 with 1 Axes>"),
                result(**{"application/vnd.jupyter.widget-view+json": {}, "plain": "IntSlider(value=0)"}),
                result(html="<table><td>cell</td></table>", plain=["   a\n", "0  1"]),
                result(markdown="**bold**", plain="<IPython.core.display.Markdown object>"),
            ),
        ]
    )
    assert document.text == "![plot](embedded:image/png)\n\n```\ndraw()\n```\n\nOutput:\n```\n   a\n0  1\n**bold**\n```"


def test_html_is_read_where_no_plain_text_says_the_same(load: Load) -> None:
    styled = result(html="<style>b{}</style><table><tr><td>大阪<td>90</table>", plain="<Styler at 0x7f>")
    assert load([code("s", styled)]).text.endswith("Output:\n```\n大阪 | 90\n```")


def test_an_error_is_kept_as_its_message(load: Load) -> None:
    error = {"output_type": "error", "ename": "KeyError", "evalue": "'大阪'", "traceback": ["\x1b[0;31mlong\x1b[0m"]}
    assert load([code("x", error)]).text.endswith("Output:\n```\nKeyError: '大阪'\n```")


def test_of_a_progress_bar_the_last_state_is_kept_and_colours_are_not(load: Load) -> None:
    document = load([code("x", stream("  0%\r 50%\r100%\r\n\x1b[32mdone\x1b[0m\r\n"))])
    assert document.text.endswith("Output:\n```\n100%\ndone\n```")


def test_long_outputs_are_cut_marked_and_reported(load: Load) -> None:
    cells = [code("a", stream("é" * 50)), code("b", stream("long " * 500)), code("c", stream("長い" * 2500))]
    document = load(cells)
    assert document.warnings == (
        "the output of 2 cells is cut to 2,000 characters; raise [loading.notebook] max_output_characters to read more",
    )
    assert document.text.endswith("長い" * 1000 + "\n[… 3,000 more characters]\n```")
    assert load([code("b", stream("12345"))], max_output_characters=3).text.endswith("123\n[… 2 more characters]\n```")


def test_no_output_is_read_where_none_is_wanted(load: Load) -> None:
    document = load([code("a", stream("printed"))], max_output_characters=0)
    assert document.text == "```\na\n```"
    assert document.warnings == ()


def test_a_fence_within_code_does_not_close_its_fence(load: Load) -> None:
    assert load([code('"""\n````md\n"""')]).text == '`````\n"""\n````md\n"""\n`````'


def test_a_fence_that_is_left_open_ends_with_its_cell(load: Load) -> None:
    document = load([words("```\nopen"), words("# Next")])
    assert [heading.text for heading in document.headings] == ["Next"]


def test_raw_cells_are_plain_text_and_blank_cells_are_left_out(load: Load) -> None:
    document = load([words("# not a heading", "raw"), words(" \n"), code(""), words("end")])
    assert document.text == "# not a heading\n\nend"
    assert (document.headings, document.blocks) == ((), ())


def test_the_title_is_the_first_heading_of_the_highest_level_else_that_of_the_metadata(load: Load) -> None:
    assert load([words("## Setup"), words("# Costs"), words("# More")]).title == "Costs"
    assert load({"metadata": {"title": " Fuel  costs "}, "cells": [words("x")]}).title == "Fuel costs"
    assert load([words("x")]).title == ""


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "the file is empty"),
        (" \n", "the file is empty"),
        ('{"cells": [', r"not valid JSON \(Expecting value.*cut off or damaged"),
        ("# Markdown", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"cells": [], "n": ' + "1" * 5000 + "}", "not valid JSON"),
        ("[]", "no notebook"),
        ('{"cells": 3}', "neither cells nor worksheets"),
    ],
)
def test_what_is_no_notebook_is_one_clear_error(load: Load, content: str, reason: str) -> None:
    with pytest.raises(LoadError, match=reason) as caught:
        load(content)
    assert "\n" not in caught.value.reason
    assert len(caught.value.reason) < 300


def test_values_of_wrong_types_are_passed_over(load: Load) -> None:
    odd: list[Any] = [None, 3, "x", [], {}]
    cells = [*odd, {"cell_type": "code", "source": [1, "a", None], "outputs": odd}, words(3)]  # type: ignore[arg-type]
    cells += [
        {"cell_type": "code", "source": "b", "outputs": [{"output_type": "stream", "text": value}]} for value in odd
    ]
    cells += [{"cell_type": "heading", "level": value, "source": "c"} for value in odd]
    document = load({"metadata": [], "cells": cells, "worksheets": odd})
    assert document.text.count("```\nb\n```") == len(odd)
    assert document.text.count("# c") == len(odd)


def test_a_notebook_without_words_is_reported(load: Load) -> None:
    assert load([]).warnings == ("no text in it",)


@pytest.mark.parametrize("piece", ["`", "```\n", "\r", "<a", "data:image/png;", "x\n", "é "])
def test_time_grows_with_the_size_and_not_faster(load: Load, piece: str) -> None:
    def seconds(copies: int) -> float:
        began = time.perf_counter()
        load([words(piece * copies), code(piece * copies, stream(piece * copies))])
        return time.perf_counter() - began

    copies = 200_000 // len(piece)
    assert seconds(copies) < 8 * seconds(copies // 4) + 1
