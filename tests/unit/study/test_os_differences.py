# SPDX-License-Identifier: Apache-2.0
"""A verdict about settings needs settings that were in force."""

from typing import Any

import testtools

from hvstack import conf
from hvstack.results.record_data import RunRecord
from hvstack.study import (
    claim_results,
    definition,
    os_differences,
    study_run,
)
from hvstack.study.study_rows import VariantRow
from tests.unit.results import factory

THP = "thp.enabled=never: the kernel is the host's"
ROOT_DISK = 'the node has one root disk'


def build_run(profile: str, *not_set: str) -> RunRecord:
    """Return a run with an OS profile, and settings that were not set."""
    return factory.run(
        *('i1', 0, 100.0),
        observations={'os_not_set': list(not_set)},
        os_profile=profile,
    )


class DifferencesTest(testtools.TestCase):
    def test_a_setting_that_was_not_in_force(self) -> None:
        """The profiles differ in huge pages alone."""
        runs = build_run('amd-2.4.1'), build_run('amd-3.3.1', THP)
        reason = os_differences.explain_equal(*runs)
        self.assertEqual(
            "the OS profiles 'amd-2.4.1' and 'amd-3.3.1' differ only in "
            f'settings that were not in force: {THP}',
            reason,
        )
        self.assertEqual(
            '',
            os_differences.explain_equal(
                build_run('amd-2.4.1'), build_run('amd-3.3.1')
            ),
        )

    def test_one_of_several_settings_was_in_force(self) -> None:
        scheduler = 'scheduler=cfq: Linux has no CFQ since 5.0'
        first = build_run('amd-3.3.1', THP)
        lines = [f'mkfs.ext4=: {ROOT_DISK}', f'mount=noatime: {ROOT_DISK}']
        reason = os_differences.explain_equal(
            first, build_run('amd', THP, *lines, scheduler)
        )
        self.assertIn(lines[1], reason)
        # Both have the other setting, and no profile applies the scheduler.
        self.assertNotIn('thp', reason)
        self.assertNotIn('cfq', reason)
        self.assertEqual(
            '', os_differences.explain_equal(first, build_run('amd', THP))
        )
        self.assertEqual(
            [THP, *lines],
            os_differences.list_not_set(
                build_run('amd', THP, *lines, scheduler)
            ),
        )

    def test_unknown_profiles(self) -> None:
        for names in (('amd', 'amd'), ('amd', 'none'), ('amd and x', 'amd')):
            runs = [build_run(name, THP) for name in names]
            self.assertEqual('', os_differences.explain_equal(*runs))

    def test_a_claim(self) -> None:
        study = definition.load('amd-os')
        rows = [
            VariantRow(variant, 10**9, (run,))
            for variant, run in zip(
                study.variants[:2],
                (build_run('amd-2.4.1'), build_run('amd-3.3.1', THP)),
                strict=True,
            )
        ]
        self.assertIn('not in force', claim_results.find_obstacle(*rows))


class BackendTest(testtools.TestCase):
    def explain(self, name: str, backend: str) -> dict[str, str]:
        return study_run.find_impossible(
            *(None, definition.load(name), 'vsphere6', backend, conf.load())
        )

    def test_containers(self) -> None:
        """They have limits and network settings of their own."""
        reasons: Any = self.explain('amd-os', 'lxc')
        self.assertEqual(3, len(reasons))
        self.assertIn('kernel and the disk', reasons['huge pages off (3.3.1)'])
        for name, backend in (
            ('amd-os', 'kvm'),
            ('vsphere6-os', 'lxc'),
            ('amd-tuning-steps', 'lxc'),
        ):
            self.assertEqual({}, self.explain(name, backend))
