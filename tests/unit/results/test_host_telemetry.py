# SPDX-License-Identifier: Apache-2.0
"""Sums of the samples of compute hosts, and their place in a record."""

import json
from collections.abc import Sequence
from dataclasses import replace

import testtools

from hvstack.results import host_telemetry, observations, record_data
from hvstack.results.compute_hosts import (
    PROC,
    ComputeHosts,
    HostUse,
    sum_uses,
)
from hvstack.results.host_telemetry import HostSeries, HostsTelemetry
from hvstack.results.observations import JobStatistics, Phase
from hvstack.results.telemetry import Values
from hvstack.results.typed_json import read
from tests.unit.results import factory

#: Phases of 20 s, between samples every 10 s.
PHASES = (Phase('HSGen', 20.0, 1005.0), Phase('HSSort', 20.0, 1025.0))


def make_series(**rates: Values) -> HostSeries:
    """Return a host with samples every 10 s from 1000 to 1050 s."""
    return HostSeries(
        name='h1',
        role='compute host',
        host='h1',
        times=[1000.0 + 10 * index for index in range(6)],
        rates={
            'busy': [4.0, 4.0, 8.0, 8.0, 8.0],
            'guests': [3.0, 3.0, 6.0, 6.0, 6.0],
            'guest_time': [2.0, 2.0, 5.0, 5.0, 5.0],
            'agents': [0.5] * 5,
            'steal': [0.0, 0.1, 0.0, 0.0, 0.0],
            'rx': [100.0] * 5,
            **rates,
        },
        disks={
            name: {'read': [1.0] * 5, 'write': [2.0] * 5, 'busy': [0.5] * 5}
            for name in ('sda', 'sdb')
        },
        cpus=64,
        nics={'eth0': {'rx': [100.0] * 5, 'rx_dropped': [0.1] * 5}},
    )


def summarize(
    *hosts: HostSeries, phases: Sequence[Phase] = PHASES
) -> ComputeHosts:
    """Return the compute hosts as a reader of the record gets them."""
    telemetry = HostsTelemetry(PROC, 10, list(hosts), ['h9 is off.'])
    text = json.dumps(host_telemetry.summarize(telemetry, phases))
    return read(ComputeHosts, json.loads(text))


class SummarizeTest(testtools.TestCase):
    def test_phases(self) -> None:
        hosts = summarize(make_series())
        self.assertEqual(
            (PROC, 10, ('h9 is off.',)),
            (hosts.method, hosts.interval, hosts.reasons),
        )
        host = hosts.hosts['h1']
        self.assertEqual(64, host.cpus)
        # 5 s with 4 cores, 10 s with 4, 5 s with 8.
        self.assertEqual(
            HostUse(
                seconds=20,
                busy=100,
                guests=75,
                guest_time=55,
                agents=10,
                other=15,
                steal=1.0,
                read=40,
                write=80,
                disk_busy=20,
                rx=2000,
            ),
            host.phases['HSGen'],
        )
        self.assertEqual(160, host.phases['HSSort'].busy)

    def test_whole_run(self) -> None:
        host = summarize(make_series()).hosts['h1']
        self.assertEqual((40, 260), (host.run.seconds, host.run.busy))
        self.assertEqual(
            {'read': 40, 'write': 80, 'busy': 20}, host.disks['sda']
        )
        self.assertEqual({'rx': 4000, 'rx_dropped': 4}, host.nics['eth0'])

    def test_processes_are_read_later_than_the_host(self) -> None:
        guests: Values = [4.9] * 5
        host = summarize(make_series(guests=guests)).hosts['h1']
        self.assertEqual(0, host.phases['HSGen'].other)

    def test_samples_that_end_before_a_phase(self) -> None:
        """Neither the phase nor the run gets a sum of a part of its time."""
        series = make_series()
        del series.times[4:]
        host = summarize(series).hosts['h1']
        self.assertEqual(100, host.phases['HSGen'].busy)
        self.assertEqual(HostUse(20), host.phases['HSSort'])
        self.assertEqual(HostUse(40), host.run)
        self.assertEqual(({}, {}), (host.disks, host.nics))

    def test_counters_that_are_unknown(self) -> None:
        host = summarize(make_series(guest_time=[None] * 5)).hosts['h1']
        self.assertIsNone(host.run.guest_time)
        self.assertEqual(260, host.run.busy)

    def test_lab_host(self) -> None:
        series = make_series()
        series.disks.clear()
        series.nics.clear()
        for name in ('steal', 'rx'):
            del series.rates[name]
        run = summarize(series).hosts['h1'].run
        self.assertEqual(
            (None, None, None), (run.steal, run.rx, run.disk_busy)
        )
        self.assertEqual(195, run.guests)

    def test_clock_of_a_job(self) -> None:
        """Its parts do not determine when the run began and ended."""
        job = JobStatistics(started_at=10.0, map_shuffle_seconds=5.0)
        phases = [PHASES[0], replace(PHASES[1], job=job)]
        host = summarize(make_series(), phases=phases).hosts['h1']
        self.assertEqual(260, host.run.busy)
        self.assertEqual(5, host.phases['map-shuffle'].seconds)

    def test_phases_without_times(self) -> None:
        hosts = summarize(make_series(), phases=[Phase('HSGen', 20.0)])
        self.assertEqual(HostUse(), hosts.hosts['h1'].run)
        self.assertIn('no phase of the run has a start', hosts.reasons[1])


class SumTest(testtools.TestCase):
    def test_two_hosts(self) -> None:
        both = sum_uses(
            [HostUse(20, busy=5, steal=1), HostUse(20, busy=7, guests=3)]
        )
        self.assertEqual(HostUse(20, busy=12), both)

    def test_no_host(self) -> None:
        self.assertEqual(HostUse(), sum_uses([]))


class RecordTest(testtools.TestCase):
    def test_record_with_and_without(self) -> None:
        record = factory.run('i1', 0, 125.0)
        self.assertIsNone(record.observations.compute_hosts)
        telemetry = HostsTelemetry(PROC, 10, [make_series()])
        stored = factory.tell(
            record,
            compute_hosts=host_telemetry.summarize(telemetry, PHASES),
        )
        reread = record_data.from_document(
            json.loads(json.dumps(stored.document)), 'r'
        )
        hosts = reread.observations.compute_hosts
        assert hosts
        self.assertEqual(260, hosts.hosts['h1'].run.busy)
        self.assertEqual(record_data.SCHEMA, stored.document['schema'])

    def test_wrong_type(self) -> None:
        self.assertRaises(
            ValueError,
            read,
            observations.Observations,
            {'compute_hosts': {'hosts': {'h1': {'run': {'busy': 'much'}}}}},
        )
