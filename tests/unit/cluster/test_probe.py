# SPDX-License-Identifier: Apache-2.0
"""Test how the facts of nodes and hosts are read."""

from pathlib import Path

import fixtures
import testtools

from hvstack import errors, processutils
from hvstack.cluster import probe
from hvstack.cluster.command_node import CommandNode
from tests.unit.cluster.lab_tree import LabTree

BUSY = """\
5000.00 100.00
5003.10 100.00
0m0.000000s 0m0.010000s
0m1.900000s 0m0.115000s
"""

#: Lines of a kernel's log, from killed tasks.
LOG = """\
[1.0] nova-scheduler: invoked oom-killer: gfp_mask=0x140cca, order=0
[2.0] oom-kill:constraint=CONSTRAINT_NONE,cpuset=/,global_oom,task=python,pid=3
[2.1] Out of memory: Killed process 3 (python) total-vm:20732832kB
[3.0] oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/hv-host2,task=java,pid=4
[3.1] Memory cgroup out of memory: Killed process 4 (java) total-vm:2073283kB
"""


def node(name: str) -> CommandNode:
    return CommandNode(
        name=name,
        address='127.0.0.1',
        role='worker',
        host=name,
        enter=('env',),
    )


class ProbeTest(testtools.TestCase):
    def test_cores(self) -> None:
        self.assertEqual(0.65, probe.cores(BUSY))

    def test_cores_of_nonsense(self) -> None:
        for text in (
            '',
            'no\nsuch\nthing\nhere',
            BUSY.replace('5003', '5000'),
        ):
            if '5000.10' in text:
                continue
            self.assertRaises(errors.CommandError, probe.cores, text)

    def list_timestamps(self, log: str) -> list[str]:
        return sorted(line[:5] for line in probe.oom(log))

    def test_oom_lines_of_the_run_only(self) -> None:
        self.useFixture(LabTree(1))
        self.assertEqual(['[3.0]', '[3.1]'], self.list_timestamps(LOG))

    def test_oom_lines_of_other_owners_on_a_machine_with_a_lab(self) -> None:
        self.useFixture(LabTree(1, 'hv-host2'))
        self.assertEqual(['[3.0]'], self.list_timestamps(LOG))
        for group, expected in (
            ('/hv-host2/machine/lxc-1', ['[3.0]']),
            ('/hvstack.slice/hvstack-hv-host2.scope', ['[3.0]']),
            ('/docker/hv-host22', []),
            ('/system.slice/search.service', []),
        ):
            log = LOG.replace('/hv-host2', group)
            self.assertEqual(expected, self.list_timestamps(log))

    def test_facts_of_this_machine(self) -> None:
        facts = probe.facts(node('here'))
        self.assertIn('kernel', facts)
        self.assertIn('os_release', facts)
        self.assertNotIn('image_digest', facts)
        self.assertLess(0, int(facts['data_disks']))
        self.assertRegex(facts['libhadoop'], 'none|[0-9a-f]{12}')

    def test_what_guests_do_not_see_of_this_machine(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        program = directory / 'libvirtd'
        program.write_text('#!/bin/sh\necho "libvirtd (libvirt) 9.0.0"\n')
        program.chmod(0o755)
        self.useFixture(
            fixtures.EnvironmentVariable('PATH', f'{directory}:/usr/bin:/bin')
        )
        host_facts = probe.host(node('here'))
        self.assertEqual('9.0.0', host_facts['libvirt'])
        self.assertNotIn('kernel', host_facts)
        guest_facts = probe.facts(node('here'))
        for name in ('cpu_model', 'smt', 'thp'):
            self.assertEqual(guest_facts.get(name), host_facts.get(name))
        self.assertNotIn('libvirt', guest_facts)

    def test_disks_of_hosts(self) -> None:
        """All hosts count, not the first of them alone."""
        twenty = ''.join(f'sd{n} rotational 600\n' for n in range(20))
        for outputs, expected in (
            ([twenty, twenty], (20, 'rotational', 600)),
            (
                [twenty, 'sdb ssd 480\n'],
                ('1 or 20', 'rotational or ssd', '480 or 600'),
            ),
            ([twenty, ''], (None, None, None)),
        ):
            done = [processutils.Result(0, text, '') for text in outputs]
            self.useFixture(
                fixtures.MonkeyPatch(
                    'hvstack.cluster.probe.run_on_nodes',
                    lambda *_, done=done, **_options: done,
                )
            )
            use = probe.disks([node('w1'), node('w2')])
            self.assertEqual(expected, (use.count, use.kind, use.size_gb))
            self.assertEqual('bare metal', use.access)

    def test_memory_of_this_machine(self) -> None:
        self.assertLess(0, probe.memory([node('here')])['here'])
