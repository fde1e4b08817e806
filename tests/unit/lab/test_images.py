# SPDX-License-Identifier: Apache-2.0
"""Recipes, digests, manifests and the cache of guest images."""

import dataclasses
import fcntl
import hashlib
import io
import json
import os
import struct
import tarfile
import threading
import types
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import fixtures
import testtools

from hvstack import errors, paths
from hvstack.lab.images import (
    builder,
    class_data_sharing,
    disk_images,
    glance,
    hadoop,
    kernel,
    recipes,
    rootfs,
    store,
)


class ImagesCase(testtools.TestCase):
    """Gives every test a cache of its own."""

    def setUp(self) -> None:
        super().setUp()
        self.cache = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.paths.CACHE', self.cache)
        )

    def put(self, name: str, digest: str, *kinds: str) -> store.Image:
        """Write an image with empty files."""
        directory = store.directory(name, digest)
        directory.mkdir(parents=True)
        outputs = {
            output: directory / store.OUTPUTS[output] for output in kinds
        }
        for path in outputs.values():
            path.touch()
        image = store.Image(name, digest, outputs, {'debian': 'x'}, 1.0)
        store.save(image, directory)
        return image


class TestDigest(ImagesCase):
    def setUp(self) -> None:
        super().setUp()
        self.files = Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('common', 'tiny', 'initramfs', 'webapps'):
            (self.files / name).mkdir()
            (self.files / name / 'a').write_text(name)
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.lab.images.recipes.FILES', self.files
            )
        )
        self.tiny = recipes.recipe('tiny')

    def test_stays(self) -> None:
        self.assertEqual(recipes.digest(self.tiny), recipes.digest(self.tiny))

    def test_changes_with_what_goes_in(self) -> None:
        digests = {recipes.digest(self.tiny)}
        (self.files / 'tiny/a').write_text('else')
        digests.add(recipes.digest(self.tiny))
        (self.files / 'tiny/a').rename(self.files / 'tiny/b')
        digests.add(recipes.digest(self.tiny))
        (self.files / 'common/new').write_text('')
        digests.add(recipes.digest(self.tiny))
        base = recipes.Base('extract', ('other',))
        digests.add(recipes.digest(dataclasses.replace(self.tiny, base=base)))
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.lab.images.recipes.FORMAT', recipes.FORMAT + 1
            )
        )
        digests.add(recipes.digest(self.tiny))
        self.assertEqual(6, len(digests))

    def test_ignores_what_does_not_go_in(self) -> None:
        before = recipes.digest(self.tiny)
        (self.files / 'hadoop').mkdir()
        (self.files / 'hadoop/a').write_text('x')
        self.assertEqual(before, recipes.digest(self.tiny))
        self.assertEqual(before, recipes.digest(self.tiny, 'a' * 64))

    def test_a_release_is_part_of_it(self) -> None:
        (self.files / 'hadoop').mkdir()
        recipe = recipes.recipe('hadoop')
        self.assertEqual(
            3,
            len(
                {recipes.digest(recipe, release) for release in ('', 'a', 'b')}
            ),
        )

    def test_class_data_is_part_of_it(self) -> None:
        (self.files / 'hadoop').mkdir()
        recipe = recipes.recipe('hadoop')
        other = self.files / 'other'
        other.write_text('exit 0')
        digests = {recipes.digest(recipe), recipes.digest(recipe, 'a')}
        for name, release in (
            ('FIRST_RUN', 'a'),
            ('CLASSES', ''),
            ('DUMP_ARCHIVE', ''),
            ('DUMP_ARCHIVE', 'a'),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'hvstack.lab.images.recipes.{name}', other
                )
            )
            digests.add(recipes.digest(recipe, release))
        self.assertEqual(6, len(digests))

    def test_the_list_of_classes_is_that_of_the_jars(self) -> None:
        """If not, see :mod:`hvstack.lab.images.class_data_sharing`."""
        lines = recipes.CLASSES.read_text().splitlines()
        self.assertEqual(class_data_sharing.describe_jars(), lines[0])
        self.assertIn('org/apache/hadoop/examples/terasort/TeraSort', lines)

    def test_each_kernel_makes_another_image(self) -> None:
        (self.files / 'hadoop').mkdir()
        (self.files / 'hardware').mkdir()
        ordinary = recipes.recipe('hadoop')
        other = dataclasses.replace(ordinary, kernel=recipes.HARDWARE_KERNEL)
        self.assertNotEqual(recipes.digest(ordinary), recipes.digest(other))
        name = recipes.image_name('hadoop', 'hardware')
        hardware = recipes.recipe(name)
        self.assertEqual('hadoop', recipes.image_name('hadoop', 'cloud'))
        self.assertEqual(
            ('hadoop-hardware', 'hadoop-hardware', True),
            (name, hardware.name, hardware.hadoop),
        )
        self.assertEqual(ordinary.base, hardware.base)
        self.assertIn('linux-image-amd64', hardware.kernel.packages)
        exc = self.assertRaises(
            errors.InputError, recipes.image_name, 'tiny', 'hardware'
        )
        self.assertIn("only the image 'hadoop'", str(exc))

    def test_unknown_image(self) -> None:
        exc = self.assertRaises(errors.InputError, recipes.recipe, 'huge')
        self.assertIn('hadoop, hadoop-hardware, tiny', str(exc))


#: Fails once and, as Maven does, from then on unless it is told to update.
_MAVEN = """#!/bin/sh
cd "$(dirname "$0")"
[ -e failed ] || { touch failed; echo 'transfer failed' >&2; exit 1; }
case " $* " in
*' --update-snapshots '*) ;;
*) echo 'was not found during a previous attempt' >&2; exit 1 ;;
esac
mkdir -p "${*##*-DoutputDirectory=}"
echo content >"${*##*-DoutputDirectory=}/a-1.jar"
"""
#: SHA-256 of the jar that it writes.
_JAR_DIGEST = hashlib.sha256(b'content\n').hexdigest()


class TestMaven(ImagesCase):
    def test_a_failed_download_is_tried_again(self) -> None:
        programs = Path(self.useFixture(fixtures.TempDir()).path)
        maven = programs / 'mvn'
        maven.write_text(_MAVEN)
        maven.chmod(0o755)
        path = f'{programs}:{os.environ["PATH"]}'
        self.useFixture(fixtures.EnvironmentVariable('PATH', path))
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.processutils.time.sleep', lambda _: None
            )
        )
        digests = programs / 'jars.sha256'
        digests.write_text(f'{_JAR_DIGEST}  a-1.jar\n')
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.lab.images.hadoop.DIGESTS', digests)
        )
        self.assertTrue(hadoop.maven_jars().is_dir())

    def run_maven(self, settings: str = '') -> str:
        """Return the settings that a run of Maven gets; empty without any.

        :param settings: settings of the machine.
        """
        home = Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('bin', 'conf'):
            (home / name).mkdir()
        maven = home / 'bin/mvn'
        maven.write_text(
            '#!/bin/sh\nfor last; do :; done\n'
            f'case "$*" in *-settings*) cat "$last" >{home}/settings\n'
            f'stat -c %a "$last" >{home}/mode ;; esac\nexit 1\n'
        )
        maven.chmod(0o755)
        if settings:
            (home / 'conf/settings.xml').write_text(settings)
        path = f'{home}/bin:{os.environ["PATH"]}'
        self.useFixture(fixtures.EnvironmentVariable('PATH', path))
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.processutils.time.sleep', lambda _: None
            )
        )
        self.assertRaises(errors.CommandError, hadoop.maven_jars)
        if not (home / 'settings').exists():
            return ''
        self.assertEqual('600\n', (home / 'mode').read_text())
        return (home / 'settings').read_text()

    def set_proxies(self, **variables: str) -> None:
        for name in ('http', 'https', 'all', 'no'):
            for variable in (f'{name}_proxy', f'{name}_proxy'.upper()):
                self.useFixture(
                    fixtures.EnvironmentVariable(variable, variables.get(name))
                )

    def test_proxy_of_the_environment(self) -> None:
        self.set_proxies(
            https='http://user:p%40ss@proxy.test:3128',
            no='.corp.test, 10.0.0.0/8,repo:8081',
        )
        stock = (
            '<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0">'
            '<proxies><!-- none --></proxies>'
            '<mirrors><mirror><id>blocker</id></mirror></mirrors></settings>'
        )
        for settings in ('', stock):
            text = self.run_maven(settings)
            root = ElementTree.fromstring(text)
            (proxy,) = root.findall('proxies/proxy')
            fields = {element.tag: element.text for element in proxy}
            self.assertEqual(
                {
                    'id': 'environment-https',
                    'active': 'true',
                    'protocol': 'https',
                    'host': 'proxy.test',
                    'port': '3128',
                    'username': 'user',
                    'password': 'p@ss',
                    'nonProxyHosts': 'localhost|127.*|[::1]|corp.test|'
                    '*.corp.test|repo|*.repo',
                },
                fields,
            )
            self.assertEqual(bool(settings), 'blocker' in text)

    def test_proxy_in_another_form(self) -> None:
        self.set_proxies(all='proxy.test')
        root = ElementTree.fromstring(self.run_maven())
        self.assertEqual(
            ['80', '80'],
            [element.text for element in root.findall('proxies/proxy/port')],
        )

    def test_no_proxy_for_maven(self) -> None:
        self.set_proxies()
        self.assertEqual('', self.run_maven())
        self.set_proxies(all='socks5://proxy.test:1080')
        self.assertEqual('', self.run_maven())
        # The administrator has configured another one, or made a mistake.
        self.set_proxies(https='http://proxy.test:3128')
        own = '<proxies><proxy><id>a</id></proxy></proxies>'
        for text in (f'<settings>{own}</settings>', own.removesuffix('>')):
            self.assertEqual('', self.run_maven(text))

    def test_jars_are_the_ones_of_the_list(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        lines = hadoop.DIGESTS.read_text().splitlines()
        self.assertTrue(all('.jar' in line for line in lines))
        digests = directory / 'jars.sha256'
        digests.write_text(f'{_JAR_DIGEST}  a-1.jar\n')
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.lab.images.hadoop.DIGESTS', digests)
        )
        jar = directory / 'a-1.jar'
        jar.write_text('content\n')
        hadoop.check_jars(directory)
        for name, text in (('a-1.jar', 'other'), ('b-1.jar', 'content\n')):
            (directory / name).write_text(text)
            error = self.assertRaises(
                errors.MissingPrerequisiteError, hadoop.check_jars, directory
            )
            self.assertIn(name, str(error))
            jar.write_text('content\n')
        (directory / 'b-1.jar').unlink()
        jar.unlink()
        self.assertRaises(
            errors.MissingPrerequisiteError, hadoop.check_jars, directory
        )


class TestClassData(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = Path(self.useFixture(fixtures.TempDir()).path)
        library = self.root / 'opt/hadoop/lib'
        library.mkdir(parents=True)
        self.names = [f'library-number-{count}.jar' for count in range(10, 40)]
        for name in reversed(self.names):
            (library / name).touch()

    def test_jar_names_all_jars_in_order(self) -> None:
        class_data_sharing.write_jar(self.root)
        with zipfile.ZipFile(self.root / class_data_sharing.JAR) as jar:
            text = jar.read('META-INF/MANIFEST.MF').decode()
        self.assertLessEqual(max(map(len, text.split('\r\n'))), 72)
        line = text.replace('\r\n ', '').split('\r\n')[1]
        self.assertEqual(
            ['Class-Path:', *(f'lib/{name}' for name in self.names)],
            line.split(),
        )

    def test_same_jar_from_the_same_jars(self) -> None:
        jars = []
        for _ in range(2):
            class_data_sharing.write_jar(self.root)
            jars.append((self.root / class_data_sharing.JAR).read_bytes())
        self.assertEqual(*jars)


class TestStore(ImagesCase):
    def test_manifest_comes_back(self) -> None:
        image = self.put('tiny', 'abc', 'rootfs', 'lxc')
        self.assertEqual(image, store.load(image.directory))

    def test_former_disk_is_built_again(self) -> None:
        """The digest does not cover its drivers; the others stay."""
        image = self.put('tiny', 'abc', 'rootfs', 'lxc')
        former = image.directory / 'disk.qcow2'
        former.touch()
        store.save(
            dataclasses.replace(
                image, outputs={**image.outputs, 'qemu': former}
            ),
            image.directory,
        )
        self.assertEqual(image, store.load(image.directory))

    def test_image_that_lost_a_file_is_none(self) -> None:
        image = self.put('tiny', 'abc', 'rootfs', 'lxc')
        image.outputs['lxc'].unlink()
        self.assertIsNone(store.load(image.directory))

    def test_half_a_manifest_is_none(self) -> None:
        image = self.put('tiny', 'abc', 'lxc')
        for text in ('', '[]', '{"name": "tiny"}', '{'):
            (image.directory / 'manifest.json').write_text(text)
            self.assertIsNone(store.load(image.directory), text)

    def test_manifest_of_another_directory_is_none(self) -> None:
        """Its name made the directory that is deleted."""
        image = self.put('tiny', 'abc', 'lxc')
        path = image.directory / 'manifest.json'
        data = json.loads(path.read_text())
        for change in (
            *({'name': '../..'}, {'digest': 'x'}, {'name': ['tiny']}),
            *({'outputs': {'lxc': '../../x'}}, {'outputs': ['lxc']}),
            {'versions': {'java': 17}},
        ):
            path.write_text(json.dumps({**data, **change}))
            self.assertIsNone(store.load(image.directory), change)

    def test_damaged_choice_of_a_release_is_named(self) -> None:
        """It meant the release of Maven Central."""
        path = store.root() / 'hadoop-tarball.json'
        path.parent.mkdir()
        good = {'path': '/x.tar.gz', 'sha256': 'f00d' * 16}
        for text in (
            *('', '[]', '{', json.dumps({**good, 'path': 'x.tar.gz'})),
            *(json.dumps({**good, 'sha256': 'x'}), '{"path": "/x"}'),
        ):
            path.write_text(text)
            exc = self.assertRaises(errors.InputError, store.find, 'hadoop')
            self.assertIn(str(path), str(exc))

    def test_find_wants_todays_recipe(self) -> None:
        self.put('tiny', 'old', 'lxc')
        self.assertIsNone(store.find('tiny'))
        image = self.put('tiny', recipes.digest(recipes.recipe('tiny')), 'lxc')
        self.assertEqual(image, store.find('tiny'))

    def test_find_follows_the_chosen_release(self) -> None:
        recipe = recipes.recipe('hadoop')
        maven = self.put('hadoop', recipes.digest(recipe), 'lxc')
        digest = 'f00d' * 16
        release = self.put('hadoop', recipes.digest(recipe, digest), 'lxc')
        self.assertEqual(maven, store.find('hadoop'))
        store.choose_tarball(Path('/x.tar.gz'), digest)
        self.assertEqual(release, store.find('hadoop'))
        store.choose_tarball(None)
        self.assertEqual(maven, store.find('hadoop'))

    def test_prune_keeps_the_newest_of_a_name(self) -> None:
        for index in range(4):
            image = self.put('tiny', f'd{index}', 'lxc')
            os.utime(image.directory / 'manifest.json', (index, index))
        self.put('hadoop', 'h', 'lxc')
        store.prune('tiny')
        self.assertEqual(
            ['d2', 'd3', 'h'], sorted(i.digest for i in store.built())
        )

    def test_building_removes_what_an_interrupted_build_left(self) -> None:
        stale_dir = store.root() / '.build-1'
        stale_dir.mkdir(parents=True)
        (stale_dir / 'file').touch()
        with store.building() as work_dir:
            self.assertFalse(stale_dir.exists())
            self.assertTrue(work_dir.is_dir())
        self.assertFalse(work_dir.exists())

    def test_two_builds_do_not_meet(self) -> None:
        with store.building():
            exc = self.assertRaises(
                errors.BusyError, store.building(timeout_seconds=0).__enter__
            )
        self.assertIn('Wait until it ends', str(exc))


class BaseTest(ImagesCase):
    """Packages of a base, of which another process may make those of one."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = store.root() / 'bases'
        self.directory.mkdir(parents=True)
        self.calls = 0
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.processutils.run', self.run_debian)
        )

    def run_debian(self, argv: list[str], **kwargs: Any) -> None:
        self.calls += 1
        Path(argv[-1]).write_text('packages', encoding='utf-8')

    def make_base(self) -> Path:
        return rootfs.base(recipes.Base('minbase', ('a',)), self.directory)

    def test_made_once(self) -> None:
        self.assertEqual('packages', self.make_base().read_text())
        self.make_base()
        self.assertEqual(1, self.calls)

    def test_partial_tars_of_others(self) -> None:
        """One of an interrupted build is deleted, one in progress is not."""
        stale, current = (
            self.directory / f'.{name}.tar' for name in ('stale', 'current')
        )
        stale.touch()
        with paths.open_lock(current) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            base = self.make_base()
            self.assertEqual({base, current}, set(self.directory.iterdir()))

    def test_other_process_makes_it(self) -> None:
        base = self.make_base()
        base.rename(partial := base.with_name(f'.{base.name}'))
        with paths.open_lock(partial) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            thread = threading.Thread(target=self.make_base)
            thread.start()
            thread.join(0.05)
            self.assertTrue(thread.is_alive())
            partial.rename(base)
        thread.join(5)
        self.assertEqual(1, self.calls)


class TestBuild(ImagesCase):
    def test_ready_image_is_not_built(self) -> None:
        image = self.put(
            'tiny', recipes.digest(recipes.recipe('tiny')), 'rootfs', 'lxc'
        )
        self.assertEqual(image, builder.build('tiny'))

    def test_refuses_what_it_cannot_make(self) -> None:
        self.assertRaises(
            errors.InputError, builder.build, 'tiny', outputs=['vmdk']
        )
        self.assertRaises(
            errors.InputError, builder.build, 'tiny', tarball=Path('/x')
        )
        self.assertRaises(
            errors.InputError,
            builder.build,
            'hadoop',
            tarball=Path('/x'),
            maven=True,
        )
        exc = self.assertRaises(
            errors.InputError,
            builder.build,
            'hadoop',
            tarball=self.cache / 'none.tar.gz',
        )
        self.assertIn('none.tar.gz: No such file', str(exc))

    def test_refuses_without_room(self) -> None:
        store.root().mkdir(parents=True)
        self.useFixture(
            fixtures.MonkeyPatch(
                'shutil.disk_usage',
                lambda path: types.SimpleNamespace(free=100 << 20),
            )
        )
        exc = self.assertRaises(
            errors.MissingPrerequisiteError, builder.check_room, 'tiny'
        )
        self.assertIn('100 MiB are free', str(exc))


class TestRelease(ImagesCase):
    def tarball(self, *members: str) -> Path:
        """Write a release with these files."""
        path = self.cache / 'hadoop-9.tar.gz'
        with tarfile.open(path, 'w:gz') as archive:
            for name in members:
                info = tarfile.TarInfo(f'hadoop-9/{name}')
                archive.addfile(info, io.BytesIO())
        return path

    def test_is_laid_out_as_mavens_jars(self) -> None:
        tarball = self.tarball(
            'share/hadoop/common/hadoop-common-9.0.jar',
            'share/hadoop/common/hadoop-common-9.0-tests.jar',
            'share/hadoop/common/lib/guava.jar',
            'share/hadoop/hdfs/hadoop-hdfs-9.0.jar',
            'share/hadoop/hdfs/webapps/hdfs/index.html',
            'share/hadoop/client/hadoop-client-runtime-9.0.jar',
            'share/hadoop/yarn/hadoop-yarn-server-resourcemanager-9.0.jar',
            'share/hadoop/yarn/timelineservice/'
            'hadoop-yarn-server-timelineservice-9.0.jar',
            'share/hadoop/yarn/timelineservice/'
            'hadoop-yarn-server-timelineservice-hbase-client-9.0.jar',
            'share/hadoop/yarn/timelineservice/lib/hbase-client-1.7.1.jar',
            'share/hadoop/mapreduce/hadoop-mapreduce-examples-9.0.jar',
            'share/hadoop/mapreduce/'
            'hadoop-mapreduce-client-jobclient-9.0-tests.jar',
            'share/hadoop/mapreduce/sources/hadoop-x-sources.jar',
            'share/doc/index.html',
            'lib/native/libhadoop.so.1.0.0',
        )
        self.assertEqual('9.0', hadoop.install(self.cache / 'root', tarball))
        home = self.cache / 'root/opt/hadoop'
        self.assertEqual(
            [
                'hadoop-mapreduce-client-jobclient-tests.jar',
                'hadoop-mapreduce-examples.jar',
                'lib/guava.jar',
                'lib/hadoop-common-9.0.jar',
                'lib/hadoop-hdfs-9.0.jar',
                'lib/hadoop-mapreduce-examples-9.0.jar',
                'lib/hadoop-yarn-server-resourcemanager-9.0.jar',
                'lib/hadoop-yarn-server-timelineservice-9.0.jar',
                'native/libhadoop.so.1.0.0',
                'webapps/hdfs/index.html',
            ],
            sorted(
                str(path.relative_to(home))
                for path in home.rglob('*')
                if path.is_file()
            ),
        )

    def write_release(self, library: bytes) -> Path:
        """Write a release with a link to its library.

        :param library: content of the library; empty for none.
        """
        path = self.cache / 'hadoop-9.tar.gz'
        with tarfile.open(path, 'w:gz') as archive:
            link = tarfile.TarInfo('hadoop-9/lib/native/libhadoop.so')
            link.type, link.linkname = tarfile.SYMTYPE, 'libhadoop.so.1.0.0'
            archive.addfile(link)
            if library:
                info = tarfile.TarInfo(f'hadoop-9/lib/native/{link.linkname}')
                info.size = len(library)
                archive.addfile(info, io.BytesIO(library))
        return path

    def test_native_library(self) -> None:
        """A release has a link; tasks look in another directory."""
        path = self.write_release(b'library')
        home = self.cache / 'root/opt/hadoop'
        hadoop.install_release(path, home)
        for directory in ('native', 'lib/native'):
            library = home / directory / 'libhadoop.so'
            self.assertEqual(b'library', library.read_bytes())
        self.assertEqual('../native', str((home / 'lib/native').readlink()))

    def test_link_to_nothing(self) -> None:
        path = self.write_release(b'')
        exc = self.assertRaises(
            errors.InputError,
            hadoop.install_release,
            path,
            self.cache / 'root/opt/hadoop',
        )
        self.assertIn("'hadoop-9/lib/native/libhadoop.so.1.0.0'", str(exc))

    def test_that_changed_since_it_was_chosen(self) -> None:
        """The digest of the image would be that of the old release."""
        tarball = self.tarball('share/hadoop/common/hadoop-common-9.0.jar')
        builder.choose_release(tarball, maven=False)
        self.tarball('share/hadoop/common/hadoop-common-9.1.jar')
        exc = self.assertRaises(
            errors.InputError,
            builder._build,
            recipes.recipe('hadoop'),
            ['rootfs'],
            self.cache,
            print,
        )
        self.assertIn(f'({tarball}): the Hadoop release has', str(exc))

    def test_benchmarks_of_maven(self) -> None:
        """Their jar is not with those of the daemons."""
        jars = self.cache / 'jars'
        jars.mkdir()
        for name in (
            *('hadoop-common-9.0.jar', 'hadoop-hdfs-9.0.jar'),
            'hadoop-mapreduce-client-jobclient-9.0.jar',
            'hadoop-mapreduce-client-jobclient-9.0-tests.jar',
            'hadoop-mapreduce-examples-8.9.jar',
            'hadoop-yarn-server-resourcemanager-9.0.jar',
        ):
            (jars / name).touch()
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.lab.images.hadoop.maven_jars', lambda: jars
            )
        )
        home = self.cache / 'root/opt/hadoop'
        self.assertEqual('9.0', hadoop.install(self.cache / 'root', None))
        self.assertTrue((home / hadoop.BENCHMARKS_NAME).is_file())
        self.assertEqual(
            [], [path.name for path in (home / 'lib').glob('*-tests.jar')]
        )
        self.assertEqual(5, len(list((home / 'lib').iterdir())))

    def test_incomplete_release(self) -> None:
        tarball = self.tarball('share/hadoop/common/hadoop-common-9.0.jar')
        exc = self.assertRaises(
            errors.InputError, hadoop.install, self.cache / 'root', tarball
        )
        self.assertIn('hadoop-mapreduce-examples', str(exc))

    def test_no_archive(self) -> None:
        path = self.cache / 'x.tar.gz'
        path.write_text('nothing')
        exc = self.assertRaises(
            errors.InputError, hadoop.install, self.cache / 'root', path
        )
        self.assertIn('Cannot unpack --hadoop-tarball', str(exc))


class TestRootfs(ImagesCase):
    def test_merge_usr(self) -> None:
        root = self.cache / 'root'
        (root / 'bin').mkdir(parents=True)
        (root / 'bin/sh').write_text('sh')
        (root / 'usr/bin').mkdir(parents=True)
        (root / 'usr/bin/env').write_text('env')
        rootfs.merge_usr(root)
        rootfs.merge_usr(root)
        self.assertEqual('sh', (root / 'usr/bin/sh').read_text())
        self.assertEqual('usr/bin', str((root / 'bin').readlink()))
        self.assertTrue((root / 'usr/bin/env').exists())

    def test_every_program_of_the_overlays_has_a_shell(self) -> None:
        shells = {b'#!/bin/sh', b'#!/bin/busybox sh'}
        for overlay in ('common', 'hadoop', 'hardware', 'tiny', 'initramfs'):
            for path in recipes.overlay_files(overlay):
                first = path.read_bytes().partition(b'\n')[0]
                if first.startswith(b'#!'):
                    self.assertIn(first, shells, path)


class TestDisks(ImagesCase):
    def test_boot_sectors_and_partition(self) -> None:
        disk = self.cache / 'disk'
        disk.write_bytes(bytes(2 * disk_images.MIB))
        disk_images.write_boot(disk, b'\x90' * 512, b'core', sectors=2048)
        data = disk.read_bytes()
        self.assertEqual(b'\x90' * 440, data[:440])
        self.assertEqual(b'\x55\xaa', data[510:512])
        boot, partition_type, first, count = struct.unpack(
            '<B3xB3xII', data[446:462]
        )
        self.assertEqual(
            (0x80, 0x83, 2048, 2048), (boot, partition_type, first, count)
        )
        self.assertEqual(b'core', data[512:516])

    def test_boot_loader_too_long(self) -> None:
        exc = self.assertRaises(
            errors.HVStackError,
            disk_images.write_boot,
            self.cache / 'd',
            b'',
            bytes(disk_images.MIB),
            sectors=1,
        )
        self.assertIn('fewer modules', str(exc))

    def test_ext4_from_a_directory(self) -> None:
        source = self.cache / 'tree'
        source.mkdir()
        (source / 'file').write_text('x' * 5000)
        target = self.cache / 'fs'
        size = disk_images.file_system_mib(source, slack_mib=16, journal_mib=4)
        disk_images.make_ext4(source, target, size_mib=size, journal_mib=4)
        with target.open('rb') as stream:
            head = stream.read(1024 + 1024)[1024:]
        self.assertEqual(0xEF53, struct.unpack_from('<H', head, 0x38)[0])
        self.assertEqual(2, struct.unpack_from('<I', head, 24)[0])
        self.assertEqual(0, struct.unpack_from('<I', head, 8)[0])
        self.assertEqual(size * disk_images.MIB, target.stat().st_size)

    def test_size_does_not_depend_on_the_file_system_below(self) -> None:
        """A file system that compresses has fewer blocks than the image."""
        tree = self.cache / 'tree'
        (tree / 'directory').mkdir(parents=True)
        with (tree / 'file').open('wb') as stream:
            stream.truncate(8 * disk_images.MIB)
        (tree / 'directory/link').hardlink_to(tree / 'file')
        (tree / 'directory/symlink').symlink_to('/')
        # The directories and the short link take some blocks.
        self.assertEqual(9, disk_images.content_mib(tree))

    def test_virtual_size(self) -> None:
        path = self.cache / 'q'
        path.write_bytes(b'QFI\xfb' + bytes(20) + struct.pack('>Q', 3 << 30))
        self.assertEqual(3 << 30, glance._virtual_size(path, 'qemu'))
        self.assertEqual(32, glance._virtual_size(path, 'lxc'))


class TestModules(ImagesCase):
    def test_come_after_what_they_need(self) -> None:
        directory = self.cache / 'lib/modules/6.1'
        directory.mkdir(parents=True)
        (directory / 'modules.dep').write_text(
            'k/virtio_net.ko: k/net_failover.ko k/failover.ko k/virtio.ko\n'
            'k/virtio-rng.ko: k/virtio.ko\n'
            'k/virtio.ko:\nk/failover.ko:\nk/other.ko:\n'
            'k/net_failover.ko: k/failover.ko\n'
        )
        order = kernel.modules(kernel.Kernel(self.cache, '6.1'))
        self.assertEqual(
            [
                'virtio.ko',
                'failover.ko',
                'net_failover.ko',
                'virtio_net.ko',
                'virtio-rng.ko',
            ],
            [path.name for path in order],
        )

    def test_config_drive_and_virtual_functions(self) -> None:
        directory = self.cache / 'lib/modules/6.1'
        directory.mkdir(parents=True)
        drivers = ('virtio_scsi', 'mlx5_core', 'mlx4_en', 'ixgbevf')
        (directory / 'modules.dep').write_text(
            ''.join(f'k/{name}.ko:\n' for name in drivers)
        )
        order = kernel.modules(kernel.Kernel(self.cache, '6.1'))
        self.assertEqual(
            {f'{name}.ko' for name in drivers}, {path.name for path in order}
        )


class TestHardwareKernel(ImagesCase):
    def setUp(self) -> None:
        super().setUp()
        self.runs: list[list[str]] = []
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.processutils.run', self.run_program)
        )
        self.root = self.cache / 'kernel'
        (self.root / 'etc/initramfs-tools').mkdir(parents=True)
        (self.root / 'usr/lib/grub/i386-pc').mkdir(parents=True)
        (self.root / 'usr/lib/grub/i386-pc/boot.img').write_bytes(b'first')
        (self.root / 'core.img').write_bytes(b'core')

    def run_program(self, argv: list[Any], **_: Any) -> None:
        self.runs.append([str(part) for part in argv])
        (self.root / 'initrd').write_bytes(b'initrd of Debian')

    def boot(self, hardware: bool) -> str:
        """Return the configuration of the boot loader."""
        machine = kernel.Kernel(self.root, '6.1', hardware)
        self.assertEqual((b'first', b'core'), kernel.boot_sectors(machine))
        return (self.root / 'boot.cfg').read_text()

    def test_root_file_system_is_found_by_its_label(self) -> None:
        config = self.boot(hardware=True)
        self.assertIn(' root=LABEL=hvstack-root ', config)
        # For the init of the image.
        self.assertIn(' HVSTACK_MACHINE=1\n', config)
        self.assertIn(' root=/dev/vda1 ', self.boot(hardware=False))

    def test_debian_writes_the_initial_ram_disk(self) -> None:
        machine = kernel.Kernel(self.root, '6.1', hardware=True)
        kernel.write_initramfs(machine, self.cache / 'initrd')
        self.assertEqual(
            [
                *('chroot', str(self.root), 'mkinitramfs', '-o', '/initrd'),
                '6.1',
            ],
            self.runs[0],
        )
        self.assertEqual(
            b'initrd of Debian', (self.cache / 'initrd').read_bytes()
        )
        modules = self.root / 'etc/initramfs-tools/modules'
        # No device asks for a file system.
        self.assertIn('xfs\n', modules.read_text())


class TestPaths(testtools.TestCase):
    def test_images_are_in_the_cache(self) -> None:
        self.assertEqual(paths.CACHE / 'images', store.root())

    def test_manifest_is_json_with_what_others_read(self) -> None:
        cache = Path(self.useFixture(fixtures.TempDir()).path)
        image = store.Image('t', 'd', {'lxc': cache / 'x'}, {'java': '17'})
        store.save(image, cache)
        data = json.loads((cache / 'manifest.json').read_text())
        self.assertEqual({'lxc': 'x'}, data['outputs'])
        self.assertEqual({'java': '17'}, data['versions'])
