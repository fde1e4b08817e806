# SPDX-License-Identifier: Apache-2.0
"""Forms of an acceptance's report: JSON, JUnit, HTML."""

import json
from pathlib import Path
from xml.etree import ElementTree

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from hvstack import paths
from hvstack.accept.outcome import FAILED, PASSED, RINGS, Outcome, Result

_NAMES = ('report.json', 'report.xml', 'report.html')


def write(acceptance: Outcome, directory: Path) -> list[Path]:
    """Write all forms and return their files."""
    texts = (
        json.dumps(acceptance.to_mapping(), indent=1) + '\n',
        junit(acceptance),
        page(acceptance),
    )
    files = [directory / name for name in _NAMES]
    for path, text in zip(files, texts, strict=True):
        paths.write_whole(path, text)
    return files


def forget(directory: Path) -> None:
    """Delete an earlier run's report: a run that dies leaves none."""
    for name in _NAMES:
        (directory / name).unlink(missing_ok=True)


def junit(acceptance: Outcome) -> str:
    """Return the results as JUnit's XML; "not checked" is skipped there."""
    root = ElementTree.Element('testsuites', name='hvstack accept')
    for scope in (*RINGS, ''):
        results = [
            result for result in acceptance.results if result.ring == scope
        ]
        if not results:
            continue
        failures = sum(result.verdict == FAILED for result in results)
        passed = sum(result.verdict == PASSED for result in results)
        suite = ElementTree.SubElement(
            root,
            'testsuite',
            name=scope or 'others',
            tests=str(len(results)),
            failures=str(failures),
            skipped=str(len(results) - failures - passed),
        )
        for result in results:
            _case(suite, result)
    ElementTree.indent(root)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        + ElementTree.tostring(root, encoding='unicode')
        + '\n'
    )


def _case(suite: ElementTree.Element, result: Result) -> None:
    name, _, test = result.test.rpartition('.')
    case = ElementTree.SubElement(
        suite, 'testcase', classname=name, name=test, time=str(result.seconds)
    )
    if result.verdict == FAILED:
        ElementTree.SubElement(case, 'failure', message=_plain(result.reason))
    elif result.verdict != PASSED:
        ElementTree.SubElement(case, 'skipped', message=_plain(result.reason))
    if result.judgements:
        ElementTree.SubElement(case, 'system-out').text = _plain(
            ''.join(
                f'{"ok" if check.good else "BAD"} {check.what}: promised '
                f'{check.promised}, seen {check.seen}\n'
                for check in result.judgements
            )
        )


def _plain(text: str) -> str:
    """Return a text without what XML cannot hold."""
    return ''.join(
        char for char in text if char.isprintable() or char in '\n\t'
    )


def page(acceptance: Outcome) -> str:
    """Return the results as a page that opens offline."""
    environment = Environment(
        loader=PackageLoader('hvstack.accept', ''),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals['mark'] = _mark
    return environment.get_template('report.html.j2').render(
        outcome=acceptance
    )


def _mark(verdict: str) -> Markup:
    """Return a verdict that stands out where it is not good."""
    return Markup('<span class="{}">{}</span>').format(
        verdict.partition(' ')[0], escape(verdict)
    )
