# SPDX-License-Identifier: Apache-2.0
"""Links and names of the documentation that Sphinx does not check."""

import importlib.util
import re
from pathlib import Path

import testtools
import yaml

from hvstack.rally_plugins import scenario, slas
from hvstack.report import paper_figures
from hvstack.results import comparability

TOP = Path(__file__).parents[2]
SOURCE = TOP / 'doc' / 'source'
#: Paths of files in the repository.
FILES = (
    r'(?<![\w/.-])(?:hvstack|tests|tools|benchmarks|etc|heat-templates|'
    r'rally-tasks)/[\w./-]+\.(?:py|yaml|conf|cfg|tsv|txt)(?![\w.]*\w)'
)


def links(path: Path) -> set[str]:
    """Return the relative links of a page in Markdown."""
    targets = re.findall(r'\]\(([^)#]+)[^)]*\)', path.read_text('utf-8'))
    return {target for target in targets if '://' not in target}


def exists(name: str) -> bool:
    """Return whether a dotted name is a module, or defined in a module."""
    if name.startswith(('hvstack.conf', 'hvstack.slice')):
        return True
    module = TOP / name.replace('.', '/')
    if module.is_dir() or module.with_suffix('.py').exists():
        return True
    source = module.parent.with_suffix('.py')
    return source.exists() and module.name in source.read_text('utf-8')


class DocumentationTest(testtools.TestCase):
    def test_links_lead_to_files(self) -> None:
        for path in (TOP / 'README.md', *SOURCE.rglob('*.md')):
            for target in links(path):
                self.assertTrue(
                    (path.parent / target).exists(), (path, target)
                )

    def test_paths_in_the_code_exist(self) -> None:
        for directory in ('hvstack', 'tools', 'tests', 'benchmarks'):
            for path in (TOP / directory).rglob('*.py'):
                text = path.read_text('utf-8')
                for name in re.findall(r'\bdoc/[\w./-]+\.(?:md|rst)\b', text):
                    self.assertTrue((TOP / name).exists(), (path, name))

    def test_names_in_the_pages_exist(self) -> None:
        for path in (TOP / 'README.md', *SOURCE.rglob('*.*')):
            # The style guide has examples of former names.
            if path.suffix not in ('.md', '.rst') or path.stem == 'style':
                continue
            text = path.read_text('utf-8')
            for name in re.findall(FILES, text):
                self.assertTrue((TOP / name).exists(), (path, name))
            for name in re.findall(r'`(hvstack(?:\.\w+)+)', text):
                self.assertTrue(exists(name), (path, name))

    def test_bibliography_has_every_short_name(self) -> None:
        text = ' '.join((SOURCE / 'bibliography.rst').read_text().split())
        path = Path(paper_figures.__file__).with_name('published.yaml')
        papers = yaml.safe_load(path.read_text('utf-8'))['papers']
        self.assertEqual(5, len(papers))
        for name in papers:
            self.assertRegex(text, rf' {name} [A-Z]', name)

    def test_every_compared_fact_is_in_the_reference(self) -> None:
        text = (SOURCE / 'reference' / 'records.rst').read_text()
        for name in (
            *comparability.WITH_BASELINE,
            *comparability.WITHIN_KIND,
            *comparability.DISPLAYED_ONLY,
        ):
            self.assertIn(f'``{name}``', text)

    def test_every_page_is_in_the_guide_of_its_directory(self) -> None:
        for name in ('user', 'operator', 'reference', 'contributor'):
            (index,) = (SOURCE / name).glob('index.*')
            lines = {line.strip() for line in index.read_text().splitlines()}
            pages = {path.stem for path in (SOURCE / name).iterdir()}
            self.assertEqual(set(), pages - {'index'} - lines)


class ReferenceTest(testtools.TestCase):
    """What the reference takes from the code."""

    def setUp(self) -> None:
        super().setUp()
        if importlib.util.find_spec('sphinx') is None:
            self.skipTest('not installed: the extra docs')
        path = TOP / 'doc' / 'ext' / 'hvstack_reference.py'
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        self.extension = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.extension)

    def lines(self, name: str, *arguments: str) -> str:
        """Return the output of a directive."""
        directive = getattr(self.extension, name)
        instance = directive.__new__(directive)
        instance.arguments = list(arguments)
        return '\n'.join(instance.lines())

    def test_directives(self) -> None:
        plugins = scenario.TPCxHS, slas.CPUSteal
        for name, argument, *parts in (
            (
                'HeatTemplate',
                'hadoop-cluster.yaml',
                'worker_count',
                'topology',
            ),
            ('HeatEnvironments', '', 'storage-ceph', 'deployment: 2'),
            ('RallyPlugins', '', 'sizes', *(p.get_name() for p in plugins)),
            ('RallyTasks', '', '01-instances.yaml', 'rally task start'),
            ('TempestTests', '', 'test_all_nodes_are_in', 'host'),
            ('RecordFields', '', 'size_bytes', 'digest'),
        ):
            text = self.lines(name, argument)
            for word in parts:
                self.assertIn(word, text)
