# SPDX-License-Identifier: Apache-2.0
"""Directives for reference pages that follow from the code.

``heat-template``     parameters and outputs of a Heat template
``heat-environments`` environment files and what they set
``rally-plugins``     contexts, scenario, SLAs and their arguments
``rally-tasks``       tasks of the package, with their arguments
``tempest-tests``     tests of the Tempest plugin, with their ids
``record-fields``     fields of a run record
``nova-conf``         settings of compute hosts for a host profile
``renames``           table of the names that changed
"""

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from hvstack import share

TOP = Path(__file__).resolve().parents[2]
RENAMES = TOP / 'tests' / 'golden' / 'renames.tsv'


def escape(text: str) -> str:
    """Return a text without markup."""
    return re.sub(r'([\\*`|_])', r'\\\1', ' '.join(str(text).split()))


def literal(text: object) -> str:
    """Return a text as a literal; an empty one stays empty."""
    plain = ' '.join(str(text).split())
    return f'``{plain}``' if plain else ''


def sentence(text: str) -> str:
    """Return a text with a period at its end."""
    return text if not text or text.endswith('.') else f'{text}.'


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Return a table in reStructuredText."""
    lines = ['.. list-table::', '   :header-rows: 1', '   :widths: auto', '']
    for row in [header, *rows]:
        for index, cell in enumerate(row):
            lines.append(f'   {"*" if index == 0 else " "} - {cell}'.rstrip())
    return [*lines, '']


def heading(text: str, mark: str = '-') -> list[str]:
    """Return the lines of a heading, underlined with a character."""
    return [text, mark * len(text), '']


class _Generated(SphinxDirective):
    """A directive that writes reStructuredText."""

    def lines(self) -> list[str]:
        """Return the text."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        content = StringList(self.lines(), source=self.name)
        return self.parse_text_to_nodes(
            '\n'.join(content), allow_section_headings=True
        )


def _load(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding='utf-8'))
    return content


def _constraints(constraints: list[dict[str, Any]]) -> str:
    """Return the constraints of a template parameter as text."""
    texts = []
    for constraint in constraints:
        for name, value in constraint.items():
            if name == 'allowed_values':
                values = ', '.join(literal(item) for item in value)
                texts.append(f'Allowed values: {values}.')
            elif name in ('range', 'length'):
                bounds = ', '.join(f'{key} {value[key]}' for key in value)
                texts.append(f'{name.capitalize()}: {bounds}.')
            elif name == 'allowed_pattern':
                texts.append(f'Pattern: {literal(value)}.')
            elif name == 'custom_constraint':
                texts.append(f'Checked by Heat: {literal(value)}.')
    return ' '.join(texts)


class HeatTemplate(_Generated):
    """Describe a template: ``.. heat-template:: hadoop-cluster.yaml``."""

    required_arguments = 1

    def lines(self) -> list[str]:
        content = _load(share.HEAT_TEMPLATES / self.arguments[0])
        lines = [escape(content.get('description', '')), '']
        rows = []
        for name, item in content.get('parameters', {}).items():
            text = sentence(escape(item.get('description', '')))
            text = f'{text} {_constraints(item.get("constraints", []))}'
            default = item.get('default', '')
            rows.append(
                (
                    literal(name),
                    item['type'],
                    literal(default if default != '' else "''")
                    if 'default' in item
                    else 'none: it is required',
                    text.strip(),
                )
            )
        if rows:
            header = ('Parameter', 'Type', 'Default', 'Description')
            lines += table(header, rows)
        rows = [
            (literal(name), escape(item.get('description', '')))
            for name, item in content.get('outputs', {}).items()
        ]
        if rows:
            lines += table(('Output', 'Description'), rows)
        return lines


class HeatEnvironments(_Generated):
    """Describe the environment files of the package."""

    def lines(self) -> list[str]:
        rows = []
        directory = share.HEAT_TEMPLATES / 'environments'
        for path in sorted(directory.glob('*.yaml')):
            text = path.read_text(encoding='utf-8')
            comment = ' '.join(
                line.lstrip('# ')
                for line in text.splitlines()
                if line.startswith('#') and 'SPDX' not in line
            )
            content = yaml.safe_load(text) or {}
            sets = [
                literal(f'{name}: {value}')
                for key in ('parameters', 'resource_registry')
                for name, value in content.get(key, {}).items()
            ]
            rows.append((literal(path.stem), escape(comment), ', '.join(sets)))
        return table(('File', 'Purpose', 'Values'), rows)


def _documented(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Return the summary of a docstring and its ``:param:`` texts."""
    text = inspect.cleandoc(docstring or '')
    summary = re.split(r'\n\s*\n|\n:', text)[0]
    parameters = re.findall(
        r'^:param (\w+):\s*(.*?)(?=^:|\Z)', text, re.MULTILINE | re.DOTALL
    )
    return ' '.join(summary.split()), {
        name: ' '.join(value.split()) for name, value in parameters
    }


def _markup(text: str) -> str:
    """Return docstring text, with its roles as literals."""
    text = re.sub(r':\w+:`~?([^`]*)`', r'``\1``', text)
    return ' '.join(text.split())


class RallyPlugins(_Generated):
    """Describe the Rally plugins of the package."""

    def lines(self) -> list[str]:
        from rally.common.plugin import plugin
        from rally.task import context, scenario, sla

        package = importlib.import_module('hvstack.rally_plugins')
        classes: dict[str, type] = {}
        for module in pkgutil.iter_modules(package.__path__):
            name = f'{package.__name__}.{module.name}'
            for item in vars(importlib.import_module(name)).values():
                if (
                    inspect.isclass(item)
                    and item.__module__ == name
                    and issubclass(item, plugin.Plugin)
                    and item._meta_is_inited(raise_exc=False)
                ):
                    classes[item.get_name()] = item
        rows = []
        arguments: list[str] = []
        for base, kind in (
            (scenario.Scenario, 'Scenario'),
            (context.Context, 'Context'),
            (sla.SLA, 'SLA'),
            (object, 'Other'),
        ):
            for name, item in list(classes.items()):
                if not issubclass(item, base):
                    continue
                del classes[name]
                summary, _ = _documented(item.__doc__)
                rows.append((literal(name), kind, _markup(summary)))
                if kind == 'Scenario':
                    arguments += self._arguments(name, item)
        return [*table(('Plugin', 'Kind', 'Purpose'), rows), *arguments]

    @staticmethod
    def _arguments(name: str, item: Any) -> list[str]:
        summary, texts = _documented(item.run.__doc__)
        rows = [
            (
                literal(parameter.name),
                'required'
                if parameter.default is inspect.Parameter.empty
                else literal(parameter.default),
                _markup(texts.get(parameter.name, '')),
            )
            for parameter in inspect.signature(item.run).parameters.values()
            if parameter.name != 'self'
        ]
        return [
            *heading(f'Arguments of {name}'),
            _markup(summary),
            '',
            'The contexts take the same arguments as the scenario.',
            '',
            *table(('Argument', 'Default', 'Description'), rows),
        ]


class RallyTasks(_Generated):
    """Describe the Rally tasks of the package by their header comments."""

    def lines(self) -> list[str]:
        lines: list[str] = []
        for path in sorted(share.RALLY_TASKS.glob('*.yaml')):
            header = re.match(
                r'{#-[^\n]*\n(.*?)-#}',
                path.read_text(encoding='utf-8'),
                re.DOTALL,
            )
            text = textwrap.dedent(header[1]).strip() if header else ''
            description, _, usage = text.partition('\n\n')
            lines += [
                *heading(path.name),
                escape(description),
                '',
                '.. code-block:: none',
                '',
                *textwrap.indent(usage, '   ').splitlines(),
                '',
            ]
        return lines


class TempestTests(_Generated):
    """Describe the tests of the Tempest plugin."""

    def lines(self) -> list[str]:
        lines: list[str] = []
        root = TOP / 'hvstack' / 'tempest_plugin' / 'tests'
        scopes: dict[str, list[tuple[str, ...]]] = {}
        for path in sorted(root.rglob('test_*.py')):
            for row in _tests(path):
                scopes.setdefault(path.parent.name, []).append(row)
        for scope in ('tenant', 'operator', 'host'):
            lines += heading(f'Tests that need the access "{scope}"')
            lines += table(
                ('Test', 'What it checks', 'Idempotent id'), scopes.pop(scope)
            )
        if scopes:
            raise self.error(f'unknown directories: {", ".join(scopes)}')
        return lines


def _tests(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield name, docstring and id of each test of a module."""
    for group in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        if not isinstance(group, ast.ClassDef):
            continue
        for item in group.body:
            for decorator in getattr(item, 'decorator_list', []):
                text = ast.unparse(decorator)
                if text.startswith('decorators.idempotent_id('):
                    summary = (ast.get_docstring(item) or '').split('\n\n')[0]
                    yield (
                        literal(f'{path.stem}.{group.name}.{item.name}'),
                        _markup(summary),
                        literal(ast.literal_eval(decorator.args[0])),
                    )


class RecordFields(_Generated):
    """Describe the fields of a run record."""

    def lines(self) -> list[str]:
        from hvstack.results import record_data, record_schema

        schema = record_schema.build_record_schema()['properties']
        texts: dict[str, str] = {}
        for cls in (record_data.StoredRecord, record_data.RunWorkload):
            _, documented = _documented(cls.__doc__)
            for field in dataclasses.fields(cls):
                key = field.metadata.get('key', field.name)
                texts[key] = documented.get(field.name, '')
        rows = [
            (literal(key), literal(value['type']), _markup(texts[key]))
            if key in texts
            else (
                literal(key),
                literal(value['type']),
                escape(value['description']),
            )
            for key, value in schema.items()
        ]
        return table(('Field', 'Type', 'Description'), rows)


class Renames(_Generated):
    """Show the table of renames."""

    def lines(self) -> list[str]:
        self.env.note_dependency(str(RENAMES))
        rows = []
        for line in RENAMES.read_text(encoding='utf-8').splitlines():
            if line and not line.startswith('#'):
                old, new, scope = line.split('\t')
                rows.append(
                    (
                        literal(old),
                        literal(new),
                        'everywhere' if scope == '*' else literal(scope),
                    )
                )
        if not rows:
            return ['No name has changed yet.', '']
        return table(('Old name', 'New name', 'Where'), rows)


class NovaConf(SphinxDirective):
    """Show settings: ``.. nova-conf:: vsphere6 i1-dedicated kernel``.

    The arguments are a host profile, a configuration and names of files. The
    pages with it are in Markdown, to which a comment would be a heading.
    """

    required_arguments = 3
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        from hvstack import host_profiles
        from hvstack.model import configuration, host_files, host_settings

        name, label, names = self.arguments
        profile = host_profiles.load(name)
        settings = configuration.parse(label)
        texts = host_files.render_files(
            profile,
            settings,
            host_settings.compute_host_settings(profile, settings.cpu_policy),
        )
        return [
            nodes.literal_block(texts[part], texts[part], language='ini')
            for part in names.split()
        ]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    for name, directive in (
        ('heat-template', HeatTemplate),
        ('heat-environments', HeatEnvironments),
        ('rally-plugins', RallyPlugins),
        ('rally-tasks', RallyTasks),
        ('tempest-tests', TempestTests),
        ('record-fields', RecordFields),
        ('nova-conf', NovaConf),
        ('renames', Renames),
    ):
        app.add_directive(name, directive)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
