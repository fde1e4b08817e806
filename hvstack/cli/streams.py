# SPDX-License-Identifier: Apache-2.0
"""Standard output and error that cannot control the terminal."""

from typing import Any, TextIO

from hvstack import textfile


class PrintableStream:
    """A text stream that escapes control characters.

    Names and messages of a cloud, records and files of others end up on the
    terminal of an operator. Characters that the stream's encoding lacks are
    escaped, too.

    :param raw: the stream that is written to; files that are not for a
        terminal, such as pages, are written to it directly.
    """

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        """Write a text with escapes for what is not printable."""
        text = textfile.printable(text)
        encoding = getattr(self.raw, 'encoding', None) or 'utf-8'
        self.raw.write(
            text.encode(encoding, 'backslashreplace').decode(encoding)
        )
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)
