# SPDX-License-Identifier: Apache-2.0
"""Data files are part of the package, and a clone shows them at its top."""

from pathlib import Path

import testtools

from hvstack import share

TOP = Path(__file__).parents[2]
#: Top-level path in a clone of each path below ``hvstack/share``.
LINKS = {
    'flavors': 'flavors',
    'heat-templates': 'heat-templates',
    'rally-tasks': 'rally-tasks',
    'studies': 'studies',
    'etc/ceph-ansible': 'ceph-ansible',
    'etc/cephadm': 'cephadm',
    'etc/diskimage-builder': 'diskimage-builder',
    'etc/extra-specs.yaml': 'extra-specs.yaml',
    'etc/hadoop': 'hadoop',
    'etc/hvstack/hosts': 'hosts',
    'etc/hvstack/hvstack.conf.sample': 'hvstack.conf.sample',
    'etc/lab': 'lab',
    'etc/schemas': 'schemas',
    'etc/shell': 'shell',
}


class Share(testtools.TestCase):
    """What users read and copy is where the package reads it."""

    def test_directories_hold_files(self) -> None:
        for path in (
            share.CATALOGUES,
            share.ELEMENTS,
            share.HADOOP,
            share.HEAT_TEMPLATES,
            share.HOST_PROFILES,
            share.LAB,
            share.RALLY_TASKS,
            share.STUDIES,
            share.SCHEMAS,
            share.SHELL,
        ):
            self.assertTrue(any(path.iterdir()), path)

    def test_links_of_a_clone(self) -> None:
        if not (TOP / '.git').exists():
            self.skipTest('not a clone: an archive may lack symbolic links')
        for link, target in LINKS.items():
            self.assertTrue((TOP / link).is_symlink(), link)
            self.assertEqual(share.ROOT / target, (TOP / link).resolve())
        names = {path.name for path in share.ROOT.iterdir()}
        self.assertEqual(
            {*LINKS.values(), '__init__.py'}, names - {'__pycache__'}
        )
