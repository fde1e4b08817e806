# SPDX-License-Identifier: Apache-2.0
"""Reports of an acceptance as JSON, JUnit XML and HTML."""

import json
from pathlib import Path
from xml.etree import ElementTree

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from hvstack import paths
from hvstack.accept.test_results import (
    FAILED,
    PASSED,
    SCOPES,
    AcceptanceResult,
    AcceptanceTestResult,
)

_NAMES = ('report.json', 'report.xml', 'report.html')


def write_report(acceptance: AcceptanceResult, directory: Path) -> list[Path]:
    """Write the report in all formats and return the files."""
    texts = (
        json.dumps(acceptance.to_mapping(), indent=1) + '\n',
        render_junit(acceptance),
        render_page(acceptance),
    )
    files = [directory / name for name in _NAMES]
    for path, text in zip(files, texts, strict=True):
        paths.write_whole(path, text)
    return files


def delete_report(directory: Path) -> None:
    """Delete the report of an earlier run, so that a failed run has none."""
    for name in _NAMES:
        (directory / name).unlink(missing_ok=True)


def render_junit(acceptance: AcceptanceResult) -> str:
    """Return the results as JUnit XML, where "not checked" is skipped."""
    root = ElementTree.Element('testsuites', name='hvstack accept')
    for scope in (*SCOPES, ''):
        results = [
            result for result in acceptance.results if result.scope == scope
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


def _case(suite: ElementTree.Element, result: AcceptanceTestResult) -> None:
    name, _, test = result.test.rpartition('.')
    case = ElementTree.SubElement(
        suite, 'testcase', classname=name, name=test, time=str(result.seconds)
    )
    if result.verdict == FAILED:
        ElementTree.SubElement(
            case, 'failure', message=_remove_control_characters(result.reason)
        )
    elif result.verdict != PASSED:
        ElementTree.SubElement(
            case, 'skipped', message=_remove_control_characters(result.reason)
        )
    if result.check_results:
        ElementTree.SubElement(
            case, 'system-out'
        ).text = _remove_control_characters(
            ''.join(
                f'{"ok" if check.good else "BAD"} {check}\n'
                for check in result.check_results
            )
        )


def _remove_control_characters(text: str) -> str:
    """Return a text without characters that XML does not allow."""
    return ''.join(
        char for char in text if char.isprintable() or char in '\n\t'
    )


def render_page(acceptance: AcceptanceResult) -> str:
    """Return the results as an HTML page that needs no network."""
    jinja_env = Environment(
        loader=PackageLoader('hvstack.accept', ''),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja_env.globals['mark'] = _format_verdict
    return jinja_env.get_template('report.html.j2').render(
        acceptance=acceptance
    )


def _format_verdict(verdict: str) -> Markup:
    """Return a verdict with markup that highlights bad verdicts."""
    return Markup('<span class="{}">{}</span>').format(
        verdict.partition(' ')[0], escape(verdict)
    )
