# SPDX-License-Identifier: Apache-2.0
"""Fixed numbers in the code have a reason in the documentation."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import testtools

import hvstack

_PACKAGE = Path(hvstack.__file__).parent
_PAGE = _PACKAGE.parent / 'doc' / 'source' / 'contributor' / 'limits.md'
#: Names of numbers of seconds, of sizes and of maxima.
_LIMIT = re.compile(
    r'SECONDS|TIMEOUT|_MIB|BYTES|MAX_(?!.*(DIGITS|LENGTH|TEXT'
    r'|COMMENT|ARGUMENT|VALUES|BARS|ROWS|POINTS|NODES|GAPS'
    r'|NAMED|CHECKED|DEGREES|SHARE|RATIO|DEVIATION))'
    r'|LONGEST'
)
_ROW = re.compile(r'\| `([a-z_.]+)` \| ([^|]+) \|')


def list_numbers(text: str) -> Iterator[str]:
    """Yield the names of the numbers that a module defines."""
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        else:
            continue
        for target in targets:
            elements = (
                target.elts if isinstance(target, ast.Tuple) else [target]
            )
            for element in elements:
                if isinstance(element, ast.Name) and not any(
                    isinstance(part, ast.Call | ast.Constant)
                    and not isinstance(
                        getattr(part, 'value', None), int | float
                    )
                    for part in ast.walk(statement.value or element)
                ):
                    yield element.id


class LimitsTest(testtools.TestCase):
    def test_every_limit_has_a_reason(self) -> None:
        page = _PAGE.read_text(encoding='utf-8')
        documented = {
            f'{module}.{name}'
            for module, names in _ROW.findall(page)
            for name in re.findall(r'`(\w+)`', names)
        }
        defined = set()
        for path in _PACKAGE.rglob('*.py'):
            module = '.'.join(path.relative_to(_PACKAGE).with_suffix('').parts)
            if module.startswith('lab.'):
                continue
            text = path.read_text(encoding='utf-8')
            defined |= {f'{module}.{name}' for name in list_numbers(text)}
        limits = {
            name for name in defined if _LIMIT.search(name.rpartition('.')[2])
        }
        self.assertEqual(set(), limits - documented)
        self.assertEqual(set(), documented - defined)
