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


def write(outcome: Outcome, folder: Path) -> list[Path]:
    """Write all forms and return their files."""
    texts = (
        json.dumps(outcome.to_mapping(), indent=1) + '\n',
        junit(outcome),
        page(outcome),
    )
    files = [folder / name for name in _NAMES]
    for path, text in zip(files, texts, strict=True):
        paths.write_whole(path, text)
    return files


def forget(folder: Path) -> None:
    """Delete an earlier run's report: a run that dies leaves none."""
    for name in _NAMES:
        (folder / name).unlink(missing_ok=True)


def junit(outcome: Outcome) -> str:
    """Return the results as JUnit's XML; "not checked" is skipped there."""
    root = ElementTree.Element('testsuites', name='hvstack accept')
    for ring in (*RINGS, ''):
        results = [one for one in outcome.results if one.ring == ring]
        if not results:
            continue
        failures = sum(one.verdict == FAILED for one in results)
        passed = sum(one.verdict == PASSED for one in results)
        suite = ElementTree.SubElement(
            root,
            'testsuite',
            name=ring or 'others',
            tests=str(len(results)),
            failures=str(failures),
            skipped=str(len(results) - failures - passed),
        )
        for one in results:
            _case(suite, one)
    ElementTree.indent(root)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        + ElementTree.tostring(root, encoding='unicode')
        + '\n'
    )


def _case(suite: ElementTree.Element, one: Result) -> None:
    name, _, test = one.test.rpartition('.')
    case = ElementTree.SubElement(
        suite, 'testcase', classname=name, name=test, time=str(one.seconds)
    )
    if one.verdict == FAILED:
        ElementTree.SubElement(case, 'failure', message=_plain(one.reason))
    elif one.verdict != PASSED:
        ElementTree.SubElement(case, 'skipped', message=_plain(one.reason))
    if one.judgements:
        ElementTree.SubElement(case, 'system-out').text = _plain(
            ''.join(
                f'{"ok" if seen.good else "BAD"} {seen.what}: promised '
                f'{seen.promised}, seen {seen.seen}\n'
                for seen in one.judgements
            )
        )


def _plain(text: str) -> str:
    """Return a text without what XML cannot hold."""
    return ''.join(
        char for char in text if char.isprintable() or char in '\n\t'
    )


def page(outcome: Outcome) -> str:
    """Return the results as a page that opens offline."""
    environment = Environment(
        loader=PackageLoader('hvstack.accept', ''),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals['mark'] = _mark
    return environment.get_template('report.html.j2').render(outcome=outcome)


def _mark(verdict: str) -> Markup:
    """Return a verdict that stands out where it is not good."""
    return Markup('<span class="{}">{}</span>').format(
        verdict.partition(' ')[0], escape(verdict)
    )
