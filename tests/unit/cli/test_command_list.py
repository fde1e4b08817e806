# SPDX-License-Identifier: Apache-2.0
"""The list of the commands imports none of them, and is up to date."""

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import testtools

from hvstack.cli import command_summaries

TOP = Path(__file__).parents[3]
#: Modules of the command line that the list needs.
MODULES = {
    *('app', 'commands', 'command_list', 'command_summaries', 'options'),
    'streams',
}
#: Packages that take long to import.
HEAVY = {
    *('plotly', 'openstack', 'rally', 'tempest', 'numpy', 'scipy'),
    *('sqlalchemy', 'keystoneauth1', 'yaml', 'cryptography', 'oslo_config'),
}
#: Modules of commands that need no cloud, or only with an option.
LOCAL = (
    *('baseline', 'cluster_size', 'flavor', 'flavor_approve', 'flavor_lint'),
    *('host', 'host_nova_conf', 'key', 'record', 'report', 'study', 'sweep'),
    *('sweep_plan', 'sweep_run', 'sweep_trials', 'task', 'template'),
)
#: Packages that only commands import that use them.
CLOUD = {'plotly', 'openstack', 'keystoneauth1', 'rally', 'tempest'}
SHOW = 'import sys\nprint(*sys.modules, file=sys.stderr)\n'
PROGRAM = f"""\
from hvstack.cli import app
try:
    app.main(['--help'])
except SystemExit:
    pass
{SHOW}"""


def list_entry_points() -> Iterator[tuple[str, str, str]]:
    """Yield the name, the module and the class of each command."""
    text = (TOP / 'pyproject.toml').read_text('utf-8')
    group = tomllib.loads(text)['project']['entry-points']['hvstack.cli']
    for name, value in group.items():
        yield name.replace('_', ' '), *value.split(':')


def parse_class(module: str, name: str) -> ast.ClassDef:
    """Return a class of a module, which is not imported."""
    path = TOP / f'{module.replace(".", "/")}.py'
    tree = ast.parse(path.read_text('utf-8'))
    (definition,) = (
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    return definition


def list_extras(definition: ast.ClassDef) -> list[str]:
    """Return the extras that a command requires, sorted."""
    return sorted(
        ast.literal_eval(decorator.args[0])
        for function in definition.body
        if isinstance(function, ast.FunctionDef)
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call)
        and ast.unparse(decorator.func) == 'extras.required'
    )


class SummariesTest(testtools.TestCase):
    """Summaries and extras are those of the classes."""

    def test_summaries(self) -> None:
        summaries = {
            name: (ast.get_docstring(parse_class(*value)) or '').split('\n')[0]
            for name, *value in list_entry_points()
        }
        stored = dict(command_summaries.SUMMARIES)
        for name in ('complete', 'help'):
            del stored[name]
        self.assertEqual(summaries, stored)

    def test_extras(self) -> None:
        extras = {
            name: tuple(list_extras(parse_class(*value)))
            for name, *value in list_entry_points()
        }
        self.assertEqual(
            {name: names for name, names in extras.items() if names},
            dict(command_summaries.EXTRAS),
        )


def list_modules(program: str) -> tuple[str, set[str]]:
    """Run a program in a process of its own.

    :returns: its output, and the names of the modules that it imported.
    """
    done = subprocess.run(
        [sys.executable, '-c', program],
        env={**os.environ, 'PYTHONPATH': str(TOP)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, set(done.stderr.split())


class ImportsTest(testtools.TestCase):
    """What processes of their own import."""

    def test_list_imports_no_command(self) -> None:
        output, modules = list_modules(PROGRAM)
        self.assertIn('\n  sweep run      Search a space of', output)
        self.assertEqual(
            {f'hvstack.cli.{name}' for name in MODULES},
            {name for name in modules if name.startswith('hvstack.cli.')},
        )
        packages = {name.partition('.')[0] for name in modules}
        self.assertEqual(set(), packages & HEAVY)

    def test_commands_without_a_cloud(self) -> None:
        imports = ''.join(f'import hvstack.cli.{name}\n' for name in LOCAL)
        _, modules = list_modules(f'{imports}{SHOW}')
        packages = {name.partition('.')[0] for name in modules}
        self.assertIn('hvstack', packages)
        self.assertEqual(set(), packages & CLOUD)
