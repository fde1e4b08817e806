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
