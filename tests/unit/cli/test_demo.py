# SPDX-License-Identifier: Apache-2.0
"""Test the requirements of the demo, and the estimate of its time."""

from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import conf, errors
from hvstack.cli import demo, demo_estimate
from hvstack.lab.hosts import sizes
from hvstack.lab.settings import LabSettings
from hvstack.model.configuration import parse
from hvstack.model.target import BARE_METAL
from hvstack.results import record
from hvstack.sweep import sweep_store
from tests.unit.cli.runner import run_command
from tests.unit.lab.written import LabProfiles
from tests.unit.results import factory
from tests.unit.sweep.directories import SweepDirectories


class OptionsTest(testtools.TestCase):
    """An hvstack.conf for another cloud does not apply to the demo."""

    def test_options_of_the_lab(self) -> None:
        self.useFixture(LabProfiles())
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'hosts.json'
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cluster.baseline_hosts.LAB', path)
        )
        for name, value in (
            ('CLOUD__HOST_PROFILE', 'vsphere6'),
            ('CLOUD__CONTROLLER_PROFILE', 'vsan'),
            ('CLOUD__IMAGE', 'other'),
            ('CLOUD__NETWORK', 'production'),
            ('CLOUD__AVAILABILITY_ZONE', 'az1'),
            ('CLOUD__SSH_CONFIG', '/etc/ssh/bastion'),
            ('CLOUD__HOST_KEY_SOURCE', 'console'),
            ('SWEEP__BASELINE_HOSTS', '/etc/hosts.yaml'),
        ):
            self.useFixture(fixtures.EnvironmentVariable(f'OS_{name}', value))
        for name, value in conf.variables(demo._get_lab_options()).items():
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        options = conf.load(())
        self.assertEqual('lab-worker', options.cloud.host_profile)
        self.assertEqual('lab-controller', options.cloud.controller_profile)
        self.assertEqual('hvstack-hadoop', options.cloud.image)
        self.assertEqual('provider', options.cloud.network)
        self.assertFalse(options.cloud.availability_zone)
        self.assertFalse(options.cloud.ssh_config)
        self.assertEqual('heat', options.cloud.host_key_source)
        self.assertEqual(str(path), options.sweep.baseline_hosts)


class HostsTest(testtools.TestCase):
    """The demo is refused before anything is installed."""

    def check(self, hosts: int, gib: float, *names: str) -> LabSettings:
        """Check a machine with two cores and this memory."""
        for name, value in (
            ('hvstack.lab.hosts.sizes.machine_mib', lambda: int(gib * 1024)),
            ('os.cpu_count', lambda: 2),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        return demo._check_machine(
            [parse(name) for name in names],
            'hvstack',
            LabSettings(hosts=hosts),
        )

    def test_lab_without_a_host_for_workers(self) -> None:
        exc = self.assertRaises(errors.InputError, self.check, 1, 24, 'i1')
        self.assertIn('lab up --hosts 2', str(exc))

    def test_settings_do_not_change(self) -> None:
        for hosts in (2, 3):
            settings = self.check(hosts, 24, *demo.CONFIGURATIONS)
            self.assertEqual(LabSettings(hosts=hosts), settings)

    def test_workers_that_are_too_small_for_hadoop(self) -> None:
        exc = self.assertRaises(errors.InputError, self.check, 2, 12, 'i1')
        self.assertIn('12.0 GiB', str(exc))
        self.assertIn('i1: ', str(exc))
        self.assertIn('--configurations', str(exc))
        self.check(2, 13, 'i1')
        self.assertRaises(errors.InputError, self.check, 2, 13, 'i2')


class EstimateTest(testtools.TestCase):
    """The demo prints its minutes before it starts."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = self.useFixture(SweepDirectories()).path
        for name, value in (
            ('hvstack.lab.hosts.sizes.machine_mib', lambda: 24 * 1024),
            ('os.cpu_count', lambda: 2),
            ('hvstack.speed._work', lambda: 0.0075),
            ('hvstack.lab.stages._MARKS', self.directory / 'marks.json'),
            ('hvstack.lab.hosts.kvm_probe.load_answer', lambda: None),
            ('hvstack.lab.images.find', lambda _: None),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))

    def estimate(
        self,
        names: str = 'i1,i2',
        size_bytes: int = demo.SIZE_BYTES,
        passes: int = demo.PASSES,
        **settings: Any,
    ) -> demo_estimate.DemoEstimate:
        """Return the estimate of a new demo on 2 cores."""
        sweep = sweep_store.create_sweep(
            [parse(name) for name in names.split(',')],
            *(passes, size_bytes),
            tuning='lab',
            is_saved=False,
        )
        return demo_estimate.estimate_demo(
            sweep, is_new=True, lab_settings=LabSettings(**settings)
        )

    def test_without_records(self) -> None:
        """The minutes are those of the documentation."""
        self.assertEqual(
            'the demo takes about 35 minutes: lab 134 s, guest image 59 s, '
            '11 runs x 176 s with 8 tasks (measured on a lab with 2 cores: '
            'doc/source/user/quickstart-lab.md)',
            self.estimate().format_line(),
        )
        # Configurations with other containers need more tasks.
        names = 'i1,i2,i2-c2,i2-m1.2'
        line = self.estimate(names, 800_000_000).format_line()
        self.assertIn('about 107 minutes: ', line)
        self.assertIn('20 runs x 312 s with 24 tasks', line)
        self.assertIn(
            '15 minutes', self.estimate('i1', passes=1).format_line()
        )

    def test_slow_machine_that_has_lab_and_image(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.speed._work', lambda: 0.03)
        )
        (self.directory / 'marks.json').write_text('{"content": "done"}')
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.lab.images.find', lambda _: object())
        )
        line = self.estimate().format_line()
        self.assertIn('about 131 minutes: lab 128 s, 11 runs x 704 s', line)
        self.assertIn('with 2 cores times 4: ', line)

    def test_more_cores(self) -> None:
        """They share what tasks and data take, not the waits."""
        self.useFixture(fixtures.MonkeyPatch('os.cpu_count', lambda: 4))
        estimate = self.estimate()
        self.assertEqual(16, estimate.tasks)
        self.assertEqual(92 + (104 + 32) / 2, estimate.run_seconds)

    def test_emulated_cpus(self) -> None:
        line = self.estimate(compute='qemu').format_line()
        self.assertIn('how long the demo takes is not known: ', line)
        self.assertIn('11 runs with emulated CPUs', line)

    def save_runs(self, sweep: str, tasks: int, seconds: float) -> None:
        """Save a run on bare metal and one on a cluster, after 70 s."""
        caps = {
            host.name: {'cpu': host.cpu_cap, 'memory_mib': host.memory_mib}
            for host in sizes.plan(LabSettings(compute='lxc'))
        }
        self.useFixture(
            fixtures.MonkeyPatch(f'{factory.__name__}.TASKS', tasks)
        )
        for name, started in (
            (BARE_METAL, '2026-11-21T05:00:00Z'),
            ('i1', '2026-11-21T05:02:50Z'),
        ):
            record.save(
                factory.run(
                    *(name, 0, seconds),
                    size=demo.SIZE_BYTES,
                    sweep=sweep,
                    started=started,
                    caps=caps,
                ),
                sweep_store.RECORDS_DIR,
            )

    def test_records_of_this_machine(self) -> None:
        # Runs with another number of tasks take another time.
        self.save_runs('quick-1', 24, 100)
        self.assertFalse(self.estimate().is_recorded)
        self.save_runs('quick-2', 8, 100)
        line = self.estimate().format_line()
        self.assertIn('about 34 minutes: lab 134 s, guest image 59 s (', line)
        self.assertIn(
            'quickstart-lab.md), 11 runs x 170 s with 8 tasks (recorded on '
            'this machine)',
            line,
        )
        # Hosts with other caps, and another size.
        self.assertFalse(self.estimate(hosts=2).is_recorded)
        self.assertFalse(self.estimate(size_bytes=10**8).is_recorded)
        # Trusted records of another machine do not say how fast this one is.
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.results.signing.own_public', lambda: None
            )
        )
        self.assertFalse(self.estimate().is_recorded)

    def test_remaining_runs_of_an_interrupted_demo(self) -> None:
        sweep = sweep_store.create_sweep(
            [parse(name) for name in demo.CONFIGURATIONS],
            *(demo.PASSES, demo.SIZE_BYTES),
        )
        self.save_runs(sweep.id, 24, 100)
        estimate = demo_estimate.estimate_demo(
            sweep, is_new=False, lab_settings=LabSettings()
        )
        self.assertEqual(9, estimate.runs)

    def test_command_prints_it_before_the_lab_starts(self) -> None:
        def refuse(*_: Any) -> None:
            raise errors.BusyError('Cannot start the lab. Wait.')

        self.useFixture(
            fixtures.MonkeyPatch('hvstack.lab.lifecycle.up', refuse)
        )
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.lab.settings.load', lambda: None)
        )
        _, _, error = run_command('demo', '--passes', '1', '--size', '200MB')
        first, second, *_ = error.splitlines()
        self.assertIn('the demo takes about ', first)
        self.assertIn(' 5 runs x 160 s', first)
        self.assertIn('1/5 the lab ...', second)
        # A demo that does not start leaves no sweep to resume.
        self.assertEqual([], sweep_store.list_sweeps())
