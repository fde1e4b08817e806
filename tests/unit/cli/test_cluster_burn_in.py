# SPDX-License-Identifier: Apache-2.0
"""``hvstack cluster burn-in`` of a stack whose nodes are a program."""

import json
from typing import Any

import fixtures

from hvstack.cloud import connection
from tests.unit.cli.test_cluster import ClusterTest
from tests.unit.cloud import fake

SSH = """#!/bin/sh
for last; do :; done
case "$*" in *"-O check"*) exit 255 ;; *" -M "*) exit 0 ;; esac
echo "$last" >>"$0.log"
case $last in
*nproc*) printf 'disk 9000000 /srv/data/0\\nprocessors 1\\nmissing fio\\n' ;;
*cluster/metrics*)
    echo "{\\"clusterMetrics\\": {\\"appsRunning\\": $(cat "$0.jobs"),
    \\"appsPending\\": 0}}" ;;
*sha256sum*)
    bytes=1000000000
    case "$*" in *root@10.0.0.2*) bytes=300000000 ;; esac
    printf '10.0 0.0\\nhashed %s\\n20.0 0.0\\n' $bytes
    printf '0m0.0s 0m0.0s\\n0m9.0s 0m0.5s\\n' ;;
esac
"""


class BurnInTest(ClusterTest):
    """A controller and four workers on hosts of their own."""

    def setUp(self) -> None:
        super().setUp()
        self.ssh = self.directory / 'ssh'
        self.ssh.write_text(SSH)
        self.ssh.chmod(0o755)
        self.set_jobs(0)
        self.useFixture(
            fixtures.EnvironmentVariable(
                'PATH', f'{self.directory}:/usr/bin:/bin'
            )
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.host_keys.DIRECTORY', self.directory / 'known'
            )
        )
        names = ('c', 'w0', 'w1', 'w2', 'w3')
        hosts = {name: f'host-{n}-' + 40 * 'x' for n, name in enumerate(names)}
        fake.serve_stack(self.cloud.http, hosts)

    def set_jobs(self, count: int) -> None:
        (self.directory / 'ssh.jobs').write_text(str(count))

    def call(self, *args: str) -> tuple[int, list[dict[str, Any]], str]:
        status, out, err = self.run_main(
            'burn-in', 'mine', '-f', 'json', *args
        )
        return status, json.loads(out) if out else [], err

    def test_a_slow_host(self) -> None:
        status, rows, err = self.call('--only', 'cpu')
        self.assertEqual(1, status, err)
        self.assertEqual(
            {
                'Host': 'host-1-xxxxx',
                'Node': 'w0',
                'Where': 'node',
                'Measure': 'cpu',
                'Value': 30.0,
                'Unit': 'MB/s',
                'Of the others (%)': 30.0,
                'Verdict': 'outlier (host)',
            },
            rows[1],
        )
        self.assertEqual(
            ['not compared (fewer than 3)', 'ok', 'ok', 'ok'],
            [row['Verdict'] for row in rows if row['Node'] != 'w0'],
        )
        self.assertIn('round 3 of 3: cpu (5 values)', err)
        self.assertIn(
            'hvstack: 1 outlier: cpu of host host-1-xxxxx (30 % of the '
            'others)\n',
            err,
        )

    def test_no_outlier(self) -> None:
        status, rows, err = self.call('--only', 'cpu', '--threshold', '80')
        self.assertEqual((0, 5), (status, len(rows)), err)
        self.assertIn('hvstack: No part is an outlier\n', err)

    def test_nothing_was_measured(self) -> None:
        status, rows, err = self.call('--only', 'disk write')
        self.assertEqual((1, 5), (status, len(rows)), err)
        self.assertEqual(
            {('not measured: fio is not installed', None)},
            {(row['Verdict'], row['Value']) for row in rows},
        )
        self.assertIn('5 were not measured', err)

    def test_dry_run(self) -> None:
        self.set_jobs(1)
        status, rows, err = self.call('--dry-run', '--pairs', '2')
        self.assertEqual((0, 25), (status, len(rows)), err)
        self.assertIn('a sample of 2 of the 10 pairs of hosts (seed 1)', err)
        verdicts = {row['Verdict'] for row in rows}
        self.assertIn('not measured: fio is not installed', verdicts)
        self.assertIn('sha256sum: a process per processor', verdicts)
        log = self.ssh.with_name('ssh.log').read_text()
        self.assertNotIn('sha256sum', log)

    def test_jobs(self) -> None:
        self.set_jobs(2)
        status, rows, err = self.call('--only', 'cpu')
        self.assertEqual((1, []), (status, rows), err)
        self.assertIn('2 applications run or wait', err)

    def test_refusals(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.connection.connect', None)
        )
        self.assertIsNone(connection.connect)
        for option, value in (
            *(('--rounds', '0'), ('--pairs', '0'), ('--threshold', '100')),
            ('--size', '3'),
        ):
            status, _, err = self.call(option, value)
            self.assertEqual(2, status, err)
            self.assertIn(f'{value}', err)
