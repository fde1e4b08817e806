# SPDX-License-Identifier: Apache-2.0
"""Test the OS profiles and the script that applies them."""

import os
import subprocess
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.hadoop import os_profiles, site_files
from hvstack.hadoop.os_profiles import Kind
from hvstack.hadoop.sizing import size_node
from tests.unit.hadoop.test_site_files import parse_properties

UUID = '0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0'
#: How vsphere6's file system is noted.
XFS = 'mkfs.xfs=--unsupported -d agcount=1'
#: Programs of a node, as the fragment calls them. A disk is a file that
#: names its file system and its label.
PROGRAMS = {
    'blkid': 'for d; do :; done; [ -s "$d" ] || exit 2; case $5 in '
    'TYPE) sed -n 1p "$d" ;; LABEL) sed -n 2p "$d" ;; esac',
    'mkfs.xfs': 'for d; do :; done; echo "mkfs.xfs $*" >>$LOG; '
    'printf "xfs\\n$2\\n" >"$d"',
    'mkfs.ext4': 'for d; do :; done; echo "mkfs.ext4 $*" >>$LOG; '
    'echo ext4 >"$d"',
    'mountpoint': 'grep -q " $2 " "$HVSTACK_ROOT/proc/mounts"',
    'mount': 'echo "mount $*" >>$LOG; o=rw; [ $1 != -o ] || { o=rw,$2; '
    'shift 2; }; echo "$1 $2 fs $o 0 0" >>"$HVSTACK_ROOT/proc/mounts"',
    'wipefs': 'for d; do :; done; echo "wipefs $d" >>$LOG; : >"$d"',
    'prlimit': 'echo "prlimit $3" >>$LOG',
    'uname': 'echo 6.1.0-18-amd64',
}


class OsProfilesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = Path(self.useFixture(fixtures.TempDir()).path)
        self.log = self.root / 'log'
        self.programs = self.root / 'bin'
        self.programs.mkdir()
        for name, text in PROGRAMS.items():
            program = self.programs / name
            program.write_text(f'#!/bin/sh\n{text}\n')
            program.chmod(0o755)
        for profile in os_profiles.list_names():
            for setting in os_profiles.settings(profile):
                if setting.kind in (Kind.SYSCTL, Kind.THP):
                    path = self.file(setting)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text('as it was\n')
        self.environ('PATH=/usr/bin')
        for name in ('mounts', 'swaps'):
            (self.root / 'proc' / name).touch()
        for name in ('hadoop', 'hvstack'):
            (self.root / 'etc' / name).mkdir(parents=True)
        for name, text in site_files.render_site_files(
            size_node(2, 4096)
        ).items():
            (self.root / 'etc/hadoop' / name).write_text(text)

    def file(self, setting: os_profiles.Setting) -> Path:
        if setting.kind is Kind.THP:
            directory = 'sys/kernel/mm/transparent_hugepage'
            return self.root / directory / setting.name
        return self.root / 'proc/sys' / setting.name.replace('.', '/')

    def environ(self, text: str) -> None:
        path = self.root / 'proc/1/environ'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{text}\0HOME=/\0')

    def run_it(
        self, profile: str, **options: object
    ) -> os_profiles.OSProfileResult:
        if 'data_disks' in options:
            disks: Any = options.pop('data_disks')
            (self.root / 'etc/hvstack/disks').write_text(
                ''.join(f'{disk} {UUID}\n' for disk in disks)
            )
            options['disk_table'] = True
        text = os_profiles.fragment(profile, **options)  # type: ignore
        done = self.run_fragment(text)
        self.assertEqual('', done.stderr)
        self.assertEqual(0, done.returncode)
        self.assertIn('reached its end\n', done.stdout)
        state = self.root / os_profiles.STATE.lstrip('/')
        profile_result = os_profiles.parse_state(state.read_text())
        for setting in profile_result.not_set:
            self.assertIn(
                f'not set: {setting.partition(": ")[0]}', done.stdout
            )
        return profile_result

    def run_fragment(self, text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ['/bin/sh', '-eu', '-c', f'{text}echo reached its end\n'],
            env={
                'PATH': f'{self.programs}:{os.environ["PATH"]}',
                'HVSTACK_ROOT': str(self.root),
                'LOG': str(self.log),
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def disk(self, name: str, content: str = '') -> str:
        path = self.root / name
        path.write_text(content)
        return str(path)

    def test_the_papers_disagree(self) -> None:
        """Issue of every profile: large pages, open files, XFS."""

        def value(profile: str, setting_kind: Kind, name: str) -> str:
            return next(
                setting.value
                for setting in os_profiles.settings(profile)
                if (setting.kind, setting.name) == (setting_kind, name)
            )

        self.assertEqual('vsphere6', os_profiles.DEFAULT)
        for profile, pages, files in (
            ('vsphere6', 'madvise', '32768'),
            ('vsan', 'never', '65536'),
            ('amd', 'never', '32768'),
        ):
            self.assertEqual(pages, value(profile, Kind.THP, 'enabled'))
            self.assertEqual(files, value(profile, Kind.LIMIT, 'nofile'))
        self.assertEqual(
            '--unsupported -d agcount=1', value('vsphere6', Kind.MKFS, 'xfs')
        )
        self.assertEqual('-i size=2048', value('vsan', Kind.MKFS, 'xfs'))
        self.assertEqual(
            'noatime,nodiratime,logbufs=8',
            value('vsan', Kind.MOUNT, 'options'),
        )
        self.assertEqual((), os_profiles.settings('stock'))

    def test_steps_of_amd_add_up(self) -> None:
        names = ('amd-2.4.1', 'amd-3.3.1', 'amd')
        steps = [set(os_profiles.settings(name)) for name in names]
        self.assertLess(steps[0], steps[1])
        self.assertLess(steps[1], steps[2])
        kinds = {setting.kind for setting in steps[0]}
        self.assertEqual({Kind.LIMIT, Kind.SYSCTL}, kinds)

    def test_counts_of_the_papers(self) -> None:
        """vsphere6: 2 limits, 9 sysctls; vsan: 2 and 6; amd: 6 in all."""
        for profile, limits, sysctls, others in (
            ('vsphere6', 2, 9, 9),
            ('vsan', 2, 6, 5),
            ('amd', 1, 1, 4),
        ):
            kinds = [setting.kind for setting in os_profiles.settings(profile)]
            self.assertEqual(limits, kinds.count(Kind.LIMIT))
            self.assertEqual(sysctls, kinds.count(Kind.SYSCTL))
            self.assertEqual(others, len(kinds) - limits - sysctls)

    def test_every_value_has_its_source_and_reason(self) -> None:
        for profile in os_profiles.list_names():
            for setting in os_profiles.settings(profile):
                self.assertTrue(setting.source, setting.name)
                self.assertTrue(setting.reason, setting.name)

    def test_fragment_is_shell(self) -> None:
        for profile in os_profiles.list_names():
            for shell in ('/bin/sh', '/bin/bash'):
                subprocess.run(
                    [shell, '-n'],
                    input=os_profiles.fragment(profile),
                    text=True,
                    check=True,
                )

    def test_no_such_profile(self) -> None:
        failure = self.assertRaises(
            errors.InputError, os_profiles.fragment, 'fast'
        )
        self.assertIn("OS profile 'fast'", str(failure))

    def test_a_virtual_machine_sets_all_that_is_its_own(self) -> None:
        disks = (self.disk('vdb'), self.disk('vdc'))
        profile_result = self.run_it('vsan', data_disks=disks)
        self.assertEqual('vsan', profile_result.profile)
        self.assertEqual(
            ["mtu=9000: the network's MTU is Neutron's to say, by DHCP"],
            list(profile_result.not_set),
        )
        for setting in os_profiles.settings('vsan'):
            if setting.kind in (Kind.SYSCTL, Kind.THP):
                self.assertEqual(
                    f'{setting.value}\n', self.file(setting).read_text()
                )
        data = self.root / 'srv/data'
        mkfs = f'mkfs.xfs -L hv-vsan -i size=2048 -m uuid={UUID}'
        self.assertEqual(
            [
                'prlimit --nofile=65536:65536',
                'prlimit --nproc=65536:65536',
                f'{mkfs} {disks[0]}',
                f'mount -o noatime,nodiratime,logbufs=8 {disks[0]} {data}/0',
                f'{mkfs} {disks[1]}',
                f'mount -o noatime,nodiratime,logbufs=8 {disks[1]} {data}/1',
            ],
            self.log.read_text().splitlines(),
        )
        limits = self.root / 'etc/security/limits.d'
        self.assertEqual(
            '* - nofile 65536\n', (limits / 'hvstack-nofile.conf').read_text()
        )

    def test_a_container_leaves_the_hosts_kernel_alone(self) -> None:
        own = 'sysctl.net.ipv4.tcp_mtu_probing=1'
        for options in ({'shared_kernel': True}, {}):
            self.environ(
                'PATH=/usr/bin' if options else 'container=lxc-libvirt'
            )
            profile_result = self.run_it('vsphere6', **options)
            self.assertIn(
                "thp.enabled=madvise: the kernel is the host's",
                profile_result.not_set,
            )
            self.assertIn(
                f'{XFS}: the node has one root disk',
                profile_result.not_set,
            )
            # Of a network name space that it shares with its host's agents
            # it changes nothing either.
            self.assertEqual(not options, own in profile_result.applied)
            self.assertIn('limit.nofile=32768', profile_result.applied)
            for setting in os_profiles.settings('vsphere6'):
                if setting.kind is Kind.THP or setting.name.startswith('vm.'):
                    self.assertEqual(
                        'as it was\n', self.file(setting).read_text()
                    )

    def test_what_is_refused_or_missing_is_listed(self) -> None:
        for setting in os_profiles.settings('vsan'):
            if setting.name == 'net.core.rmem_max':
                self.file(setting).unlink()
            elif setting.name == 'net.core.wmem_max':
                # No user can write to a directory, not even root.
                self.file(setting).unlink()
                self.file(setting).mkdir()
        (self.programs / 'prlimit').write_text('#!/bin/sh\nexit 1\n')
        profile_result = self.run_it('vsan')
        for expected in (
            'sysctl.net.core.rmem_max=16777216: this kernel or name space '
            'does not have it',
            'sysctl.net.core.wmem_max=16777216: refused',
            'limit.nofile=65536: refused',
        ):
            self.assertIn(expected, profile_result.not_set)

    def test_a_disk_with_data_is_never_formatted(self) -> None:
        own_disk = self.disk('vdb', 'xfs\nhv-vsphere6\n')
        other_disk = self.disk('vdc', 'btrfs\nphotos\n')
        profile_result = self.run_it(
            'vsphere6', data_disks=(own_disk, other_disk)
        )
        self.assertNotIn('mkfs', self.log.read_text())
        self.assertIn(f'{XFS} on {own_disk}', profile_result.applied)
        self.assertIn(
            f'{XFS}: {other_disk} holds btrfs already',
            profile_result.not_set,
        )

    def test_a_disk_that_cannot_be_told_is_never_formatted(self) -> None:
        (self.programs / 'blkid').write_text('#!/bin/sh\nexit 8\n')
        self.run_it('vsphere6', data_disks=(self.disk('vdb'),))
        self.assertNotIn('mkfs', self.log.read_text())

    def test_options_that_are_refused_leave_the_file_system(self) -> None:
        (self.programs / 'mkfs.xfs').write_text(
            '#!/bin/sh\ncase $* in *size=*) exit 1 ;; esac\n'
            'for last; do :; done; printf "xfs\\n$2\\n" >"$last"\n'
        )
        disk = self.disk('vdb')
        # The next run finds it.
        for _ in range(2):
            profile_result = self.run_it('vsan', data_disks=(disk,))
            self.assertIn(
                f'mkfs.xfs=-i size=2048: refused for {disk}: plain xfs',
                profile_result.not_set,
            )
            self.assertEqual(
                'xfs\nhp-vsan\n', Path(disk).read_text(encoding='utf-8')
            )

    def test_xfs_that_an_old_kernel_mounts(self) -> None:
        """The disks of hosts with such a kernel could not be used."""
        disk = self.disk('vdb')
        old = f'-m uuid={UUID},bigtime=0,inobtcount=0 {disk}'
        new = f'-m uuid={UUID} {disk}'
        for release, expected in (
            ('4.18.0-553.el8_10.x86_64', old),
            ('5.4.0-200-generic', old),
            ('5.9-rc1', old),
            ('5.10.0-30-amd64', new),
            ('5.15.0', new),
            ('6.1.0-18-amd64', new),
            ('10.0.1', new),
        ):
            uname = self.programs / 'uname'
            uname.write_text(f'#!/bin/sh\necho {release}\n')
            disk = self.disk('vdb')
            self.log.write_text('')
            (self.root / 'proc/mounts').write_text('')
            self.run_it('vsan', data_disks=[disk])
            self.assertIn(
                f'mkfs.xfs -L hv-vsan -i size=2048 {expected}\n',
                self.log.read_text(),
            )

    def test_labels_fit_xfs(self) -> None:
        """mkfs.xfs(8): at most 12 characters."""
        for profile in os_profiles.list_names():
            self.assertLessEqual(len(f'hv-{profile}'), 12)

    def test_a_named_disk_that_cannot_be_mounted(self) -> None:
        """HDFS must not write to the root disk of a host instead."""
        (self.programs / 'mount').write_text('#!/bin/sh\nexit 32\n')
        (self.programs / 'mountpoint').write_text('#!/bin/sh\nexit 1\n')
        disks = self.disk('vdb'), self.disk('vdc')
        (self.root / 'etc/hvstack/disks').write_text(
            ''.join(f'{disk} {UUID}\n' for disk in disks)
        )
        for disk_table, status in ((True, 1), (False, 0)):
            done = self.run_fragment(
                os_profiles.fragment('vsan', disk_table=disk_table)
            )
            self.assertEqual(status, done.returncode, done.stderr)
        done = self.run_fragment(os_profiles.fragment('vsan', disk_table=True))
        self.assertEqual(
            f'os profile vsan: no file system on {" ".join(disks)}\n',
            done.stderr,
        )

    def test_without_xfs_a_disk_is_still_of_use(self) -> None:
        (self.programs / 'mkfs.xfs').write_text('#!/bin/sh\nexit 1\n')
        disk = self.disk('vdb')
        profile_result = self.run_it('vsphere6', data_disks=(disk,))
        self.assertIn(
            f'{XFS}: failed on {disk}: plain ext4',
            profile_result.not_set,
        )
        self.assertIn(
            f'mount {disk} {self.root}/srv/data/0', self.log.read_text()
        )

    def block(self, name: str, **files: str) -> Path:
        """Make a disk that the kernel shows."""
        directory = self.root / 'sys/block' / name
        directory.mkdir(parents=True)
        for key, text in ({'ro': '0', 'removable': '0'} | files).items():
            (directory / key).write_text(f'{text}\n')
        return directory

    def test_a_virtual_machine_finds_its_disks(self) -> None:
        # What must be left alone: the root disk, a CD, what is mounted or
        # swapped to, the config drive.
        (self.block('vda') / 'vda1').mkdir()
        self.block('sr0', removable='1')
        self.block('vdx', ro='1')
        (self.root / 'proc/mounts').write_text('/dev/vdy /srv fs rw 0 0\n')
        (self.root / 'proc/swaps').write_text('Filename\n/dev/vdz file 1\n')
        for name in ('vdb', 'vdc', 'vdy', 'vdz', 'vdd', 'vde'):
            self.block(name)
        (self.programs / 'blkid').write_text(
            # As cloud-init does: a label of vfat can be in capital letters.
            '#!/bin/sh\ncase $5-$6$7$8 in LABEL-/dev/vdd*) echo config-2 ;; '
            'LABEL-/dev/vde*) echo CONFIG-2 ;; *) exit 2 ;; esac\n'
        )
        (self.programs / 'mkfs.xfs').write_text(
            '#!/bin/sh\necho "mkfs.xfs $*" >>$LOG\n'
        )
        (self.root / 'etc/hvstack/node.env').write_text("DISKS='2'\n")
        profile_result = self.run_it('vsphere6')
        self.assertEqual(
            [
                f'{XFS} on /dev/vdb',
                f'{XFS} on /dev/vdc',
            ],
            [
                setting
                for setting in profile_result.applied
                if setting.startswith('mkfs')
            ],
        )
        data = self.root / 'srv/data'
        for name, key, value in (
            (
                'hdfs-site.xml',
                'dfs.datanode.data.dir',
                f'file://{data}/0/hdfs,file://{data}/1/hdfs',
            ),
            (
                'yarn-site.xml',
                'yarn.nodemanager.local-dirs',
                f'{data}/0/yarn,{data}/1/yarn',
            ),
        ):
            text = (self.root / 'etc/hadoop' / name).read_text()
            self.assertEqual(value, parse_properties(text)[key])
        self.assertTrue((data / '1/hdfs').is_dir())

    def test_disks_that_come_one_after_the_other(self) -> None:
        """The wait ended after a fixed time, with some of the disks."""
        (self.programs / 'blkid').write_text('#!/bin/sh\nexit 2\n')
        (self.programs / 'mkfs.xfs').write_text('#!/bin/sh\n')
        disks = self.root / 'sys/block'
        (self.programs / 'sleep').write_text(
            f"""#!/bin/sh
echo >>{self.root}/sleeps
slept=$(wc -l <{self.root}/sleeps)
[ $((slept % 2)) = 0 ] && [ $slept -le 10 ] || exit 0
mkdir -p {disks}/vd$slept
echo 0 >{disks}/vd$slept/ro
echo 0 >{disks}/vd$slept/removable
"""
        )
        (self.programs / 'sleep').chmod(0o755)
        (self.root / 'etc/hvstack/node.env').write_text(
            'DISKS=6\nDISK_SECONDS=6\n'
        )
        profile_result = self.run_it('vsphere6')
        # The sixth one does not come within 6 s after the fifth.
        self.assertIn('disks=6: only 5 there', profile_result.not_set)
        sleeps = (self.root / 'sleeps').read_text().splitlines()
        self.assertEqual(10 + 3, len(sleeps))

    def test_disks_that_do_not_come_are_named(self) -> None:
        """HDFS stored blocks on the root disk, which the next boot ignored."""
        (self.root / 'etc/hvstack/node.env').write_text(
            'DISKS=3\nDISK_SECONDS=0\n'
        )
        for is_shared, status in ((False, 9), (True, 0)):
            done = self.run_fragment(
                os_profiles.fragment('vsphere6', shared_kernel=is_shared)
            )
            self.assertEqual(status, done.returncode)
        self.environ('container=lxc-libvirt')
        done = self.run_fragment(os_profiles.fragment('vsphere6'))
        self.assertEqual(0, done.returncode)
        self.environ('PATH=/usr/bin')
        done = self.run_fragment(os_profiles.fragment('vsphere6'))
        self.assertIn('not set: disks=3 (only 0 there)', done.stdout)
        self.assertEqual(
            'os profile vsphere6: none of 3 volumes is mounted\n', done.stderr
        )

    def test_blocks_on_the_root_disk_stay_in_use(self) -> None:
        """A volume that came later replaced the directory with the blocks."""
        blocks = self.root / 'srv/hdfs/data'
        (blocks / 'current').mkdir(parents=True)
        (self.root / 'etc/hvstack/node.env').write_text(
            'DISKS=1\nDISK_SECONDS=0\n'
        )
        site = self.root / 'etc/hadoop/hdfs-site.xml'
        before = site.read_text()
        profile_result = self.run_it('vsphere6')
        self.assertIn('disks=1: only 0 there', profile_result.not_set)
        self.assertEqual(before, site.read_text())
        self.block('vdb')
        (self.programs / 'blkid').write_text('#!/bin/sh\nexit 2\n')
        (self.programs / 'mkfs.xfs').write_text('#!/bin/sh\n')
        for _ in range(2):
            self.run_it('vsphere6')
            self.assertEqual(
                f'file://{self.root}/srv/data/0/hdfs,file://{blocks}',
                parse_properties(site.read_text())['dfs.datanode.data.dir'],
            )

    def test_an_ephemeral_disk_is_no_volume(self) -> None:
        """HDFS started on it while the volumes were being attached."""
        self.block('vdb')
        (self.programs / 'blkid').write_text(
            '#!/bin/sh\ncase $5 in LABEL) echo ephemeral0 ;; '
            'TYPE) echo ext4 ;; esac\n'
        )
        (self.programs / 'mkfs.xfs').write_text('#!/bin/sh\n')
        (self.root / 'etc/hvstack/node.env').write_text(
            'DISKS=1\nDISK_SECONDS=0\n'
        )
        profile_result = self.run_it('vsphere6')
        self.assertIn('disks=1: only 0 there', profile_result.not_set)
        # It is a data disk all the same.
        self.assertIn(f'{XFS} on /dev/vdb', profile_result.applied)

    def test_novas_own_file_system_is_replaced(self) -> None:
        disk = self.disk('vdb', 'ext4\nephemeral0\n')
        profile_result = self.run_it('vsphere6', data_disks=(disk,))
        self.assertIn(f'{XFS} on {disk}', profile_result.applied)
        # The next boot finds a file system of hvstack in use.
        self.log.unlink()
        self.assertEqual(
            profile_result, self.run_it('vsphere6', data_disks=(disk,))
        )
        self.assertNotIn('mkfs', self.log.read_text())

    def test_mount_options_that_do_not_hold_are_named(self) -> None:
        (self.programs / 'mount').write_text(
            '#!/bin/sh\n[ $1 != -o ] || exit 1\n'
            'echo "$1 $2 fs rw,noatime 0 0" >>"$HVSTACK_ROOT/proc/mounts"\n'
        )
        disk = self.disk('vdb')
        profile_result = self.run_it('vsan', data_disks=(disk,))
        self.assertIn(f'mount=noatime on {disk}', profile_result.applied)
        self.assertIn(
            f'mount=logbufs=8: not in force on {disk}', profile_result.not_set
        )

    def test_stock_sets_nothing(self) -> None:
        profile_result = self.run_it('stock', data_disks=(self.disk('vdb'),))
        self.assertEqual(
            os_profiles.OSProfileResult('stock', (), ()), profile_result
        )
        self.assertIn('mkfs.ext4', self.log.read_text())
