# SPDX-License-Identifier: Apache-2.0
"""Losses of hosts, against a NameNode that forgets lost DataNodes."""

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import fixtures
import testtools

from hvstack import errors, processutils
from hvstack.cluster.base import ClusterNodes, Node
from hvstack.results import observations, typed_json
from hvstack.results.later_changes import HostLoss
from hvstack.tpcxhs import host_losses
from hvstack.tpcxhs.host_losses import HostLossSpec

HOSTS = ('h1', 'h2', 'h3', 'h4')
SPREAD = [frozenset({'h1', 'h2', 'h3'}), frozenset({'h2', 'h3', 'h4'})]


@dataclass
class Worker:
    """A worker, on which nothing runs in these tests."""

    name: str
    address: str
    host: str
    role: str = 'worker'

    def run(self, command: str, **_options: Any) -> processutils.Result:
        raise NotImplementedError

    def put(self, text: str, path: str, mode: int = 0o644) -> None:
        raise NotImplementedError


@dataclass
class NameNode(Worker):
    """A controller whose fsck lists the replicas on live hosts.

    :param placements: addresses of the replicas of each block.
    :param late: number of answers in which a lost host still counts.
    :param differs: whether a restored file differs.
    :param has_files: whether the files of a loss exist.
    """

    placements: list[tuple[str, ...]] = field(default_factory=list)
    workers: list[Node] = field(default_factory=list)
    lost_hosts: set[str] = field(default_factory=set)
    late: int = 0
    differs: bool = False
    has_files: bool = False
    commands: list[str] = field(default_factory=list)

    def run(self, command: str, **_options: Any) -> processutils.Result:
        self.commands.append(command)
        if '-put' in command:
            if self.has_files:
                raise errors.CommandError(['put'], 1, 'File exists')
            self.has_files = True
        elif 'dfs -rm' in command and host_losses._DIRECTORY in command:
            self.has_files = False
        if 'dfs -cat' in command and self.differs:
            return processutils.Result(0, 'digest of other data  -\n', '')
        return processutils.Result(0, self.answer(command), '')

    def answer(self, command: str) -> str:
        if 'sha256sum' in command:
            return 'digest  -\n'
        if '-locations' in command:
            self.late = max(0, self.late - 1)
            return ''.join(self.list_files()) + 'Status: HEALTHY\n'
        if 'fsck' in command:
            return ' Mis-replicated blocks:\t\t3 (10.0 %)\n'
        if 'jmx' in command:
            bean = {
                'NumLiveDataNodes': sum(
                    worker.host not in self.missed for worker in self.workers
                ),
                'PendingDeletionBlocks': 0,
            }
            return json.dumps({'beans': [bean]})
        return '{}'

    @property
    def missed(self) -> set[str]:
        """Hosts that the NameNode has noticed as lost."""
        return set() if self.late else self.lost_hosts

    def list_files(self) -> Iterator[str]:
        hosts = {worker.address: worker.host for worker in self.workers}
        for number, addresses in enumerate(self.placements):
            live = [a for a in addresses if hosts[a] not in self.missed]
            replicas = ', '.join(
                f'DatanodeInfoWithStorage[{address}:9866,DS-1,DISK]'
                for address in live
            )
            state = f' Live_repl={len(live)}  [{replicas}]'
            yield (
                f'/f{number} 10 bytes, replicated: replication=3, '
                '1 block(s):  OK\n'
                f'0. BP-1:blk_{number}_1 len=10'
                f'{state if live else " MISSING!"}\n'
            )


def create_cluster(
    namenode: NameNode,
) -> ClusterNodes:
    """Return a controller on its own host, and two workers on each host."""
    workers: list[Node] = [
        Worker(f'w{host}{n}', f'10.0.{host}.{n}', f'h{host}')
        for host in range(1, 5)
        for n in (1, 2)
    ]
    namenode.workers = workers
    return ClusterNodes('c', namenode, workers, processors=1)


class ChooseTest(testtools.TestCase):
    def choose(
        self, blocks: Sequence[frozenset[str]], count: int = 2
    ) -> tuple[list[str], int]:
        return host_losses.choose_hosts(
            blocks, HOSTS, count, random.Random('1')
        )

    def test_pair_that_destroys_most(self) -> None:
        once, twice = frozenset({'h1', 'h2'}), frozenset({'h3', 'h4'})
        hosts, exposed = self.choose([*SPREAD, once, twice, twice])
        self.assertEqual((['h3', 'h4'], 2), (hosts, exposed))

    def test_single_hosts_count_for_a_pair(self) -> None:
        hosts, exposed = self.choose(
            [frozenset({'h4'}), frozenset({'h2', 'h4'}), *SPREAD]
        )
        self.assertEqual((['h2', 'h4'], 2), (hosts, exposed))

    def test_random_without_a_block_at_risk(self) -> None:
        pairs = {
            tuple(
                sorted(
                    host_losses.choose_hosts(
                        SPREAD, HOSTS, 2, random.Random(seed)
                    )[0]
                )
            )
            for seed in range(50)
        }
        self.assertEqual(6, len(pairs))
        self.assertEqual(self.choose(SPREAD), self.choose(SPREAD))
        self.assertEqual(0, self.choose(SPREAD)[1])

    def test_host_of_a_controller_stays(self) -> None:
        hosts, exposed = self.choose([frozenset({'h0', 'h1'})] * 3)
        self.assertNotIn('h0', hosts)
        self.assertEqual(0, exposed)


class ProvokeTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(
            fixtures.MonkeyPatch('time.sleep', lambda _seconds: None)
        )
        self.namenode = NameNode(
            *('c', '10.0.0.1', 'h0', 'controller'),
            placements=[
                ('10.0.1.1', '10.0.2.1', '10.0.2.2'),
                ('10.0.1.1', '10.0.2.1', '10.0.3.1'),
                ('10.0.2.2', '10.0.3.1', '10.0.4.1'),
            ],
        )

    @contextmanager
    def lose(self, hosts: Sequence[str]) -> Iterator[None]:
        self.namenode.lost_hosts = set(hosts)
        self.namenode.late = 2
        yield
        self.namenode.lost_hosts = set()

    def provoke(self, hosts: int = 2, rounds: int = 1) -> list[HostLoss]:
        observed = host_losses.provoke(
            create_cluster(self.namenode),
            HostLossSpec(hosts, rounds, self.lose, 'power'),
            3,
            '0',
        )
        read = typed_json.read(observations.Observations, observed)
        self.assertEqual('power', read.host_loss_method)
        return list(read.host_losses)

    def test_counts(self) -> None:
        for loss in self.provoke(rounds=2):
            self.assertEqual(
                HostLoss(
                    hosts=2,
                    blocks=3,
                    exposed=1,
                    missing=1,
                    under_replicated=2,
                    misplaced=3,
                    seconds=loss.seconds,
                ),
                loss,
            )
        self.assertEqual(set(), self.namenode.lost_hosts)

    def test_other_data_after_the_restoration(self) -> None:
        self.namenode.differs = True
        error = self.assertRaises(errors.RunFailedError, self.provoke)
        self.assertIn('differ', str(error))

    def test_run_after_a_loss_that_failed(self) -> None:
        """The files of that loss are still in HDFS."""
        self.namenode.differs = True
        self.assertRaises(errors.RunFailedError, self.provoke)
        self.namenode.differs = False
        self.assertEqual(1, len(self.provoke()))

    def test_too_few_hosts(self) -> None:
        error = self.assertRaises(errors.RunFailedError, self.provoke, 4)
        self.assertIn('lost_hosts', str(error))
        self.assertEqual([], self.namenode.commands)
