# SPDX-License-Identifier: Apache-2.0
"""Links and names of the documentation that Sphinx does not check."""

import re
from pathlib import Path

import testtools
import yaml

from hvstack.report import published
from hvstack.results import compare

TOP = Path(__file__).parents[2]
SOURCE = TOP / 'doc' / 'source'


def links(path: Path) -> set[str]:
    """Return the relative links of a page in Markdown."""
    targets = re.findall(r'\]\(([^)#]+)[^)]*\)', path.read_text('utf-8'))
    return {target for target in targets if '://' not in target}


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

    def test_bibliography_has_every_short_name(self) -> None:
        text = ' '.join((SOURCE / 'bibliography.rst').read_text().split())
        path = Path(published.__file__).with_suffix('.yaml')
        papers = yaml.safe_load(path.read_text('utf-8'))['papers']
        self.assertEqual(5, len(papers))
        for name in papers:
            self.assertRegex(text, rf' {name} [A-Z]', name)

    def test_every_compared_fact_is_in_the_reference(self) -> None:
        text = (SOURCE / 'reference' / 'records.rst').read_text()
        for name in (*compare.WITH_BASELINE, *compare.ALIKE, *compare.SHOWN):
            self.assertIn(f'``{name}``', text)

    def test_every_page_is_in_the_guide_of_its_directory(self) -> None:
        for name in ('user', 'operator', 'reference', 'contributor'):
            (index,) = (SOURCE / name).glob('index.*')
            lines = {line.strip() for line in index.read_text().splitlines()}
            pages = {path.stem for path in (SOURCE / name).iterdir()}
            self.assertEqual(set(), pages - {'index'} - lines)
