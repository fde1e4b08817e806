# SPDX-License-Identifier: Apache-2.0
"""The archive with Hadoop for the base image of an operator."""

import hashlib
import io
import tarfile
from pathlib import Path

import fixtures

from hvstack import errors
from hvstack.lab.images import hadoop, hadoop_archive, recipes, store
from tests.unit.lab.test_images import ImagesCase

JARS = (
    'common/hadoop-common-9.0.jar',
    'hdfs/hadoop-hdfs-9.0.jar',
    'mapreduce/hadoop-mapreduce-examples-9.0.jar',
    'yarn/hadoop-yarn-server-resourcemanager-9.0.jar',
)


class ArchiveTest(ImagesCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.lab.images.builder.ROOM_MIB', {'hadoop': 0}
            )
        )
        self.target = self.cache / 'files.tar'
        self.release = self.cache / 'hadoop-9.tar.gz'
        with tarfile.open(self.release, 'w:gz') as archive:
            for name in JARS:
                info = tarfile.TarInfo(f'hadoop-9/share/hadoop/{name}')
                info.size = len(name)
                archive.addfile(info, io.BytesIO(name.encode()))

    def members(self) -> dict[str, tarfile.TarInfo]:
        """Return the members of the archive by their names."""
        with tarfile.open(self.target) as archive:
            return {member.name: member for member in archive}

    def read(self, name: str) -> str:
        """Return the text of a member of the archive."""
        with tarfile.open(self.target) as archive:
            stream = archive.extractfile(name)
            assert stream is not None
            return stream.read().decode()

    def put_maven_jars(self) -> Path:
        """Fill the cache of Maven, and return its directory."""
        digest = hashlib.sha256(recipes.POM.read_bytes()).hexdigest()[:12]
        directory = self.cache / 'maven' / digest
        directory.mkdir(parents=True)
        lines = []
        for name in (Path(jar).name for jar in JARS):
            (directory / name).write_text(name)
            jar_digest = hashlib.sha256(name.encode()).hexdigest()
            lines.append(f'{jar_digest}  {name}\n')
        digests = self.cache / 'jars.sha256'
        digests.write_text(''.join(lines))
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.lab.images.hadoop.DIGESTS', digests)
        )
        return directory

    def test_contains_what_the_image_lays_over_debian(self) -> None:
        hadoop_archive.export(self.target, tarball=self.release)
        members = self.members()
        for path in recipes.overlay_files('hadoop'):
            name = str(path.relative_to(recipes.FILES / 'hadoop'))
            is_of_init = name in hadoop_archive.INIT_FILES
            self.assertEqual(is_of_init, name not in members, name)
        self.assertNotIn('usr/sbin/init', members)
        self.assertEqual(
            '/usr/lib/hvstack/client', members['usr/bin/hdfs'].linkname
        )
        # The JRE may be in another directory of the base image.
        self.assertNotIn('usr/lib/jvm/java', members)
        self.assertEqual(0o755, members['usr/lib/hvstack/node'].mode)
        self.assertTrue(members['srv/hdfs'].isdir())
        # The base image keeps the modes of its directories.
        self.assertFalse({'etc', 'usr', 'usr/bin'} & set(members))
        self.assertEqual(
            '9.0\n', self.read(f'{hadoop_archive.DATA}/hadoop-version')
        )

    def test_digests_are_those_of_the_files(self) -> None:
        hadoop_archive.export(self.target, tarball=self.release)
        lines = self.read(hadoop_archive.DIGESTS).splitlines()
        rows = (line.split('  ') for line in lines)
        digests = {name: digest for digest, name in rows}
        jar = 'opt/hadoop/lib/hadoop-hdfs-9.0.jar'
        content = b'hdfs/hadoop-hdfs-9.0.jar'
        self.assertEqual(hashlib.sha256(content).hexdigest(), digests[jar])
        self.assertIn('usr/lib/hvstack/node', digests)
        # The element deletes these files after the build.
        self.assertFalse(
            [name for name in digests if name.startswith('usr/share')]
        )

    def test_same_files_are_the_same_archive(self) -> None:
        digest = hadoop_archive.export(self.target, tarball=self.release)
        self.assertEqual(digest, hadoop.sha256(self.target))
        self.assertEqual(
            f'{digest}  files.tar\n',
            (self.cache / 'files.tar.sha256').read_text(),
        )
        self.assertEqual(digest, hadoop_archive.export(self.target))
        members = self.members().values()
        self.assertEqual({0}, {member.mtime for member in members})
        self.assertEqual({0}, {member.uid for member in members})

    def test_a_user_without_maven(self) -> None:
        """Only root installs packages; the message was about another file."""
        self.useFixture(fixtures.EnvironmentVariable('PATH', str(self.cache)))
        self.useFixture(fixtures.MonkeyPatch('os.geteuid', lambda: 1000))
        exc = self.assertRaises(
            errors.MissingPrerequisiteError, hadoop_archive.export, self.target
        )
        self.assertIn('Install the package maven', str(exc))
        self.assertFalse(self.target.exists())

    def test_class_data_depends_on_the_source(self) -> None:
        data = hadoop_archive.DATA
        hadoop_archive.export(self.target, tarball=self.release)
        self.assertIn(f'{data}/first_run.sh', self.members())
        self.assertNotIn(f'{data}/classes', self.members())
        self.put_maven_jars()
        hadoop_archive.export(self.target, maven=True)
        self.assertNotIn(f'{data}/first_run.sh', self.members())
        self.assertEqual(
            recipes.CLASSES.read_text(), self.read(f'{data}/classes')
        )
        self.assertEqual((None, ''), store.chosen_tarball())

    def test_jars_have_the_digests_of_the_image(self) -> None:
        directory = self.put_maven_jars()
        (directory / 'hadoop-hdfs-9.0.jar').write_text('other')
        exc = self.assertRaises(
            errors.MissingPrerequisiteError,
            hadoop_archive.export,
            self.target,
        )
        self.assertIn('hadoop-hdfs-9.0.jar', str(exc))
        self.assertFalse(self.target.exists())

    def test_without_root_rights(self) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError

        self.useFixture(fixtures.MonkeyPatch('os.geteuid', lambda: 1000))
        self.useFixture(fixtures.MonkeyPatch('os.chown', refuse))
        hadoop_archive.export(self.target, tarball=self.release)
        self.assertEqual(0, self.members()['usr/lib/hvstack/node'].uid)

    def test_path_that_cannot_be_written(self) -> None:
        exc = self.assertRaises(
            errors.InputError,
            hadoop_archive.export,
            self.cache / 'missing' / 'files.tar',
            tarball=self.release,
        )
        self.assertIn('missing/files.tar', str(exc))
