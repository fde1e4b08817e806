# SPDX-License-Identifier: Apache-2.0
"""Where the host profile of a catalogue is found."""

from pathlib import Path

import fixtures
import testtools

from hvstack import errors, host_profiles, share

CATALOGUE = """host: myhosts
flavors: []
"""


class CatalogueTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.catalogue = self.directory / 'flavors.yaml'
        self.catalogue.write_text(CATALOGUE, encoding='utf-8')

    def test_profile_in_the_directory_of_the_catalogue(self) -> None:
        self.assertRaises(
            errors.InputError, host_profiles.read_catalogue, self.catalogue
        )
        text = (share.HOST_PROFILES / 'vsan.yaml').read_text(encoding='utf-8')
        profile = self.directory / 'myhosts.yaml'
        profile.write_text(
            text.replace('name: vsan', 'name: myhosts'), encoding='utf-8'
        )
        _, host = host_profiles.read_catalogue(self.catalogue)
        self.assertEqual('myhosts', host.name)

    def test_link_in_place_of_the_file_of_the_lab(self) -> None:
        path = self.directory / 'hosts.yaml'
        path.symlink_to(path.name)
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.host_profiles.LAB', path)
        )
        error = self.assertRaises(errors.InputError, host_profiles.list_paths)
        self.assertIn(str(path), str(error))

    def test_names_that_no_file_can_have(self) -> None:
        path = host_profiles.catalogue_path('x' * 300)
        self.assertRaises(
            errors.InputError, host_profiles.read_catalogue, path
        )
        text = CATALOGUE.replace('myhosts', 'x' * 300)
        self.catalogue.write_text(text, encoding='utf-8')
        self.assertRaises(
            errors.InputError, host_profiles.read_catalogue, self.catalogue
        )


class SearchPathTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.top = Path(self.useFixture(fixtures.TempDir()).path)
        directories = [self.top / name for name in ('state', 'etc')]
        for directory in directories:
            directory.mkdir()
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.host_profiles.directories',
                lambda: [*directories, share.HOST_PROFILES],
            )
        )

    def write(self, path: str, name: str, memory_mib: int = 131072) -> Path:
        text = (share.HOST_PROFILES / 'vsphere6.yaml').read_text('utf-8')
        file = self.top / path
        file.write_text(
            text.replace('name: vsphere6', f'name: {name}').replace(
                'memory_mib: 262144', f'memory_mib: {memory_mib}'
            ),
            encoding='utf-8',
        )
        return file

    def test_by_the_name_in_the_profile(self) -> None:
        path = self.write('etc/rack7.yaml', 'big')
        for name in ('big', 'rack7', str(path)):
            self.assertEqual('big', host_profiles.load(name).name)
        self.assertEqual(path, host_profiles.list_paths()['big'])
        self.assertNotIn('rack7', host_profiles.list_paths())

    def test_the_first_directory_wins(self) -> None:
        self.write('etc/a.yaml', 'vsphere6', 131072)
        self.write('state/b.yaml', 'vsphere6', 65536)
        self.assertEqual(65536, host_profiles.load('vsphere6').memory_mib)

    def test_a_broken_file_hides_no_other_profile(self) -> None:
        (self.top / 'etc' / 'broken.yaml').write_text('name: [')
        self.assertEqual('vsan', host_profiles.load('vsan').name)
        failure = self.assertRaises(
            errors.InputError, host_profiles.load, 'broken'
        )
        self.assertIn('broken.yaml:1', str(failure))

    def test_a_profile_outside_the_search_path(self) -> None:
        profile = host_profiles.load(str(self.write('mine.yaml', 'mine')))
        self.assertFalse(host_profiles.is_in_search_path(profile))
        self.write('state/mine.yaml', 'mine', 65536)
        self.assertFalse(host_profiles.is_in_search_path(profile))
        self.write('state/mine.yaml', 'mine')
        self.assertTrue(host_profiles.is_in_search_path(profile))

    def test_a_path_in_a_catalogue_is_no_identity(self) -> None:
        path = self.write('mine.yaml', 'mine')
        catalogue_file = self.top / 'flavors.yaml'
        catalogue_file.write_text(f'host: {path}\nflavors: []\n')
        flavor_catalogue, profile = host_profiles.read_catalogue(
            catalogue_file
        )
        self.assertEqual(
            ('mine', 'mine'), (flavor_catalogue.host, profile.name)
        )
