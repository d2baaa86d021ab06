"""Why a file of a suffix that no loader reads is left out, and what would help."""

from __future__ import annotations

from collections.abc import Collection

_KINDS = (
    (".doc .dot", "an old Word file; save it as .docx"),
    (".ppt .pps .pot", "old PowerPoint slides; save them as .pptx"),
    (".odp .key", "slides of another program; export them as .pptx or .pdf"),
    (".xls .xlt .xlsx .xlsm .xlsb .xltx .ods .numbers", "a spreadsheet; export each sheet as .csv"),
    (".odt .ott .rtf .pages .wps .wpd .hwp", "a text of another word processor; save it as .docx or .pdf"),
    (".mobi .azw .azw3 .fb2", "an e-book of another format; convert it to .epub or .pdf"),
    (".ps .eps .xps .oxps .djvu", "pages of another format; convert them to .pdf, with OCR if they are scans"),
    (
        ".png .jpg .jpeg .gif .bmp .tif .tiff .webp .heic .avif .svg .psd",
        "a picture; if it shows words, run OCR on it, for example into a PDF with a text layer",
    ),
    (".zip .tar .gz .tgz .bz2 .xz .zst .7z .rar", "an archive; unpack it below the folder"),
    (
        ".mp3 .wav .m4a .aac .flac .ogg .opus .mp4 .m4v .mov .avi .mkv .webm",
        "a recording; add a transcript of it as .txt",
    ),
    (".eml .msg .mbox .pst .ost", "mail; save the messages as .txt or .pdf"),
)
_ADVICE = {suffix: advice for suffixes, advice in _KINDS for suffix in suffixes.split()}


def why_not_read(suffix: str, readable: Collection[str]) -> str:
    """The reason for a report.

    Args:
        suffix: Lower case, with the dot; empty when the name has none.
        readable: The suffixes that are read; whatever is among these, nobody asks for.
    """
    if suffix in _ADVICE:
        return f"no loader reads {suffix}: {_ADVICE[suffix]}"
    shown = suffix if suffix[1:].isalnum() else repr(suffix)  # "name.md " would look like a suffix that is read
    kind = f"no loader reads {shown}" if suffix else "no suffix says what it is"
    return f"{kind}; readable are {', '.join(sorted(readable))}"
