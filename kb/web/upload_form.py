"""A multipart form with one file, read as it comes: nothing of the file is kept here.

Source: RFC 7578, Returning Values from Forms: multipart/form-data, https://www.rfc-editor.org/rfc/rfc7578
"""

from __future__ import annotations

import logging

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from kb.web.refusals import Refusal

# Else it writes to stderr whatever a client sends that is wrong.
logging.getLogger("python_multipart").addHandler(logging.NullHandler())

_FIELD = "file"
_NO_FORM = "an upload is a form, multipart/form-data, with one file in the field 'file'"


class UploadForm:
    """The body of an upload."""

    def __init__(self, content_type: str) -> None:
        """Read the header.

        Raises:
            Refusal: it is no form with a boundary.
        """
        kind, options = parse_options_header(content_type)
        if kind != b"multipart/form-data":
            raise Refusal(415, "unsupported", _NO_FORM)
        boundary = options.get(b"boundary", b"")
        try:
            self._parser = MultipartParser(
                boundary or b"?",
                {
                    "on_part_begin": self._part_begins,
                    "on_header_field": self._header_name,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_ends,
                    "on_headers_finished": self._headers_end,
                    "on_part_data": self._data,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise _wrong("its boundary is too long") from error
        if not boundary:
            raise _wrong("it has no boundary")
        self.name: str | None = None
        """The file's name as the client gave it; None as long as the file has not begun."""
        self._ended = False
        self._pieces: list[bytes] = []
        self._header = (b"", b"")
        self._disposition = b""

    def feed(self, body: bytes) -> list[bytes]:
        """Take more of the body; gives what it holds of the file.

        Raises:
            Refusal: it is no form, or one of several files or other fields.
        """
        try:
            self._parser.write(body)
        except FormParserError as error:
            raise _wrong("it is damaged") from error
        pieces, self._pieces = self._pieces, []
        return pieces

    def finish(self) -> None:
        """See to it that the form has come to its end, and had a file.

        Raises:
            Refusal: it has not.
        """
        if not self._ended:
            raise _wrong("its end is missing")
        if self.name is None:
            raise Refusal(422, "no_file", _NO_FORM)

    def _part_begins(self) -> None:
        self._disposition = b""

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._header = (self._header[0] + data[start:end], b"")

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._header = (self._header[0], self._header[1] + data[start:end])

    def _header_ends(self) -> None:
        name, value = self._header
        self._header = (b"", b"")
        if name.lower() == b"content-disposition":
            self._disposition = value

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._disposition)
        field = options.get(b"name", b"").decode("utf-8", "replace")
        filename = options.get(b"filename")
        if field == "collection":
            raise Refusal(422, "bad_request", "the collection goes into the address: POST /documents?collection=NAME")
        if field != _FIELD or filename is None:
            raise Refusal(422, "no_file", _NO_FORM)
        if self.name is not None:
            raise Refusal(422, "several_files", "an upload holds one file; send each by itself")
        self.name = filename.decode("utf-8", "replace")

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._pieces.append(data[start:end])

    def _end(self) -> None:
        self._ended = True


def _wrong(what: str) -> Refusal:
    return Refusal(400, "bad_request", f"the form cannot be read: {what}")
