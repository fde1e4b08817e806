# SPDX-License-Identifier: Apache-2.0
"""Test how the split of a run's tasks is judged."""

from typing import Any

import testtools

from hvstack.results import observations, task_splits
from hvstack.results.observations import HostTasks
from hvstack.results.task_splits import UnevenSplit

WORKERS = {'w0': 'h0', 'w1': 'h0', 'w2': 'h1', 'w3': 'h1'}


def phase(
    maps: dict[str, int], seconds: float = 40, workers: int = 4
) -> dict[str, Any]:
    """Return HSSort whose maps took as long on each worker.

    :param maps: number of map tasks by worker.
    """
    nodes = {
        name: {'maps': count, 'map_wall_seconds': seconds}
        for name, count in maps.items()
    }
    hosts = task_splits.count_by_host(
        nodes, dict(list(WORKERS.items())[:workers])
    )
    return {'name': 'HSSort', 'seconds': 99, 'nodes': nodes, 'hosts': hosts}


class TaskSplitsTest(testtools.TestCase):
    def find(self, maps: dict[str, int], **kwargs: Any) -> list[UnevenSplit]:
        phases = observations.read_phases([phase(maps, **kwargs)])
        return task_splits.list_uneven(phases)

    def test_split_by_host_counts_idle_workers(self) -> None:
        hosts = phase({'w0': 3, 'w2': 2})['hosts']
        self.assertEqual(
            {
                'h0': {'workers': 2, 'maps': 3, 'reduces': 0},
                'h1': {'workers': 2, 'maps': 2, 'reduces': 0},
            },
            hosts,
        )

    def test_whole_waves_are_even(self) -> None:
        self.assertEqual([], self.find(dict.fromkeys(WORKERS, 2)))
        # Seven tasks cannot be split evenly.
        self.assertEqual([], self.find({'w0': 2, 'w1': 2, 'w2': 2, 'w3': 1}))

    def test_a_host_with_more_tasks(self) -> None:
        (split,) = self.find({'w0': 2, 'w1': 2, 'w2': 1, 'w3': 1}, seconds=43)
        self.assertEqual(('h0', 4, 3), (split.name, split.tasks, split.share))
        # A quarter of the time of the host with four tasks.
        self.assertAlmostEqual(43 / 4, split.seconds or 0)
        self.assertIn('4 + 2 by host', str(split))
        self.assertIn('10.8 s', str(split))

    def test_a_worker_with_more_tasks(self) -> None:
        """Both hosts have as many, but a worker has none."""
        (split,) = self.find({'w0': 4, 'w2': 2, 'w3': 2})
        self.assertEqual(('w0', 4, 2), (split.name, split.tasks, split.share))
        self.assertIn('4 + 2 + 2 + 0 by worker', str(split))

    def test_a_host_and_its_worker_with_more_tasks(self) -> None:
        (split,) = self.find({'w0': 4, 'w1': 1, 'w2': 1, 'w3': 2})
        self.assertEqual(('h0', 5, 4), (split.name, split.tasks, split.share))

    def test_many_waves_differ_a_little(self) -> None:
        self.assertEqual(
            [], self.find({'w0': 105, 'w1': 100, 'w2': 97, 'w3': 98})
        )

    def test_many_workers_and_hosts_have_a_range(self) -> None:
        """The numbers of 640 workers would fill a page."""
        workers = {f'w{n}': f'h{n // 10}' for n in range(640)}
        maps = {name: {'maps': 175 + n % 3} for n, name in enumerate(workers)}
        maps['w7']['maps'] = 300
        del maps['w8']
        one_phase = {
            **{'name': 'HSSort', 'seconds': 99, 'nodes': maps},
            'hosts': task_splits.count_by_host(maps, workers),
        }
        phases = observations.read_phases([one_phase])
        (split,) = task_splits.list_uneven(phases)
        self.assertIn(
            'maps of HSSort: 0 to 300, median 176 of 640 by worker; w7 had',
            str(split),
        )
        self.assertEqual(
            '1706 to 1761, median 1760 of 64',
            task_splits.format_split(phases[0].job.hosts, 'maps'),
        )
        forty = {f'h{n}': HostTasks(maps=n) for n in range(40)}
        self.assertEqual(
            40, len(task_splits.format_split(forty, 'maps').split(' + '))
        )

    def test_older_records_have_no_hosts(self) -> None:
        old = phase({'w0': 4, 'w1': 1})
        del old['hosts']
        self.assertEqual(
            [], task_splits.list_uneven(observations.read_phases([old]))
        )
