# SPDX-License-Identifier: Apache-2.0
"""Names of the agents of a lab host."""

import testtools

from hvstack.lab.hosts import agent_use


class ProgramTest(testtools.TestCase):
    def test_names(self) -> None:
        for command, name in (
            ('ovs-vswitchd --pidfile unix:/run/db.sock', 'ovs-vswitchd'),
            ('/usr/bin/python3 /lab/bin/nova-compute', 'nova-compute'),
            ('/venv/bin/python -I -S /lab/switch_setup.py', 'switch_setup.py'),
            ('python', 'python'),
            ('', 'unnamed'),
        ):
            arguments = [*command.split(' '), '']
            self.assertEqual(name, agent_use._find_program(arguments))

    def test_title_of_a_process(self) -> None:
        title = 'neutron-ovn-metadata-agent (/usr/bin/python /x.ini)'
        self.assertEqual(
            'neutron-ovn-metadata-agent', agent_use._find_program([title, ''])
        )

    def test_host_that_is_off(self) -> None:
        self.assertEqual(0.0, agent_use.measure_memory_mib('hv-host99'))
