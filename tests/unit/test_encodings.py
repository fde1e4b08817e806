# SPDX-License-Identifier: Apache-2.0
"""Text files are UTF-8 everywhere, whatever the locale is.

Ruff's rule for this sees only calls on names whose type it can infer.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import testtools

import hvstack

_TOP = Path(hvstack.__file__).parent
#: Position of the encoding among the arguments of each method.
_ENCODING = {'read_text': 0, 'write_text': 1, 'open': 2}


def unspecified(text: str) -> Iterator[int]:
    """Yield the lines of calls that leave the encoding to the locale."""
    for call in ast.walk(ast.parse(text)):
        if not isinstance(call, ast.Call) or not isinstance(
            call.func, ast.Attribute
        ):
            continue
        position = _ENCODING.get(call.func.attr)
        if position is None or len(call.args) > position:
            continue
        names = {keyword.arg for keyword in call.keywords}
        mode = call.args[0] if call.args else ast.Constant('r')
        if call.func.attr == 'open' and not (
            isinstance(mode, ast.Constant)
            and str(mode.value).strip('+') in ('r', 'w', 'a', 'x')
        ):
            continue
        if not names & {'encoding', 'fileobj'}:
            yield call.lineno


class EncodingTest(testtools.TestCase):
    def test_every_text_file_names_its_encoding(self) -> None:
        calls = [
            f'{path.relative_to(_TOP)}:{line}'
            for path in sorted(_TOP.rglob('*.py'))
            for line in unspecified(path.read_text('utf-8'))
        ]
        self.assertEqual([], calls)

    def test_the_check_itself(self) -> None:
        text = (
            "p.read_text()\np.read_text('utf-8')\np.open('rb')\n"
            "p.open('w')\np.open('w', encoding='utf-8')\np.open()\n"
        )
        self.assertEqual([1, 4, 6], sorted(unspecified(text)))
