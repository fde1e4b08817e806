# SPDX-License-Identifier: Apache-2.0
"""Undoing on a real cloud deletes what hvstack created, by its identity."""

from pathlib import Path

import fixtures

from hvstack.cloud import (
    connection,
    journal,
    keypairs,
    stack_undo,
    stacks,
    undo,
)
from tests.functional.test_hosts import HostsTest

_TEMPLATE = """
heat_template_version: 2021-04-16
resources:
  word:
    type: OS::Heat::RandomString
"""


class UndoTest(HostsTest):
    def setUp(self) -> None:
        super().setUp()
        # Another key pair has the name of the test.
        self.name += '-undo'
        top = Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('cloud.journal', 'cloud.keypairs'):
            self.useFixture(
                fixtures.MonkeyPatch(f'hvstack.{name}.DIRECTORY', top / name)
            )
        self.template = top / 'template.yaml'
        self.template.write_text(_TEMPLATE)
        self.scope = connection.scope(self.cloud)

    def create(self) -> str:
        """Create a stack, which this process' journal has."""
        stack_id = stacks.create(
            self.cloud, self.name, self.template, {}, timeout=60
        )
        stacks.wait(self.cloud, stack_id, timeout=60)
        return stack_id

    def stacks(self) -> list[str]:
        return [
            str(stack.id)
            for stack in self.cloud.orchestration.stacks(name=self.name)
        ]

    def test_stack(self) -> None:
        first = self.create()
        (entry,) = journal.own()
        undo.undo_own([self.cloud])
        self.assertEqual([], self.stacks())

        second = self.create()
        # The ID of the first stack is not that of the second one.
        self.assertNotEqual(first, second)
        data = dict(entry.data)
        stack_undo.undo(self.cloud, data)
        # Nor is its tag, where the answer with the ID was lost.
        del data['id']
        # The request was long ago: Heat cannot list the stack any more.
        data['requested'] = 1.0
        stack_undo.undo(self.cloud, data)
        self.assertEqual([second], self.stacks())

        (entry,) = journal.own()
        data = dict(entry.data)
        del data['id']
        stack_undo.undo(self.cloud, data)
        self.assertEqual([], self.stacks())

    def test_key_pair(self) -> None:
        keypairs.create(self.cloud, self.name)
        (entry,) = journal.own()
        data = entry.data
        other = {**data, 'public_key': 'ssh-ed25519 AAAAother'}
        keypairs.undo(self.cloud, other)
        pair = self.cloud.compute.find_keypair(self.name)
        self.assertIsNotNone(pair)
        undo.undo_own([self.cloud])
        pair = self.cloud.compute.find_keypair(self.name)
        self.assertIsNone(pair)
        self.assertEqual([], list(keypairs.DIRECTORY.iterdir()))
