"""The file of a form (`curl -F file=@clip.mp4`), passed on as it arrives and written once."""

from collections.abc import AsyncIterator

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from watchword.errors import WatchwordError

OVERHEAD = 64_000  # bytes of a form beside its file


class BadForm(WatchwordError):  # noqa: N818
    """The body is no form with a file."""


class FormFile:
    """The first file of a form. Its name is known when its first bytes are."""

    def __init__(self, content_type: str) -> None:
        _, options = parse_options_header(content_type)
        self.name, self.has_file, self.is_complete = "", False, False
        self._field, self._value, self._headers = b"", b"", dict[bytes, bytes]()
        self._is_reading, self._held = False, bytearray()
        try:
            self._parser = MultipartParser(
                options.get(b"boundary", b""),
                {
                    "on_part_begin": self._begin,
                    "on_header_field": self._add_field,
                    "on_header_value": self._add_value,
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._end_headers,
                    "on_part_data": self._add_data,
                    "on_part_end": self._end,
                    "on_end": self._end_form,
                },
            )
        except FormParserError as error:
            raise BadForm(f"a form that cannot be read: {error}") from error

    async def chunks(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The bytes of the file."""
        others = 0
        async for chunk in body:
            try:
                self._parser.write(chunk)
            except FormParserError as error:
                raise BadForm(f"a form that cannot be read: {error}") from error
            others += len(chunk) - len(self._held)
            if others > OVERHEAD:
                raise BadForm("a form with more than one file: send one file, as curl -F file=@clip.mp4 does")
            if self._held:
                yield bytes(self._held)
                self._held.clear()
        if not (self.has_file and self.is_complete):
            raise BadForm("a form without a whole file: send one, as curl -F file=@clip.mp4 does")

    # --- callbacks of the parser -----------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._headers = {}

    def _add_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _add_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        self._headers[self._field.lower()] = self._value
        self._field = self._value = b""

    def _end_headers(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        if b"filename" in options and not self.has_file:
            self.name = options[b"filename"].decode("utf-8", "replace")
            self.has_file = self._is_reading = True

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_reading:
            self._held += data[start:end]

    def _end(self) -> None:
        self._is_reading = False

    def _end_form(self) -> None:
        self.is_complete = True
