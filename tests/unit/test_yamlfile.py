# SPDX-License-Identifier: Apache-2.0
"""Test the reader of YAML files and its positions."""

from pathlib import Path

import fixtures
import testtools

from hvstack import errors, host_profiles, yamlfile

PROFILE = """\
name: one
sockets: 1
cores_per_socket: 2
threads_per_core: 1
memory_mib: 4096
"""


class Files(testtools.TestCase):
    """Files of a temporary directory."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)

    def write(self, text: str | bytes, name: str = 'a.yaml') -> Path:
        path = self.directory / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path


class Load(Files):
    """Every error is one line with file and line number."""

    def refused(self, text: str | bytes) -> str:
        exc = self.assertRaises(
            errors.InputError, yamlfile.load, self.write(text)
        )
        self.assertNotIn('\n', str(exc))
        return str(exc).removeprefix(str(self.directory))

    def test_lines_of_fields(self) -> None:
        document = yamlfile.load(self.write('a: 1\nb:\n  - c: 2\n    d: 3\n'))
        self.assertEqual({'a': 1, 'b': [{'c': 2, 'd': 3}]}, document.data)
        source_location = document.source_location('b')
        self.assertTrue(source_location('0.d').endswith('a.yaml:4'))
        self.assertTrue(source_location('0.e').endswith('a.yaml:3'))
        self.assertTrue(
            document.source_location()('nothing').endswith('a.yaml:1')
        )

    def test_empty(self) -> None:
        self.assertIsNone(yamlfile.load(self.write('')).data)

    def test_duplicate_key(self) -> None:
        text = self.refused('a: 1\nb:\n  c: 1\n  c: 2\n')
        self.assertTrue(text.startswith("/a.yaml:4: 'b.c' is duplicated"))

    def test_aliases_cannot_blow_up(self) -> None:
        lines = ['a0: &a0 [x, x]']
        lines += [f'a{n}: &a{n} [*a{n - 1}, *a{n - 1}]' for n in range(1, 40)]
        text = self.refused('\n'.join(lines))
        self.assertTrue(text.startswith('/a.yaml:2: Cannot use aliases'), text)

    def test_merge_keys_are_aliases(self) -> None:
        self.assertIn('aliases', self.refused('a: &x {}\nb: {<<: *x}\n'))

    def test_bad_syntax_and_tags(self) -> None:
        self.assertTrue(self.refused('a: [1\nb: 2\n').startswith('/a.yaml:'))
        self.assertIn(':1:', self.refused('a: !!python/object:os.system 1\n'))
        self.assertIn('a.yaml', self.refused('a: 1\n---\nb: 2\n'))
        self.assertIn('UTF-8', self.refused(b'\xff\xfe\xfa'))
        self.assertIn('a.yaml', self.refused('a: \x00\n'))
        self.assertIn('20 nested levels', self.refused('[' * 500))

    def test_large_and_missing_files(self) -> None:
        big = 'a: ' + 'x' * yamlfile.MOST_BYTES
        self.assertIn('larger', self.refused(big))
        exc = self.assertRaises(
            errors.InputError, yamlfile.load, self.directory / 'none.yaml'
        )
        self.assertIn('does not exist', str(exc))


class WithFields(Files):
    """Fields are set, all else stays as it was."""

    TEXT = """\
# Head.
list:
- status: candidate  # soon
  size: 4
  # Between.
  note: |
    two
    lines
- {size: 5, status: candidate}  # flow
-   size: 6
    proof:
      old: [1,
            2]
      # Last of it.

# Tail.
- size: 7
"""

    def test_set(self) -> None:
        before = yamlfile.load(self.write(self.TEXT)).data
        new = {'a': 1.5, 'b': {'c': 'x: y # z'}}
        changes = {
            f'list.{index}': {'status': 'approved', 'proof': new}
            for index in range(4)
        }
        text = yamlfile.with_fields(self.TEXT, changes)
        after = yamlfile.load(self.write(text)).data
        for item in before['list']:
            item |= {'status': 'approved', 'proof': new}
        self.assertEqual(before, after)
        for comment in ('Head', 'Between', 'flow', 'Last of it', 'Tail'):
            self.assertIn(f'# {comment}', text)
        # A second time nothing changes any more.
        self.assertEqual(text, yamlfile.with_fields(text, changes))

    def test_top(self) -> None:
        self.assertEqual(
            'a: 2\nb: 3\n',
            yamlfile.with_fields('a: 1\n', {'': {'a': 2, 'b': 3}}),
        )


class Profiles(Files):
    """Host profiles in files."""

    def test_one_in_a_file(self) -> None:
        self.assertEqual(
            'one', host_profiles.load(str(self.write(PROFILE))).name
        )

    def test_several_in_a_file(self) -> None:
        text = 'profiles:\n  two:\n    ' + PROFILE.split('\n', 1)[1].replace(
            '\n', '\n    '
        )
        path = self.write(text)
        self.assertEqual(['two'], list(host_profiles.read(path)))

    def test_lines_are_told(self) -> None:
        path = self.write(PROFILE.replace('sockets: 1\n', 'sockets: none\n'))
        exc = self.assertRaises(
            errors.InputError, host_profiles.load, str(path)
        )
        self.assertIn(f"{path}:2: 'sockets'", str(exc))

    def test_nothing_stands_beside_several(self) -> None:
        path = self.write('profiles: {}\nlab: 3\n')
        exc = self.assertRaises(errors.InputError, host_profiles.read, path)
        self.assertIn(f"{path}:2: 'lab' is unknown", str(exc))

    def test_line_breaks_in_keys(self) -> None:
        for text in ('"a\\nb": 1\n', '{"a\\nb": 1, "a\\nb": 1}\n'):
            path = self.write(text)
            exc = self.assertRaises(
                errors.InputError, host_profiles.read, path
            )
            self.assertNotIn('\n', str(exc))

    def test_lines_in_several(self) -> None:
        path = self.write('profiles:\n  two:\n    sockets: 0\n')
        exc = self.assertRaises(errors.InputError, host_profiles.read, path)
        self.assertIn(f"{path}:3: 'sockets'", str(exc))

    def test_unknown_names_those_that_are_there(self) -> None:
        exc = self.assertRaises(errors.InputError, host_profiles.load, 'cray')
        self.assertIn('amd, vsan, vsphere6', str(exc))
