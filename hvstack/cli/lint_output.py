# SPDX-License-Identifier: Apache-2.0
"""Formats of lint's findings: readable text, JSON and CI reports."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from xml.etree import ElementTree

from hvstack.model.catalogue import Catalogue
from hvstack.model.lint import ERROR, RULES, SET_RULE, SPEC_RULES, Violation
from hvstack.model.plain_data import JsonObject

FORMS = ('table', 'json', 'sarif', 'junit')

#: Title of each rule, by id.
TITLES = dict(
    [
        *sorted((rule, title) for rule, _, title, _ in (*RULES, *SPEC_RULES)),
        (SET_RULE[0], SET_RULE[2]),
    ]
)


def render(
    form: str, checked: Catalogue, violations: Sequence[Violation]
) -> str:
    """Return findings in one of :data:`FORMS`."""
    if form == 'json':
        return (
            json.dumps(
                [asdict(violation) for violation in violations], indent=1
            )
            + '\n'
        )
    if form == 'sarif':
        return json.dumps(sarif(violations), indent=1) + '\n'
    if form == 'junit':
        return junit(checked, violations)
    return table(violations)


def table(violations: Sequence[Violation]) -> str:
    """Return findings as readable text by flavor, with errors first."""
    faulty_flavors = {
        violation.flavor
        for violation in violations
        if violation.level == ERROR
    }
    ordered = sorted(
        violations,
        key=lambda violation: (
            violation.flavor not in faulty_flavors,
            violation.flavor,
        ),
    )
    lines = []
    for flavor, group in groupby(
        ordered, key=lambda violation: violation.flavor
    ):
        lines.append(flavor)
        lines += [
            f'  {violation.where}: {violation.rule} {violation.level}, '
            f'{violation.field}\n    {violation.message}'
            for violation in group
        ]
    return ''.join(f'{line}\n' for line in lines)


def sarif(violations: Sequence[Violation]) -> JsonObject:
    """Return findings in SARIF 2.1.0, which CI systems read."""
    results: list[JsonObject] = []
    for violation in violations:
        path, _, line = violation.where.rpartition(':')
        results.append(
            {
                'ruleId': violation.rule,
                'level': violation.level,
                'message': {
                    'text': f'{violation.flavor}, {violation.field}: '
                    f'{violation.message}'
                },
                'locations': [
                    {
                        'physicalLocation': {
                            'artifactLocation': {'uri': path},
                            'region': {'startLine': int(line)},
                        }
                    }
                ],
            }
        )
    return {
        'version': '2.1.0',
        '$schema': 'https://json.schemastore.org/sarif-2.1.0.json',
        'runs': [
            {
                'tool': {
                    'driver': {
                        'name': 'hvstack flavor lint',
                        'rules': [
                            {'id': rule, 'shortDescription': {'text': title}}
                            for rule, title in TITLES.items()
                        ],
                    }
                },
                'results': results,
            }
        ],
    }


def junit(checked: Catalogue, violations: Sequence[Violation]) -> str:
    """Return findings as JUnit's XML: each flavor a suite, each rule a case.

    Errors are failures. Warnings are output of a case that passes.
    """
    root = ElementTree.Element('testsuites', name='hvstack flavor lint')
    for entry in checked.entries:
        name = entry.flavor.name
        suite = ElementTree.SubElement(
            root, 'testsuite', name=name, tests=str(len(TITLES))
        )
        failures = 0
        for rule, title in TITLES.items():
            case = ElementTree.SubElement(
                suite, 'testcase', classname=name, name=f'{rule} {title}'
            )
            broken = [
                violation
                for violation in violations
                if (violation.flavor, violation.rule) == (name, rule)
            ]
            text = ''.join(f'{violation}\n' for violation in broken)
            if any(violation.level == ERROR for violation in broken):
                failures += 1
                ElementTree.SubElement(
                    case, 'failure', type=rule, message=broken[0].message
                ).text = text
            elif broken:
                ElementTree.SubElement(case, 'system-out').text = text
        suite.set('failures', str(failures))
    ElementTree.indent(root)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        + ElementTree.tostring(root, encoding='unicode')
        + '\n'
    )
