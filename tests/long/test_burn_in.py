# SPDX-License-Identifier: Apache-2.0
"""A burn-in names a host with less CPU time, and a disk that is slow.

Caps of the host and throttles of the disk are those of the machine's
cgroups: the guests see slow hardware. Direct I/O alone can be throttled.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import testtools

from hvstack.lab.hosts import cgroups
from tests.long.biglab import BigLabTest

SLOW_CPU, SLOW_DISK = 'hv-host3', 'hv-host4'
#: Bytes per second of the slow disk, a fraction of what any machine has.
DISK_RATE = 8 * 1024 * 1024
CPU, WRITE, READ = 'cpu', 'disk write', 'disk read'


class BurnInTest(BigLabTest):
    NAME = 'hv-test-burn-in'
    HOSTS = 4
    MEMORY_MIB = 3584
    #: All hosts measure at once, and each has its whole cap.
    CPU_CAP = 0.5
    REPLICATION = 2

    def setUp(self) -> None:
        super().setUp()
        self.cluster = self.create('i2')
        servers = [
            self.conn.compute.get_server(worker['server_id'])
            for worker in self.outputs['workers']
        ]
        self.nodes = {
            host: {
                server.name
                for server in servers
                if server.hypervisor_hostname == host
            }
            for host in (SLOW_CPU, SLOW_DISK)
        }

    def find_outliers(self) -> dict[str, set[str]]:
        """Measure, and return the nodes that are slower by measure."""
        result = self.hvstack(
            'burn-in',
            *('--size', '64MB', '--rounds', '5', '--threshold', '25'),
            *('--only', CPU, '--only', WRITE, '--only', READ),
        )
        rows = json.loads(result.stdout)
        self.addDetail(
            'burn-in',
            testtools.content.text_content(f'{result.stdout}{result.stderr}'),
        )
        measured = [row for row in rows if row['Value'] is not None]
        self.assertEqual(len(rows), len(measured))
        slower = [row for row in rows if row['Verdict'].startswith('outlier')]
        self.assertEqual(int(bool(slower)), result.returncode)
        nodes: dict[str, set[str]] = {CPU: set(), WRITE: set(), READ: set()}
        for row in slower:
            nodes[row['Measure']].add(row['Node'])
        return nodes

    @contextlib.contextmanager
    def less_cpu(self, host: str) -> Iterator[None]:
        """Leave a host half of its CPU time."""
        quota = round(self.CPU_CAP * cgroups.PERIOD)
        if cgroups.version() == 2:
            path = cgroups.directories(host)[0] / 'cpu.max'
            text = f'{{}} {cgroups.PERIOD}'
        else:
            path = cgroups.ROOT / 'cpu' / host / 'cpu.cfs_quota_us'
            text = '{}'
        path.write_text(text.format(quota // 2), encoding='utf-8')
        try:
            yield
        finally:
            path.write_text(text.format(quota), encoding='utf-8')

    @contextlib.contextmanager
    def slow_disk(self, host: str) -> Iterator[None]:
        """Throttle all that the guests of a host read and write directly."""
        devices = {
            worker.run("stat -c '%Hd:%Ld' /srv").stdout.strip()
            for worker in self.cluster.workers
            if worker.name in self.nodes[host]
        }
        throttles: list[tuple[Path, str, str]] = []
        for device in devices:
            if cgroups.version() == 2:
                # The group of the host contains those of its guests.
                throttles.append(
                    (
                        cgroups.directories(host)[0] / 'io.max',
                        f'{device} rbps={DISK_RATE} wbps={DISK_RATE}',
                        f'{device} rbps=max wbps=max',
                    )
                )
                continue
            # Version 1 throttles each group by itself.
            throttles += [
                (
                    Path(path) / f'blkio.throttle.{name}_bps_device',
                    f'{device} {DISK_RATE}',
                    f'{device} 0',
                )
                for path, _, _ in os.walk(cgroups.ROOT / 'blkio' / host)
                for name in ('read', 'write')
            ]
        for path, slow, _ in throttles:
            path.write_text(slow, encoding='utf-8')
        try:
            yield
        finally:
            for path, _, fast in throttles:
                path.write_text(fast, encoding='utf-8')

    def test_slow_host_and_slow_disk(self) -> None:
        none: set[str] = set()
        self.assertEqual(
            {CPU: none, WRITE: none, READ: none}, self.find_outliers()
        )
        with self.less_cpu(SLOW_CPU):
            self.assertEqual(self.nodes[SLOW_CPU], self.find_outliers()[CPU])
        with self.slow_disk(SLOW_DISK):
            outliers = self.find_outliers()
        for measure in (WRITE, READ):
            self.assertEqual(self.nodes[SLOW_DISK], outliers[measure])
        self.assertEqual(none, outliers[CPU])
