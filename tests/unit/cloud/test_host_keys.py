# SPDX-License-Identifier: Apache-2.0
"""Host keys of guests: recorded once, and never taken from a line break."""

import os
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.cloud import host_keys


def key(letter: str) -> str:
    """Return a public key."""
    return f'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{43 * letter}'


def node(index: int, letter: str = '', server: str = '') -> dict[str, str]:
    """Return a node as the outputs of a stack have it."""
    return {
        'name': f'w{index}',
        'address': f'10.0.0.{index}',
        'server_id': server or f's{index}',
        'host_key': key(letter) if letter else '',
    }


def block(letter: str) -> str:
    """Return the text that cloud-init writes to a console."""
    return (
        '-----BEGIN SSH HOST KEY KEYS-----\r\n'
        f'ecdsa-sha2-nistp256 AAAAE2Vj root@w\r\n{key(letter)} root@w\r\n'
        '-----END SSH HOST KEY KEYS-----\r\n'
    )


class HostKeysTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = Path(self.useFixture(fixtures.TempDir()).path) / 'known'
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.host_keys.DIRECTORY', directory
            )
        )
        self.path = host_keys.file_of('c')

    def record(self, *nodes: dict[str, str], **options: Any) -> list[str]:
        """Record the keys of a controller and workers; return the lines."""
        outputs = {
            'controller': nodes[0],
            'workers': list(nodes[1:]),
            'ssh': 'ssh root@10.0.0.1',
            'resourcemanager': None,
        }
        path = host_keys.record('c', outputs, **options)
        self.assertEqual(self.path, path)
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        return path.read_text().splitlines()[1:]

    def test_keys_that_heat_has(self) -> None:
        self.assertEqual(
            [f'10.0.0.1 {key("a")} s1 w1', f'10.0.0.2 {key("b")} s2 w2'],
            self.record(node(1, 'a'), node(2, 'b'), node(3)),
        )
        self.assertEqual(0o700, self.path.parent.stat().st_mode & 0o777)
        host_keys.forget('c')
        host_keys.forget('c')
        self.assertFalse(self.path.exists())

    def test_damaged_file(self) -> None:
        self.path.parent.mkdir()
        self.path.write_bytes(b'# 1\n\xff')
        error = self.assertRaises(errors.InputError, host_keys.record, 'c', {})
        self.assertIn(f'{self.path}:2', str(error))
        self.path.unlink()
        os.mkfifo(self.path)
        error = self.assertRaises(errors.InputError, host_keys.record, 'c', {})
        self.assertIn('a FIFO, not a regular file', str(error))

    def test_the_first_key_of_a_server_stays(self) -> None:
        before = self.record(node(1, 'a'), node(2, 'b'))
        self.assertEqual(before, self.record(node(1, 'x'), node(2)))

    def test_another_server_with_the_address(self) -> None:
        self.record(node(1, 'a'), node(2, 'b'), node(3, 'c'))
        self.assertEqual(
            [f'10.0.0.1 {key("a")} s1 w1', f'10.0.0.2 {key("n")} new w2'],
            self.record(node(1, 'a'), node(2, 'n', 'new')),
        )
        self.assertEqual(
            [f'10.0.0.1 {key("a")} s1 w1'],
            self.record(node(1, 'a'), node(2, '', 'newer')),
        )

    def test_a_line_of_the_user(self) -> None:
        self.record(node(1, 'a'), node(2))
        line = f'10.0.0.2 {key("u")}'
        with self.path.open('a') as stream:
            stream.write(f'\n{line}\n10.0.0.9 {key("z")}\n')
        self.assertEqual(
            [f'10.0.0.1 {key("a")} s1 w1', line],
            self.record(node(1, 'a'), node(2, 'b')),
        )

    def renew(self, *nodes: dict[str, str]) -> tuple[bool, list[str]]:
        """Renew the keys; return whether one changed, and the lines."""
        outputs = {'controller': nodes[0], 'workers': list(nodes[1:])}
        is_changed = host_keys.renew('c', outputs)
        self.assertEqual(0o600, self.path.stat().st_mode & 0o777)
        return is_changed, self.path.read_text().splitlines()[1:]

    def test_another_key_of_a_replaced_server(self) -> None:
        """Heat has the key of the first guest until the second sends it."""
        before = self.record(node(1, 'a'), node(2, 'b'))
        self.assertEqual(
            (False, before), self.renew(node(1, 'a'), node(2, 'b'))
        )
        self.assertEqual((False, before), self.renew(node(1, 'a'), node(2)))
        after = [before[0], f'10.0.0.2 {key("n")} s2 w2']
        self.assertEqual((True, after), self.renew(node(1, 'a'), node(2, 'n')))
        self.assertEqual(
            (False, after), self.renew(node(1, 'a'), node(2, 'n'))
        )

    def test_a_line_of_the_user_is_not_renewed(self) -> None:
        self.record(node(1, 'a'), node(2))
        line = f'10.0.0.2 {key("u")}'
        with self.path.open('a') as stream:
            stream.write(f'\n{line}\n')
        is_changed, lines = self.renew(node(1, 'a'), node(2, 'b'))
        self.assertFalse(is_changed)
        self.assertIn(line, lines)

    def test_a_line_of_the_user_beside_a_renewed_one(self) -> None:
        self.record(node(1, 'a'))
        line = f'10.0.0.1 {key("u")}'
        with self.path.open('a') as stream:
            stream.write(f'{line}\n')
        self.assertEqual(
            (True, [f'10.0.0.1 {key("n")} s1 w1', line]),
            self.renew(node(1, 'n')),
        )

    def test_what_is_no_key(self) -> None:
        """A guest chooses what it sends; a line of its own is refused."""
        for text in (
            f'{key("a")}\n* {key("b")}',
            f'{key("a")} x\n@cert-authority * {key("b")}',
            'ssh-rsa AAAAB3NzaC1yc2E',
            f'{key("a")}\n',
            None,
        ):
            self.assertEqual(
                [f'10.0.0.1 {key("a")} s1 w1'],
                self.record(node(1, 'a'), {**node(2), 'host_key': text}),  # type: ignore[dict-item]
            )
        self.assertEqual([], self.record({**node(1, 'a'), 'address': '*'}))

    def test_keys_on_consoles(self) -> None:
        consoles = {'s2': [block('o') + 'boots\n' + block('n')], 's3': ['']}
        server_ids: list[str] = []

        def console(server_id: str) -> str:
            server_ids.append(server_id)
            return consoles[server_id][0]

        self.assertEqual(
            [f'10.0.0.1 {key("a")} s1 w1', f'10.0.0.2 {key("n")} s2 w2'],
            self.record(node(1, 'a'), node(2), node(3), console=console),
        )
        self.assertEqual({'s2', 's3'}, set(server_ids))
        server_ids.clear()
        consoles['s3'] = [block('t')]
        lines = self.record(node(1), node(2), node(3), console=console)
        # What is recorded is asked for no more.
        self.assertEqual(['s3'], server_ids)
        self.assertEqual(f'10.0.0.3 {key("t")} s3 w3', lines[-1])

    def test_a_console_without_a_key(self) -> None:
        waits: list[float] = []

        def wait_for(*_: Any, timeout: float, **__: Any) -> None:
            waits.append(timeout)
            raise errors.DeadlineExceededError('too long')

        self.useFixture(
            fixtures.MonkeyPatch('hvstack.processutils.wait_for', wait_for)
        )
        for timeout in (0, 30):
            self.assertEqual(
                [],
                self.record(node(1), console=lambda _: '', timeout=timeout),
            )
        self.assertEqual([30], waits)

    def test_on_console(self) -> None:
        self.assertEqual('', host_keys.on_console(''))
        self.assertEqual('', host_keys.on_console(f'{key("a")}\n'))
        self.assertEqual(key('a'), host_keys.on_console(block('a')))
        self.assertEqual('', host_keys.on_console(f'{block("a")[:-40]}'))
