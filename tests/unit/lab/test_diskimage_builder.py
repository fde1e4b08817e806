# SPDX-License-Identifier: Apache-2.0
"""The element of diskimage-builder that adds Hadoop to a base image."""

import configparser
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fixtures
import testtools
import yaml

from hvstack import processutils, share
from hvstack.lab.images import hadoop_archive, recipes

ELEMENT = share.ELEMENTS / 'hvstack-hadoop'
STATIC = ELEMENT / 'static'
CHECK = STATIC / 'usr/lib/hvstack/check-image'
UNITS = STATIC / 'usr/lib/systemd/system'
#: Words of the shell language, and its builtin commands.
SHELL_WORDS = {
    *('if', 'then', 'else', 'elif', 'fi', 'for', 'do', 'done', 'case', 'esac'),
    *('in', 'while', 'until', 'set', 'local', 'echo', 'export', 'exec', 'pwd'),
    *('break', 'continue', 'return', 'exit', 'cd', 'kill', 'wait', 'trap'),
    *('true', 'false', 'read', 'umask', 'eval', 'shift', 'test', 'printf'),
}
#: Positions at which a command begins, with its assignments.
COMMAND = re.compile(
    r"(?:^|[|;&({']|\$\(|\b(?:then|do|else|exec|until|if|while|setsid"
    r'|timeout \d+|LC_ALL=C)\b|!)\s*(?:[A-Z]+=\S*\s+)*'
    r'([a-z][a-z0-9_.+-]*)(?=[\s;)]|$)',
    re.MULTILINE,
)


def list_templates(node: Any) -> Iterator[str]:
    """Yield the templates of user data in a Heat template."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == 'template' and isinstance(value, str):
                yield value
            else:
                yield from list_templates(value)
    elif isinstance(node, list):
        for value in node:
            yield from list_templates(value)


def list_programs(text: str) -> set[str]:
    """Return the programs that a shell program calls."""
    text = re.sub(
        r"<<'END_OF_FILE'\n.*?\nEND_OF_FILE\n", '\n', text, flags=re.DOTALL
    )
    text = re.sub(r'^\s*#.*$', '', text, flags=re.MULTILINE)
    text = text.replace('\\\n', ' ')
    text = re.sub(r"'[^'\n]{0,3}'", 'Q', text)
    # Programs of awk and sed are not shell.
    text = re.sub(r"\b(awk|sed)((?: -\S+| \w+=\S+)*) '[^']*'", r'\1', text)
    text = re.sub(r'^\s*[\w*| .-]+\)', '\n', text, flags=re.MULTILINE)
    text = re.sub(r'"(?:[^"$]|\$(?!\())*"', 'Q', text)
    functions = set(re.findall(r'^\s*(\w+)\(\)', text, re.MULTILINE))
    return set(COMMAND.findall(text)) - SHELL_WORDS - functions


def list_checked() -> dict[str, str]:
    """Return the programs that an image is checked for, with packages."""
    text = CHECK.read_text().split("<<'PROGRAMS'\n")[1].split('\nPROGRAMS')[0]
    rows = (line.partition(' ') for line in text.splitlines())
    return {program: package for program, _, package in rows}


def list_packages() -> set[str]:
    """Return the packages that the element installs."""
    return set(yaml.safe_load((ELEMENT / 'package-installs.yaml').read_text()))


class ElementTest(testtools.TestCase):
    def test_hooks_can_be_run(self) -> None:
        """diskimage-builder skips hooks without the permission."""
        hooks = [
            path
            for path in ELEMENT.glob('*.d/*')
            if path.parent.name != 'environment.d'
        ]
        self.assertEqual(5, len(hooks))
        for path in (*hooks, *(STATIC / 'usr/lib/hvstack').iterdir()):
            self.assertTrue(os.access(path, os.X_OK), path)
            first = path.read_text().splitlines()[0]
            shell = first.removeprefix('#!')
            self.assertIn(shell, ('/bin/sh', '/bin/bash'))
            subprocess.run([shell, '-n', str(path)], check=True)

    def test_packages_are_those_of_the_image(self) -> None:
        packages = set(recipes.recipe('hadoop').base.packages)
        self.assertEqual(set(), packages - list_packages())

    def test_paths_are_those_of_the_archive(self) -> None:
        for name in (
            'install.d/60-hvstack-hadoop',
            'post-install.d/60-hvstack-hadoop',
            'post-root.d/60-hvstack-class-data',
            'static/usr/lib/hvstack/check-image',
        ):
            text = (ELEMENT / name).read_text()
            self.assertIn(hadoop_archive.DATA, text, name)
        hook = (ELEMENT / 'post-root.d/60-hvstack-class-data').read_text()
        self.assertIn('$data/classes', hook)
        for path in (recipes.FIRST_RUN, recipes.DUMP_ARCHIVE):
            self.assertIn(f'run_in_tree {path.name}', hook)

    def test_programs_of_user_data_are_checked(self) -> None:
        templates = [
            template
            for name in ('hadoop-cluster', 'hadoop-node')
            for template in list_templates(
                yaml.safe_load(
                    (share.HEAT_TEMPLATES / f'{name}.yaml').read_text()
                )
            )
            if '\n' in template
        ]
        programs = list_programs('\n'.join(templates))
        self.assertLessEqual(
            {'curl', 'grep', 'sort', 'timeout', 'uniq'}, programs
        )
        programs |= {'bash', 'setsid', 'sh'}
        self.assertEqual(set(), programs - set(list_checked()))

    def test_programs_of_the_node_are_checked(self) -> None:
        directory = recipes.FILES / 'hadoop/usr/lib/hvstack'
        programs = list_programs(
            '\n'.join(
                (directory / name).read_text()
                for name in ('client', 'hadoop-env', 'ready', 'place')
            )
        )
        programs |= list_programs(
            (STATIC / 'usr/lib/hvstack/hosts').read_text()
        )
        self.assertLessEqual({'busybox', 'curl', 'ip'}, programs)
        # Functions and variables have an underscore, programs do not.
        programs = {name for name in programs if '_' not in name}
        programs |= {'flock', 'java', 'setsid', 'prlimit', 'findmnt'}
        self.assertEqual(set(), programs - set(list_checked()))

    def test_packages_of_checked_programs_are_installed(self) -> None:
        """Packages of the recipe appear; Debian always has the others."""
        base = {
            *('bash', 'coreutils', 'dash', 'e2fsprogs', 'grep', 'hostname'),
            *('libc-bin', 'mawk', 'mount', 'sed', 'util-linux'),
        }
        self.assertEqual(
            set(), set(list_checked().values()) - base - list_packages()
        )

    def test_settings_of_cloud_init(self) -> None:
        """It lets root in by key, and mounts no disk of Nova at /mnt."""
        settings = yaml.safe_load(
            (STATIC / 'etc/cloud/cloud.cfg.d/95_hvstack.cfg').read_text()
        )
        self.assertEqual(
            {'disable_root': False, 'mounts': [['ephemeral0']]}, settings
        )
        sshd = (STATIC / 'etc/ssh/sshd_config.d/10-hvstack.conf').read_text()
        self.assertIn('\nPermitRootLogin prohibit-password\n', sshd)


class UnitsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.units = {}
        for path in UNITS.iterdir():
            unit = configparser.ConfigParser(strict=False)
            unit.optionxform = str  # type: ignore[assignment]
            unit.read(path)
            self.units[path.stem] = unit

    def test_order(self) -> None:
        hosts = self.units['hvstack-hosts']['Unit']
        self.assertIn('cloud-final.service', hosts['Before'].split())
        self.assertIn('cloud-init.service', hosts['After'].split())
        node = self.units['hvstack-node']['Unit']
        self.assertIn('cloud-final.service', node['After'].split())
        ready = self.units['hvstack-ready']['Unit']
        self.assertEqual('hvstack-node.service', ready['After'])

    def test_all_are_enabled_without_a_cycle(self) -> None:
        hook = (ELEMENT / 'post-install.d/60-hvstack-hadoop').read_text()
        for name, unit in self.units.items():
            self.assertIn(f'{name}.service', hook)
            self.assertIn(name, CHECK.read_text())
            # Ubuntu orders cloud-final.service after multi-user.target.
            self.assertEqual('cloud-init.target', unit['Install']['WantedBy'])

    def test_daemons_outlive_the_command_that_starts_them(self) -> None:
        service = self.units['hvstack-node']['Service']
        self.assertEqual('process', service['KillMode'])
        self.assertEqual('yes', service['RemainAfterExit'])
        self.assertEqual('-/usr/lib/hvstack/node start', service['ExecStart'])
        self.assertEqual('-/usr/lib/hvstack/node stop', service['ExecStop'])


class HostsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = Path(self.useFixture(fixtures.TempDir()).path)
        (self.root / 'etc').mkdir()
        self.hosts = self.root / 'etc/hosts'
        self.put('hostname', 'echo worker-1')
        self.put('ip', 'echo "1.0.0.0 via 10.0.0.1 dev eth0 src 10.0.0.5"')

    def put(self, name: str, text: str) -> None:
        """Write a program for the path."""
        path = self.root / 'bin' / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\n{text}\n')
        path.chmod(0o755)

    def run_hosts(self) -> processutils.Result:
        """Run the program, and return its result."""
        return processutils.run(
            ['sh', STATIC / 'usr/lib/hvstack/hosts'],
            check=False,
            env={
                'HVSTACK_ROOT': str(self.root),
                'PATH': f'{self.root}/bin:{os.environ["PATH"]}',
            },
        )

    def test_name_is_that_of_the_address(self) -> None:
        self.hosts.write_text(
            '127.0.1.1 worker-1.novalocal worker-1\n'
            '127.0.0.1 localhost\n'
            '10.0.0.9 ntp\n'
        )
        expected = (
            '10.0.0.5 10.0.0.5\n'
            '10.0.0.5 worker-1\n'
            '127.0.0.1 localhost\n'
            '10.0.0.9 ntp\n'
        )
        for _ in range(2):
            self.assertEqual(0, self.run_hosts().returncode)
            self.assertEqual(expected, self.hosts.read_text())

    def test_entries_of_others_stay(self) -> None:
        """The names of other nodes are added to the same file."""
        self.hosts.write_text('10.0.0.5 other\n10.0.0.6 10.0.0.6 worker-2\n')
        self.run_hosts()
        self.assertEqual(
            ['10.0.0.5 other', '10.0.0.6 10.0.0.6 worker-2'],
            self.hosts.read_text().splitlines()[2:],
        )

    def test_file_does_not_exist(self) -> None:
        self.assertEqual(0, self.run_hosts().returncode)
        self.assertEqual(
            '10.0.0.5 10.0.0.5\n10.0.0.5 worker-1\n127.0.0.1 localhost\n',
            self.hosts.read_text(),
        )

    def test_node_without_an_address(self) -> None:
        self.hosts.write_text('127.0.0.1 localhost\n')
        self.put('ip', 'exit 1')
        result = self.run_hosts()
        self.assertEqual(1, result.returncode)
        self.assertIn('Check its network', result.stderr)
        self.assertEqual('127.0.0.1 localhost\n', self.hosts.read_text())


class CheckImageTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = Path(self.useFixture(fixtures.TempDir()).path)
        text = CHECK.read_text()
        files = re.findall(r'^for file in (.*?); do', text, re.M | re.S)
        for name in ' '.join(files).replace('\\\n', ' ').split():
            path = self.root / name.removeprefix('/')
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(0o755)
        wants = self.root / 'etc/systemd/system/cloud-init.target.wants'
        wants.mkdir(parents=True)
        for path in UNITS.iterdir():
            (wants / path.name).symlink_to(path)
        (self.root / hadoop_archive.DATA).mkdir(parents=True)
        (self.root / hadoop_archive.DIGESTS).write_text(
            'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
            '  usr/lib/hvstack/node\n'
        )
        self.programs = self.root / 'programs'
        self.programs.mkdir()
        for name in list_checked():
            (self.programs / name).write_text('#!/bin/sh\n')
            (self.programs / name).chmod(0o755)
        (self.programs / 'netplan').symlink_to('/bin/true')
        # The only program that the check itself runs.
        (self.programs / 'sha256sum').unlink()
        (self.programs / 'sha256sum').symlink_to('/usr/bin/sha256sum')

    def check(self) -> tuple[int, str]:
        """Run the program, and return its exit status and messages."""
        result = processutils.run(
            ['/bin/sh', CHECK],
            check=False,
            env={'HVSTACK_ROOT': str(self.root), 'PATH': str(self.programs)},
        )
        return result.returncode, result.stderr

    def test_complete_image(self) -> None:
        self.assertEqual((0, ''), self.check())

    def test_missing_items(self) -> None:
        (self.programs / 'mkfs.xfs').unlink()
        (self.programs / 'netplan').unlink()
        (self.root / 'usr/sbin/sshd').unlink()
        wants = self.root / 'etc/systemd/system/cloud-init.target.wants'
        (wants / 'hvstack-node.service').unlink()
        (self.root / 'usr/lib/hvstack/node').write_text('other')
        status, messages = self.check()
        self.assertEqual(1, status)
        for text in (
            'mkfs.xfs does not exist. Install the package xfsprogs.',
            'Install the package netplan.io',
            '/usr/sbin/sshd does not exist',
            "Run 'systemctl enable hvstack-node'",
            'Hadoop is not that of the archive',
        ):
            self.assertIn(text, messages)
