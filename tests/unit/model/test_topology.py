# SPDX-License-Identifier: Apache-2.0
"""Test the network topology and its file."""

from collections import Counter

import testtools
from hypothesis import given, settings
from hypothesis import strategies as st

from hvstack import errors
from hvstack.model.topology import (
    Mismatch,
    assign_racks,
    assign_virtual_racks,
    build_topology,
    derive_node_groups,
    find_mismatches,
    find_racks,
    parse_table,
)


class Racks(testtools.TestCase):
    """Virtual racks as vsphere6 had them."""

    def test_vsphere6_has_16_racks_of_two(self) -> None:
        workers = {f'g{n:02d}': 4 for n in range(30)}
        workers |= {'x-namenode': 3, 'y-resourcemanager': 3}
        racks = assign_virtual_racks(
            workers, {'x-namenode', 'y-resourcemanager'}
        )
        self.assertEqual({2: 16}, Counter(Counter(racks.values()).values()))
        self.assertEqual(racks['x-namenode'], racks['y-resourcemanager'])

    def test_an_odd_one_makes_a_rack_of_three(self) -> None:
        racks = assign_virtual_racks({f'g{n}': 2 for n in range(7)})
        self.assertEqual([2, 2, 3], sorted(Counter(racks.values()).values()))

    def test_different_counts_do_not_share_a_rack(self) -> None:
        racks = assign_virtual_racks({'a': 2, 'b': 3, 'c': 2, 'd': 3})
        self.assertEqual(racks['a'], racks['c'])
        self.assertEqual(racks['b'], racks['d'])
        self.assertNotEqual(racks['a'], racks['b'])

    def test_a_lone_controller_joins_a_pair(self) -> None:
        workers = {f'g{n}': 4 for n in range(6)} | {'master': 3}
        racks = assign_virtual_racks(workers, {'master'})
        self.assertEqual([2, 2, 3], sorted(Counter(racks.values()).values()))

    def test_odd_ones_stay_with_their_like(self) -> None:
        racks = assign_virtual_racks(
            {'a': 2, 'b': 2, 'c': 2, 'd': 3, 'e': 3, 'f': 3}
        )
        self.assertEqual(1, len({racks[group] for group in 'abc'}))
        self.assertEqual(1, len({racks[group] for group in 'def'}))
        self.assertNotEqual(racks['a'], racks['d'])

    def test_two_odd_ones_share_a_rack(self) -> None:
        racks = assign_virtual_racks({'a': 2, 'b': 3})
        self.assertEqual(racks['a'], racks['b'])

    def test_known_groups_stay_in_their_racks(self) -> None:
        """A few new workers moved nodes that had not moved themselves."""
        before = assign_virtual_racks(dict.fromkeys('abcd', 2))
        after = assign_virtual_racks(
            {'a': 3, 'b': 2, 'c': 2, 'd': 2, 'e': 2, 'f': 2, 'ctl': 0},
            {'ctl'},
            before | {'gone': 'rack9'},
        )
        self.assertEqual(before, {group: after[group] for group in 'abcd'})
        # New groups join the racks with the fewest.
        self.assertEqual(
            {'e': 'rack1', 'f': 'rack2', 'ctl': 'rack1'},
            {group: after[group] for group in ('e', 'f', 'ctl')},
        )
        # No rack of a group that remains is known.
        self.assertEqual(
            before,
            assign_virtual_racks(
                dict.fromkeys('abcd', 2), (), {'gone': 'rack9'}
            ),
        )

    def test_one_worker_a_host_stays_flat(self) -> None:
        racks = assign_virtual_racks(
            {'a': 1, 'b': 1, 'c': 1, 'ctl': 0}, {'ctl'}
        )
        self.assertEqual({'rack1'}, set(racks.values()))

    def test_a_host_without_workers_makes_no_rack(self) -> None:
        racks = assign_virtual_racks({'ctl': 0, 'a': 2, 'b': 2}, {'ctl'})
        self.assertEqual({'rack1'}, set(racks.values()))

    @settings(max_examples=100)
    @given(
        st.dictionaries(
            st.text('abcdef', min_size=1), st.integers(0, 5), min_size=2
        )
    )
    def test_every_group_has_a_rack_and_no_rack_is_alone(
        self, workers: dict[str, int]
    ) -> None:
        racks = assign_virtual_racks(workers)
        self.assertEqual(set(workers), set(racks))
        storing = [group for group, count in workers.items() if count]
        sizes = Counter(racks[group] for group in storing).values()
        if len(storing) > 1:
            self.assertTrue(min(sizes) >= 2)


class Groups(testtools.TestCase):
    """Node groups from what a tenant can see."""

    def test_same_host_same_group(self) -> None:
        groups = derive_node_groups({'w1': 'aa', 'w2': 'bb', 'w3': 'aa'})
        self.assertEqual({'w1': 'ng-aa', 'w2': 'ng-bb', 'w3': 'ng-aa'}, groups)

    def test_a_server_without_host(self) -> None:
        exc = self.assertRaises(
            errors.InputError, derive_node_groups, {'w1': ''}
        )
        self.assertIn('w1', str(exc))

    def test_table_has_addresses_and_names(self) -> None:
        topology = build_topology(
            {'w2': '10.0.0.2', 'w1': '10.0.0.1'},
            {'w1': 'ng-a', 'w2': 'ng-a'},
            {'ng-a': 'rack1'},
        )
        self.assertEqual(
            '10.0.0.1 /rack1/ng-a\nw1 /rack1/ng-a\n'
            '10.0.0.2 /rack1/ng-a\nw2 /rack1/ng-a\n',
            topology.format_table(),
        )
        self.assertEqual({'/rack1/ng-a': ['w1', 'w2']}, topology.groups)


class Sources(testtools.TestCase):
    """What racks are taken from."""

    GROUPS = {'c': 'ng-c', 'w1': 'ng-a', 'w2': 'ng-b', 'w3': 'ng-b'}
    WORKERS = ('w1', 'w2', 'w3')

    def test_zones(self) -> None:
        zones = {'c': 'nova', 'w1': 'r 1', 'w2': 'r2', 'w3': 'r2'}
        self.assertEqual(
            {'ng-c': 'nova', 'ng-a': 'r-1', 'ng-b': 'r2'},
            assign_racks(self.GROUPS, self.WORKERS, zones),
        )

    def test_one_zone_for_all_workers_says_nothing(self) -> None:
        zones = {'c': 'other'} | dict.fromkeys(self.WORKERS, 'nova')
        self.assertEqual(
            {'rack1'},
            set(assign_racks(self.GROUPS, self.WORKERS, zones).values()),
        )

    def test_given_ones_win(self) -> None:
        zones = {'c': 'z', 'w1': 'z1', 'w2': 'z2', 'w3': 'z2'}
        requested_racks = {'c': 'a', 'w1': 'a', 'w2': 'b', 'w3': 'b'}
        racks = assign_racks(self.GROUPS, self.WORKERS, zones, requested_racks)
        self.assertEqual({'ng-c': 'a', 'ng-a': 'a', 'ng-b': 'b'}, racks)

    def test_refused(self) -> None:
        for names, word in (
            ({'c': 'a', 'w1': 'a', 'w2': 'b', 'w3': 'c'}, 'w3'),
            ({'c': 'a', 'w1': 'a', 'w2': 'b'}, 'w3'),
        ):
            failure = self.assertRaises(
                errors.InputError,
                assign_racks,
                self.GROUPS,
                self.WORKERS,
                {},
                names,
            )
            self.assertIn(word, str(failure))


class Tables(testtools.TestCase):
    """The table in force against what it should be."""

    topology = build_topology(
        {'w1': '10.0.0.1', 'w2': '10.0.0.2'},
        {'w1': 'ng-a', 'w2': 'ng-b'},
        {'ng-a': 'r1', 'ng-b': 'r2'},
    )

    def test_what_is_written_is_read(self) -> None:
        for groups in (True, False):
            lines = self.topology.map_paths(node_groups=groups)
            text = self.topology.format_table(node_groups=groups)
            self.assertEqual(lines, parse_table(text))
            self.assertEqual([], find_mismatches('table', lines, lines))
        self.assertEqual('/r1', lines['w1'])

    def test_racks_of_groups(self) -> None:
        for has_groups in (True, False):
            table = self.topology.map_paths(node_groups=has_groups)
            self.assertEqual(
                {'ng-a': 'r1', 'ng-b': 'r2'},
                find_racks(table, {'10.0.0.1': 'ng-a', '10.0.0.2': 'ng-b'}),
            )
        # Most lines of a group count; this rack says that there is none.
        table = dict(zip('abc', ('/r1/g', '/r2/g', '/r2/g'), strict=True))
        table['10.0.0.1'] = '/default-rack'
        self.assertEqual({'g': 'r2'}, find_racks(table, {'10.0.0.1': 'ng-a'}))

    def test_wrong_and_missing_lines_are_named(self) -> None:
        table = parse_table('10.0.0.1 /r1/ng-a\nw1 /r2/ng-a\nw2\n')
        self.assertEqual(
            [
                Mismatch('table', 'w1', '/r2/ng-a', '/r1/ng-a'),
                Mismatch('table', '10.0.0.2', 'none', '/r2/ng-b'),
                Mismatch('table', 'w2', 'none', '/r2/ng-b'),
            ],
            find_mismatches('table', table, self.topology.map_paths()),
        )
