# SPDX-License-Identifier: Apache-2.0
"""Test the gate before a run."""

from collections.abc import Sequence
from typing import Any

import fixtures
import testtools

from hvstack.cluster import probe, probe_gate
from hvstack.cluster.base import read_cpu_caps
from hvstack.cluster.command_node import CommandNode
from hvstack.cluster.probe import BusyResult
from tests.unit.cluster.lab_tree import LabTree

CAPS = {
    'hv-host1': {'cpu': 0.5, 'memory_mib': 4096},
    'hv-host2': {'cpu': 0.65, 'memory_mib': 5376},
    'hv-host3': {'cpu': 0.65, 'memory_mib': 5376},
}
NODES = [
    CommandNode(f'g{n}', f'10.0.0.{n}', 'worker', f'id-{n}') for n in (1, 2)
]


def throttled(cap: float, seconds: float, shift: float = 0.0) -> Any:
    """Return samples of a host that uses its cap in bursts of each period."""
    samples = []
    moment = 0.0
    while moment < seconds:
        periods, rest = divmod(moment + shift, 0.1)
        used = periods * cap * 0.1 + min(rest * 2, cap * 0.1)
        samples.append((moment, used))
        moment += 0.05 + 0.0013
    return samples


class ProbeGateTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.set_cpus(2)

    def set_cpus(self, count: int) -> None:
        self.useFixture(fixtures.MonkeyPatch('os.cpu_count', lambda: count))

    def measure(
        self, *tries: Sequence[float], caps: Any = CAPS
    ) -> probe_gate.ProbeResult:
        """Measure with the cores of the hosts in each try."""
        self.calls = 0

        def busy(*_: object) -> dict[str, BusyResult]:
            self.calls += 1
            return {
                node.name: BusyResult(1.8, 3.0, 90_000_000) for node in NODES
            }

        def cores(_: object) -> dict[str, float]:
            return dict(zip(CAPS, tries[self.calls - 1], strict=True))

        for name, target in (
            ('probe.measure_busy', busy),
            ('probe_gate._GroupWatch.compute_cores', cores),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'hvstack.cluster.{name}', target)
            )
        return probe_gate.measure(NODES, 2, read_cpu_caps({'caps': caps}))

    def test_hosts_that_get_their_caps(self) -> None:
        self.useFixture(LabTree(1, *CAPS))
        result = self.measure((0.01, 0.64, 0.65))
        self.assertEqual({'g1': 0.6, 'g2': 0.6}, result.shares)
        self.assertEqual(
            {
                'tries': 1,
                'passed': True,
                # The controller's host has no worker.
                'hosts': {
                    'hv-host2': {'cap': 0.65, 'cores': 0.64},
                    'hv-host3': {'cap': 0.65, 'cores': 0.65},
                },
                'agents_cores': 0.09,
                'hashed_per_cpu_second': 50_000_000,
            },
            result.facts,
        )

    def test_one_slow_host_is_tried_again(self) -> None:
        self.useFixture(LabTree(1, *CAPS))
        slow, good = (0.0, 0.65, 0.63), (0.0, 0.65, 0.645)
        result = self.measure(slow, slow, good)
        self.assertEqual(
            (3, True), (result.facts['tries'], result.facts['passed'])
        )
        result = self.measure(slow, slow, slow)
        self.assertEqual(
            (3, False), (result.facts['tries'], result.facts['passed'])
        )
        self.assertEqual(3, self.calls)

    def test_other_clouds_have_no_gate(self) -> None:
        self.useFixture(LabTree(1, 'hv-host1'))
        for caps in (None, {}, CAPS, {'a': {'memory_mib': 1}}):
            result = self.measure((0.0, 0.0, 0.0), caps=caps)
            self.assertEqual(
                {'tries': 1, 'hashed_per_cpu_second': 50_000_000},
                result.facts,
            )

    def test_hosts_that_are_the_whole_machine_have_no_gate(self) -> None:
        """Each emulated host has all CPUs, which none gets alone."""
        self.useFixture(LabTree(1, *CAPS))
        used = (0.0, 0.9, 0.9)
        whole = {name: {'cpu': 2.0} for name in CAPS}
        for caps in (whole, {'hv-host1': {'cpu': 2.0}}):
            result = self.measure(used, used, used, caps=caps)
            self.assertEqual(
                {'tries': 1, 'hashed_per_cpu_second': 50_000_000},
                result.facts,
            )
        self.set_cpus(8)
        result = self.measure(used, used, used, caps=whole)
        self.assertEqual(False, result.facts['passed'])

    def test_cores_do_not_depend_on_the_scheduler_period(self) -> None:
        for shift in (0.0, 0.02, 0.05, 0.09):
            for cap in (0.5, 0.65):
                cores = probe_gate.compute_cores(throttled(cap, 3, shift))
                self.assertAlmostEqual(1, cores / cap, delta=0.008)

    def test_idle_time_around_the_probe_does_not_count(self) -> None:
        busy = [(moment + 2, used + 1) for moment, used in throttled(0.65, 3)]
        before = [(n / 10, 1.0) for n in range(20)]
        after = [(5 + n / 10, busy[-1][1]) for n in range(1, 20)]
        cores = probe_gate.compute_cores([*before, *busy, *after])
        self.assertAlmostEqual(0.65, cores, delta=0.005)
        for samples in ([], busy[:1], before):
            self.assertEqual(0, probe_gate.compute_cores(samples))

    def test_the_groups_are_sampled_while_nodes_are_busy(self) -> None:
        lab = self.useFixture(LabTree(2, 'hv-host2'))
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.probe_gate._SAMPLE_SECONDS', 0.001
            )
        )

        def busy(*_: object) -> dict[str, BusyResult]:
            for n in range(40):
                lab.set_usage('hv-host2', n * 0.01)
                probe_gate.time.sleep(0.003)
            return {'g1': BusyResult(1, 2)}

        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cluster.probe.measure_busy', busy)
        )
        facts = probe_gate.measure(NODES[:1], 2, {'hv-host2': 0.65}).facts
        self.assertGreater(facts['hosts']['hv-host2']['cores'], 0.05)
        # The kernel counted no bytes.
        self.assertNotIn('hashed_per_cpu_second', facts)

    def test_busy_node_prints_what_it_hashed(self) -> None:
        text = '10.00 1.00\nhashed 700\nhashed 300\n12.00 1.00\n'
        text += '0m0.00s 0m0.00s\n0m1.50s 0m0.50s\n'
        result = probe.parse_busy(text)
        self.assertEqual(BusyResult(2.0, 2.0, 1000), result)
        self.assertEqual(1.0, result.cores)
