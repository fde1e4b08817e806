# SPDX-License-Identifier: Apache-2.0
"""Test the acquisition and the release of bare-metal hosts."""

import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import fixtures
import testtools
import yaml

from hvstack import errors, host_profiles
from hvstack.cluster import (
    acquired_hosts,
    actions,
    bare_metal,
    baseline_hosts,
    host_inventory,
    host_script,
)
from hvstack.hadoop import site_files, sizing
from hvstack.progress import Progress
from tests.unit.lab.written import LabProfiles


def entry(name: str, role: str, **fields: Any) -> dict[str, Any]:
    return {
        'name': name,
        'role': role,
        'address': '10.0.0.1',
        'vcpus': 2,
        'memory_mib': 4096,
        'enter': ['false'],
        **fields,
    }


#: Notes the commands; what mounts fails where a file "fail" exists.
SSH = """#!/bin/sh
for last; do :; done
case $last in
*"hvstack mount_root"*)
    echo "mount: $(ls "$HVSTACK_TEST/taken")" >>"$HVSTACK_TEST/marks"
    [ ! -e "$HVSTACK_TEST/fail" ] || { echo no room >&2; exit 1; } ;;
*"hvstack release"*)
    echo x >>"$HVSTACK_TEST/ended"
    [ ! -e "$HVSTACK_TEST/lost" ] || { echo no route >&2; exit 255; } ;;
esac
"""
INVENTORY = """
key: {directory}/key
rootfs: {directory}/rootfs.tar
first_contact: accept
root: {root}
hosts:
- {{name: c, role: controller, address: 192.0.2.1, vcpus: 2,
   memory_mib: 4096}}
- {{name: w, role: worker, address: 192.0.2.2, vcpus: 2, memory_mib: 4096}}
"""


class HostsFileTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.acquired_dir = self.directory / 'taken'
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.acquired_hosts.ACQUIRED_HOSTS_DIR',
                self.acquired_dir,
            )
        )

    def write(self, data: Any) -> Path:
        path = self.directory / 'baseline.json'
        path.write_text(json.dumps(data))
        return path

    def test_read(self) -> None:
        inventory = baseline_hosts.read(
            self.write(
                [
                    entry('c', 'controller', cpu_cap=0.5),
                    entry('w', 'worker', lab=True),
                ]
            )
        )
        self.assertEqual(['c', 'w'], [host.name for host in inventory])
        self.assertEqual(actions.ReleaseLabHost('w'), inventory[1].release)
        self.assertEqual(('prepare', 'w'), inventory[1].prepare[-2:])
        self.assertEqual(
            (None, ()), (inventory[0].release, inventory[0].prepare)
        )
        self.assertIsNone(inventory[1].cpu_cap)

    def test_the_lab_tells_kvm_from_qemu(self) -> None:
        self.useFixture(LabProfiles())
        profile = host_profiles.load('lab-worker')
        path = self.directory / 'baseline.json'
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cluster.baseline_hosts.LAB', path)
        )
        self.assertIsNone(baseline_hosts.lab_backend(profile))
        first = entry('c', 'controller', backend='lxc')
        for kinds, expected in (
            (('qemu', 'qemu'), 'qemu'),
            (('qemu', 'lxc'), None),
            (('', ''), None),
        ):
            workers = [
                entry(f'w{index}', 'worker', backend=backend)
                for index, backend in enumerate(kinds)
            ]
            self.write([first, *workers])
            self.assertEqual(expected, baseline_hosts.lab_backend(profile))
        self.write([first, entry('w', 'worker', backend='qemu')])
        self.assertIsNone(
            baseline_hosts.lab_backend(host_profiles.load('vsphere6'))
        )

    def test_refused(self) -> None:
        good = [entry('c', 'controller'), entry('w', 'worker')]
        for data, word in (
            ({}, 'list'),
            ([1], 'mapping'),
            ([{**good[0], 'vcpus': '2'}, good[1]], 'vcpus'),
            ([{k: v for k, v in good[0].items() if k != 'enter'}], 'enter'),
            ([{**good[0], 'release': ['true']}, good[1]], 'release'),
            ([{**good[0], 'name': '../x'}, good[1]], 'name'),
            ([{**good[0], 'lab': 'yes'}, good[1]], 'lab'),
            ([{**good[0], 'enter': ['x' * 70_000]}, good[1]], '0.enter.0'),
            (good[:1], 'worker'),
            (good[1:], 'controller'),
        ):
            failure = self.assertRaises(
                errors.InputError, baseline_hosts.read, self.write(data)
            )
            self.assertIn(word, str(failure))
            self.assertIn('baseline.json', str(failure))

    def test_no_file(self) -> None:
        failure = self.assertRaises(
            errors.InputError,
            baseline_hosts.read,
            self.directory / 'none.json',
        )
        self.assertIn('hvstack lab up', str(failure))

    def test_environment(self) -> None:
        facts = baseline_hosts.environment(
            baseline_hosts.read(
                self.write(
                    [
                        entry('c', 'controller'),
                        entry('w', 'worker', cpu_cap=0.65, memory_cap_mib=9),
                    ]
                )
            )
        )
        self.assertEqual(
            {
                'hosts': 2,
                'worker_hosts': 1,
                'caps': {'w': {'cpu': 0.65, 'memory_mib': 9}},
                'scale_model': True,
            },
            facts,
        )

    def test_whole_hosts_are_no_scale_model(self) -> None:
        facts = baseline_hosts.environment(
            baseline_hosts.read(
                self.write([entry('c', 'controller'), entry('w', 'worker')])
            )
        )
        self.assertNotIn('caps', facts)
        self.assertNotIn('scale_model', facts)

    def cluster(self) -> bare_metal.BareHosts:
        """Return hosts that a program instead of ssh answers for."""
        programs = self.directory / 'bin'
        programs.mkdir(exist_ok=True)
        fake = programs / 'ssh'
        fake.write_text(SSH)
        fake.chmod(0o755)
        for name, value in (
            ('PATH', f'{programs}:{os.environ["PATH"]}'),
            ('HVSTACK_TEST', str(self.directory)),
        ):
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.actions.SSH', self.directory / 'ssh'
            )
        )
        for name in ('key', 'rootfs.tar'):
            (self.directory / name).touch()
        path = self.directory / 'hosts.yaml'
        path.write_text(
            INVENTORY.format(directory=self.directory, root='/var/lib/x/root')
        )
        return bare_metal.BareHosts.from_file(path)

    def test_profiles_reach_every_host(self) -> None:
        log = self.directory / 'log'
        # Instead of a host: notes commands and what goes into files.
        enter = ['sh', '-c', f'(echo "$@"; cat) >>{log}', 'enter']
        path = self.write(
            [
                entry('c', 'controller', enter=enter),
                entry('w', 'worker', enter=enter),
            ]
        )
        options = (('namenode', '-XX:+UseNUMA'),)
        bare_hosts = bare_metal.BareHosts.from_file(
            path, tuning='vsphere6', os_profile='vsan', daemon_options=options
        )
        bare_hosts._configure()
        text = log.read_text()
        sized = sizing.size_node(
            *(2, 4096), tuning='vsphere6', native=True, controller_mib=4096
        )
        files = site_files.render_site_files(
            sized,
            controller='10.0.0.1',
            replication=1,
            tuning='vsphere6',
            bind=True,
        )
        env = site_files.render_hadoop_env(sized, options)
        for part in (*files.values(), env):
            self.assertEqual(2, text.count(part))
        self.assertIn('JAVA_OPTS_namenode=-XX:+UseNUMA\n', text)
        self.assertIn('HEAP_datanode=455', text)
        self.assertEqual(2, text.count('os_profile=vsan\n'))
        # The lab's hosts have this machine's kernel.
        self.assertEqual(2, text.count('SHARED_KERNEL=yes'))

    def test_only_other_hosts_stop_their_daemons(self) -> None:
        """A lab host kills everything with its file system."""
        for lab, expected in ((False, ['c', 'w']), (True, [])):
            path = self.write(
                [
                    entry('c', 'controller', lab=lab),
                    entry('w', 'worker', lab=lab),
                ]
            )
            bare_hosts = bare_metal.BareHosts.from_file(path)
            names = [node.name for node in bare_hosts._list_stopped_nodes()]
            self.assertEqual(expected, names)

    def test_application_masters_on_the_controller(self) -> None:
        """As in guests: a NodeManager with its label, and no DataNode."""
        logs = {name: self.directory / f'log-{name}' for name in 'cw'}
        path = self.write(
            [
                entry(
                    name,
                    role,
                    enter=['sh', '-c', f'(echo "$@"; cat) >>{log}', 'enter'],
                )
                for (name, log), role in zip(
                    logs.items(), ('controller', 'worker'), strict=True
                )
            ]
        )
        bare_hosts = bare_metal.BareHosts.from_file(path)
        bare_hosts._configure()
        controller, worker = (log.read_text() for log in logs.values())
        roles = 'namenode resourcemanager historyserver nodemanager'
        self.assertIn(f'ROLES="{roles}"\n', controller)
        self.assertIn('nodelabel.mirror', controller)
        self.assertIn('ROLES="datanode nodemanager"\n', worker)
        self.assertNotIn('nodelabel.mirror', worker)
        sized = bare_hosts.sized('hvstack')
        self.assertIn(f' am {sized.master_node_mib}\n', controller)

    def test_no_such_profile(self) -> None:
        path = self.write([entry('c', 'controller'), entry('w', 'worker')])
        for options in ({'tuning': 'x'}, {'os_profile': 'x'}):
            failure = self.assertRaises(
                errors.InputError,
                bare_metal.BareHosts.from_file,
                path,
                **options,
            )
            self.assertIn("'x'", str(failure))

    def ended(self) -> int:
        """Return how often Hadoop's processes were ended on a host."""
        log = self.directory / 'ended'
        return len(log.read_text().splitlines()) if log.exists() else 0

    def test_given_back_when_preparing_fails(self) -> None:
        cluster = self.cluster()
        (self.directory / 'fail').touch()
        failure = self.assertRaises(errors.CommandError, cluster.__enter__)
        self.assertIn('no room', str(failure))
        # Before each of the two is prepared, and when it is released.
        self.assertEqual(4, self.ended())
        self.assertEqual([], list(self.acquired_dir.glob('*.json')))

    def test_other_hosts_are_prepared_no_further(self) -> None:
        """What still ran on them followed their release."""
        cluster = self.cluster()
        path = self.directory / 'bin' / 'ssh'
        log = self.directory / 'order'
        path.write_text(
            f'#!/bin/sh\nfor last; do :; done; echo "$last" >>{log}\n'
            'case $* in *192.0.2.1*"hvstack claim"*) exit 1 ;;\n'
            '*192.0.2.2*"hvstack claim"*) sleep 0.3 ;; esac\n'
        )
        self.assertRaises(errors.CommandError, cluster.__enter__)
        lines = log.read_text().splitlines()
        verbs = [line for line in lines if 'hvstack ' in line]
        self.assertIn('hvstack release_mine ', verbs[-1])
        self.assertFalse(
            [line for line in verbs if 'hvstack mount_root ' in line]
        )

    def test_run_of_another_user(self) -> None:
        """Its daemons were stopped, and no later command could recover."""
        cluster = self.cluster()
        path = self.directory / 'bin' / 'ssh'
        log = self.directory / 'order'
        path.write_text(
            f'#!/bin/sh\nfor last; do :; done; echo "$last" >>{log}\n'
            'case $last in *"hvstack release_own "*) exit 1 ;; esac\n'
        )
        self.assertRaises(errors.CommandError, cluster.__enter__)
        text = log.read_text()
        self.assertIn('hvstack release_own ', text)
        self.assertNotIn('node stop', text)
        self.assertEqual([], list(self.acquired_dir.glob('*.json')))
        # A forced release may have given a host to another user meanwhile.
        cluster._is_started = True
        cluster.release()
        text = log.read_text()
        holder = host_script.build_holder().split()[0]
        self.assertEqual(2, text.count('node stop'))
        self.assertEqual(2, text.count(f'^{holder} '))

    def greet(self) -> None:
        """Let the hosts' login shell print a text before each command."""
        path = self.directory / 'bin' / 'ssh'
        text = path.read_text()
        path.write_text(text.replace('\n', '\necho Welcome to $HOST!\n', 1))

    def test_a_login_shell_that_prints_a_text(self) -> None:
        """Its text became a setting, which no later process could release."""
        cluster = self.cluster()
        self.greet()
        failure = self.assertRaises(
            errors.MissingPrerequisiteError, cluster.__enter__
        )
        self.assertRegex(
            str(failure),
            r'^Cannot prepare [cw]: .*Welcome to !.* only in interactive',
        )
        # Nothing but the release was run.
        self.assertFalse((self.directory / 'marks').exists())
        self.assertEqual([], list(self.acquired_dir.glob('*.json')))

    def test_the_content_of_disks_after_another_text(self) -> None:
        """The user saw the content of another disk, and confirmed that."""
        host = self.cluster().hosts[0]
        self.greet()
        path = self.directory / 'bin' / 'ssh'
        path.write_text(
            path.read_text() + "printf '/d/a\\tblank\\n/d/b\\text4 home\\n'\n"
        )
        self.assertEqual(
            ['ext4 home', 'unknown', 'blank'],
            host_inventory.describe(host, ['/d/b', '/d/c', '/d/a'], 10),
        )

    def test_mark_is_written_before_anything_is_taken(self) -> None:
        cluster = self.cluster()
        (self.directory / 'fail').touch()
        self.assertRaises(errors.CommandError, cluster.__enter__)
        marks = (self.directory / 'marks').read_text()
        # The failure of one host may end the preparation of the other one.
        self.assertIn('mount: ', marks)
        self.assertEqual(marks.count('mount: '), marks.count('.json'))

    def test_hosts_behind_a_bastion(self) -> None:
        """Its sshd dropped some of more than ten connections at once."""
        self.cluster()
        (self.directory / 'ssh_config').touch()
        (self.directory / 'bin' / 'ssh').write_text(
            """#!/bin/sh
for last; do :; done
cd "$HVSTACK_TEST"
case " $* " in
*" -O check "*) [ -e "up-$last" ] || exit 1 ;;
*" -O exit "*) rm -f "up-$last" ;;
*" -M -N -f "*)
    touch "open-$last"
    ls | grep -c ^open- >>counts
    sleep 0.1
    rm "open-$last"
    touch "up-$last" ;;
esac
"""
        )
        path = self.directory / 'hosts.yaml'
        data = yaml.safe_load(path.read_text())
        data['ssh_config'] = str(self.directory / 'ssh_config')
        data['hosts'] += [
            {**data['hosts'][1], 'name': f'w{index}', 'address': address}
            for index in range(3, 15)
            for address in (f'192.0.2.{index}',)
        ]
        path.write_text(yaml.safe_dump(data))
        cluster = bare_metal.BareHosts.from_file(path)
        cluster._prepare_hosts()
        counts = self.directory / 'counts'
        lines = counts.read_text().split()
        self.assertEqual(14, len(lines))
        self.assertLessEqual(max(map(int, lines)), 8)
        for item in self.directory.glob('up-*'):
            item.unlink()
        counts.unlink()
        acquired_hosts.release(
            host.release for host in cluster.hosts if host.release
        )
        lines = counts.read_text().split()
        self.assertEqual(14, len(lines))
        self.assertLessEqual(max(map(int, lines)), 8)

    def test_cloned_machines_are_different_holders(self) -> None:
        """They have the same machine ID, name and state directory."""
        holders = set()
        for name in ('first', 'second'):
            directory = self.directory / name
            for target, value in (
                ('acquired_hosts.ACQUIRED_HOSTS_DIR', directory),
                ('host_script.HOLDER', directory / 'holder'),
            ):
                self.useFixture(
                    fixtures.MonkeyPatch(f'hvstack.cluster.{target}', value)
                )
            for _ in range(2):
                with acquired_hosts.open_lock() as lock:
                    self.assertTrue(acquired_hosts.try_lock(lock))
                holders.add(host_script.build_holder())
        self.assertEqual(2, len(holders))

    def test_recover_gives_back_what_a_dead_process_took(self) -> None:
        cluster = self.cluster()
        cluster._write_mark()
        path = next(self.acquired_dir.glob('*.json'))
        self.assertEqual([], acquired_hosts.recover())
        data = json.loads(path.read_text())
        path.write_text(json.dumps({**data, 'started': 1}))
        self.assertEqual(['c', 'w'], acquired_hosts.recover())
        self.assertEqual(2, self.ended())
        self.assertEqual([], acquired_hosts.recover())
        self.assertEqual(os.getpid(), data['pid'])

    def test_recover_knows_another_boot(self) -> None:
        """After a reboot, the pid and start of a mark may be a stranger's."""
        cluster = self.cluster()
        cluster._write_mark()
        path = next(self.acquired_dir.glob('*.json'))
        data = json.loads(path.read_text())
        path.write_text(json.dumps({**data, 'boot': 'of yesterday'}))
        self.assertEqual(set(), acquired_hosts.holders())
        self.assertEqual(['c', 'w'], acquired_hosts.recover())

    def test_two_recover_one_after_the_other(self) -> None:
        self.cluster()._write_mark()
        path = next(self.acquired_dir.glob('*.json'))
        data = json.loads(path.read_text())
        path.write_text(json.dumps({**data, 'boot': 'of yesterday'}))
        first = acquired_hosts.open_lock()
        self.assertTrue(acquired_hosts.try_lock(first))
        interval = []

        def pause(seconds: float) -> None:
            # The other process has given the hosts back by now.
            interval.append(seconds)
            path.unlink(missing_ok=True)
            first.close()

        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.acquired_hosts.time.sleep', pause
            )
        )
        self.assertEqual([], acquired_hosts.recover())
        self.assertEqual(1, len(interval))
        self.assertEqual(0, self.ended())

    def test_recover_does_not_wait_for_a_measurement(self) -> None:
        cluster = self.cluster()
        cluster._take_lock()
        cluster._write_mark()
        self.assertEqual([], acquired_hosts.recover())
        cluster.release()

    def test_recover_keeps_what_it_cannot_give_back(self) -> None:
        self.cluster()
        (self.directory / 'lost').touch()
        path = self.mark(
            {
                'action': 'release-ssh-host',
                'name': 'w',
                'address': '192.0.2.2',
                'root': '/var/lib/x/root',
                'key': '/key',
            }
        )
        exc = self.assertRaises(errors.HVStackError, acquired_hosts.recover)
        self.assertIn('no route', str(exc))
        self.assertIn(f'delete {path}', str(exc))
        self.assertNotIn('\n', str(exc))
        self.assertTrue(path.exists())

    def mark(self, host: Any) -> Path:
        """Write the mark of a process that no longer runs."""
        path = self.acquired_dir / 'dead.json'
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({'pid': 1, 'started': 0, 'hosts': [host]}))
        return path

    def test_the_journal_names_no_programs(self) -> None:
        """An entry with a program was run as root by the next command."""
        proof = self.directory / 'proof'
        program = ['touch', str(proof)]
        ssh = {
            'action': 'release-ssh-host',
            'name': 'w',
            'address': '192.0.2.2',
            'root': '/var/lib/x/root',
            'key': '/key',
        }
        for host, part in (
            ({'name': 'w', 'release': program}, 'older releases'),
            ({'action': 'run', 'name': 'w'}, "'run' is not one of"),
            ({'action': ['run']}, 'is not one of'),
            ({'action': 'release-lab-host', 'name': '-c'}, "'name'"),
            ({**ssh, 'address': '-oProxyCommand=x'}, "'address'"),
            ({**ssh, 'root': '/x; reboot'}, "'root'"),
            ({**ssh, 'key': '-x'}, "'key'"),
            ({**ssh, 'argv': program}, "'argv'"),
            ({**ssh, 'settings': {'kernel.core_pattern': '|x'}}, 'core'),
            ({**ssh, 'settings': {'sysctl.vm.swappiness': '1\n'}}, 'vm'),
            ({**ssh, 'disks': {'/dev/sda': 'x'}}, "'disks'"),
            ({**ssh, 'disks': {'/dev/disk/by-id/a': 'x'}}, "'disks."),
            ({**ssh, 'firewall': 'filter'}, "'firewall'"),
            ({**ssh, 'uid': 0}, "'uid'"),
            ({**ssh, 'known_hosts': 'x'}, "'known_hosts'"),
            (program, 'is not one of'),
        ):
            path = self.mark(host)
            exc = self.assertRaises(errors.InputError, acquired_hosts.recover)
            self.assertIn(part, str(exc))
            self.assertIn(str(path), str(exc))
            self.assertEqual(1, len(str(exc).splitlines()))
            self.assertTrue(path.exists())
        self.assertFalse(proof.exists())

    def test_dry_run_prints_all_commands_and_runs_none(self) -> None:
        cluster = self.cluster()
        rows = cluster.dry_run()
        self.assertEqual(
            [], [*self.directory.glob('ended'), *self.acquired_dir.glob('*')]
        )
        self.assertEqual(host_script.program(), rows.pop(0)[2])
        names = [name for name, _, _ in rows]
        texts = [text for _, _, text in rows]
        for name in ('c', 'w'):
            self.assertLess(10, names.count(name))
        for verb in ('claim', 'unpack', 'mount_root', 'check', 'settings'):
            self.assertEqual(
                2, sum(f'hvstack {verb} ' in text for text in texts), verb
            )
        for verb in ('release_own', 'release_mine'):
            self.assertEqual(
                2, sum(f'hvstack {verb} ' in text for text in texts), verb
            )
        self.assertEqual(
            2, sum("-c '/usr/lib/hvstack/node start'" in t for t in texts)
        )
        (opened, _) = [text for text in texts if ' open_firewall hv_' in text]
        self.assertTrue(opened.endswith(' 192.0.2.1 192.0.2.2'), opened)

    def test_daemons_of_ssh_hosts_are_not_root(self) -> None:
        log = self.directory / 'files'
        cluster = self.cluster()
        # Instead of a host's shell: keeps what goes into the files.
        (self.directory / 'bin' / 'ssh').write_text(
            f'#!/bin/sh\ncat >>{log}\n'
        )
        cluster._configure()
        text = log.read_text()
        self.assertNotIn('%ADDRESS%', text)
        self.assertNotIn('0.0.0.0', text)
        self.assertNotIn('SHARED_KERNEL=yes', text)
        self.assertEqual(2, text.count('DISK_TABLE=${HVSTACK_ROOT:-}/etc'))
        self.assertEqual(2, text.count('exec setpriv --reuid=1879091000 '))

    def test_restored_values_are_in_the_mark(self) -> None:
        cluster = self.cluster()
        path = self.directory / 'bin' / 'ssh'
        path.write_text(
            path.read_text() + 'case $last in *"hvstack settings "*) '
            'echo sysctl.vm.swappiness=60; '
            'echo sysctl.vm.dirty_background_bytes=5 ;; esac\n'
        )
        cluster._prepare_hosts()
        cluster._write_mark()
        mark = next(self.acquired_dir.glob('*.json'))
        data = json.loads(mark.read_text())
        mark.write_text(json.dumps({**data, 'started': 1}))
        (self.directory / 'ended').unlink()
        log = self.directory / 'log'
        path.write_text(
            f'#!/bin/sh\nfor last; do :; done; echo "$last" >>{log}'
        )
        self.assertEqual(['c', 'w'], acquired_hosts.recover())
        text = log.read_text()
        for setting in ('swappiness=60', 'dirty_background_bytes=5'):
            self.assertEqual(2, text.count(f' sysctl.vm.{setting} '))
        self.assertEqual(2, text.count(' firewall.1879091000=hv_'))

    def test_a_mark_that_is_none(self) -> None:
        path = self.mark({})
        for text in ('{', '[]', '{"pid": 1, "started": "x", "hosts": []}'):
            path.write_text(text)
            exc = self.assertRaises(errors.InputError, acquired_hosts.recover)
            self.assertIn(f'delete {path}', str(exc))

    def test_a_mark_whose_hosts_are_none(self) -> None:
        path = self.mark({})
        data = {'pid': os.getpid(), 'started': 1}
        lab = {'action': 'release-lab-host', 'name': 'c'}

        def write(*items: Any) -> None:
            path.write_text(json.dumps({**data, 'hosts': list(items)}))

        write(lab, {**lab, 'action': 'newer'}, {'name': 'c', 'release': []})
        self.assertEqual(set(), acquired_hosts.holders())
        for item in (
            *(True, 'c', [[]], {}, {'name': 7}, {**lab, 'name': '$(id)'}),
            *({**lab, 'action': {}}, {**lab, 'zzz': 1}),
            *({'action': 'newer'}, {'name': 7, 'release': []}),
            *({**lab, 'action': 'x' * 300}, {**lab, 'action': 'a b'}),
        ):
            write(lab, item)
            exc = self.assertRaises(errors.InputError, acquired_hosts.holders)
            self.assertIn(f'delete {path}', str(exc))

    def test_hosts_may_be_down_in_nova_after_their_release(self) -> None:
        """The lab waits for its own hosts."""
        stream = io.StringIO()
        cluster = self.cluster()
        cluster.progress = Progress(stream=stream)
        cluster.release()
        self.assertIn('until the next report of its nova', stream.getvalue())
        stream.truncate(0)
        cluster.hosts = [
            replace(host, reach=None, release=None) for host in cluster.hosts
        ]
        cluster.release()
        self.assertNotIn('nova', stream.getvalue())

    def test_one_at_a_time(self) -> None:
        first, second = self.cluster(), self.cluster()
        first._take_lock()
        failure = self.assertRaises(errors.BusyError, second.__enter__)
        self.assertIn(str(os.getpid()), str(failure))
        self.assertEqual(0, self.ended())
        first.release()
        second._take_lock()
        second.release()

    def test_replication_of_few_hosts(self) -> None:
        self.assertEqual(1, self.cluster().replication)
