"""Run docs/quickstart.ipynb, keep what it shows, and take the pictures of it that the documentation has.

    python -m docs.make_quickstart              # after anything that changes an answer, or its display
    python -m docs.make_quickstart --pictures   # also docs/images/, with Chromium and the extra `pictures`

Nothing in it depends on the network; the browser has none.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from tests.chromium import Chromium, chromium, find_chromium

DOCS = Path(__file__).parent
NOTEBOOK = DOCS / "quickstart.ipynb"
IMAGES = DOCS / "images"

# Wide enough for an answer and the prompt beside it; at this scale the letters are sharp and the files small.
WIDTH, SCALE = 820, 1.2


def run(notebook: nbformat.NotebookNode) -> None:
    """Run all cells, and leave nothing in their outputs that says when or where it was."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(DOCS.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(DOCS)}}).execute()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        cell.metadata = {}
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr" or output.output_type == "error":
                sys.exit(f"error: a cell complains: {output}")


def as_page(notebook: nbformat.NotebookNode, theme: str) -> str:
    """The notebook as JupyterLab would show it, without what a page of nbconvert loads from elsewhere."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(theme=theme, mathjax_url="", require_js_url="", jquery_url="", mermaid_js_url="")
    page, _ = exporter.from_notebook_node(notebook)
    return re.sub(r'<script[^>]* src="[^"]*"></script>', "", page)


def picture(browser: Chromium, first: str, last: str, unfolded: tuple[str, ...]) -> bytes:
    """From the cell that holds the text `first` to the one that holds `last`; what is found first is unfolded."""
    for selector in unfolded:
        browser.run(f"document.querySelector({selector!r}).open = true")
    box = browser.run(
        f"""(() => {{
            const cells = [...document.querySelectorAll('.jp-Cell')];
            const [first, last] = {[first, last]!r}.map(said => cells.find(cell => cell.innerText.includes(said)));
            return [first.getBoundingClientRect().top + scrollY, last.getBoundingClientRect().bottom + scrollY];
        }})()"""
    )
    return browser.picture(box[0], box[1] - box[0])


def take_pictures(notebook: nbformat.NotebookNode, program: str) -> None:
    """Write one picture in light, of two answers, and one in dark, of a question that is not answered."""
    IMAGES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        chromium(program, Path(profile)) as browser,
    ):
        for name, theme, first, last, unfolded in (
            ("quickstart.png", "light", "a 429 mean and", "退款政策是什么", (".kb-answer > details", ".kb-found")),
            ("quickstart-dark.png", "dark", "5. A question", "Who won", (".kb-none > details",)),
        ):
            browser.look(dark=theme == "dark", width=WIDTH, scale=SCALE)
            browser.show(as_page(notebook, theme))
            (IMAGES / name).write_bytes(picture(browser, first, last, unfolded))
            print(IMAGES / name)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", action="store_true", help="also write docs/images/")
    options = parser.parse_args()
    program = find_chromium()
    if options.pictures and program is None:
        sys.exit("error: no Chromium is installed; name one in CHROMIUM")
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    run(notebook)
    nbformat.write(notebook, NOTEBOOK)  # type: ignore[no-untyped-call]
    if options.pictures and program is not None:
        take_pictures(notebook, program)


if __name__ == "__main__":
    main()
