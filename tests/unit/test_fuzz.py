# SPDX-License-Identifier: Apache-2.0
"""A short part of the fuzzer: mutated fields, read in this process.

``python -m tests.fuzz`` runs all of it, with whole commands.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors, host_profiles
from hvstack.cluster import baseline_hosts
from hvstack.sweep import search_space, sweep_store, trials
from tests.fuzz import corpus, mutations

_CASES = 25


class FuzzTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.top = Path(self.useFixture(fixtures.TempDir()).path)
        (self.top / 'key').write_text('key\n', 'utf-8')

    def fuzz(self, name: str, read: Callable[[Path], Any]) -> None:
        document_kind = next(
            document_kind
            for document_kind in corpus.ALL
            if document_kind.name == name
        )
        path = self.top / Path(document_kind.path).name
        rng = random.Random(name)
        data = document_kind.data
        if name == 'inventory':
            file = str(self.top / 'key')
            data = {**data, 'key': file, 'rootfs': file}
        path.write_bytes(mutations.render(data, document_kind.form))
        read(path)
        for _ in range(_CASES):
            mutation = mutations.mutate(rng, data, document_kind.rules)
            path.write_bytes(
                mutations.render(mutation.data, document_kind.form)
            )
            try:
                read(path)
            except errors.InputError as exc:
                self.assertIn(path.name, str(exc), mutation.label)
            else:
                self.assertFalse(mutation.invalid, mutation.label)

    def test_host_profiles(self) -> None:
        self.fuzz('host profile', host_profiles.read)

    def test_catalogues(self) -> None:
        self.fuzz('catalogue', host_profiles.read_catalogue)

    def test_search_spaces(self) -> None:
        self.fuzz('search space', search_space.load_space)

    def test_inventories(self) -> None:
        self.fuzz('inventory', baseline_hosts.read)

    def test_baseline_hosts(self) -> None:
        self.fuzz('baseline hosts', baseline_hosts.read)

    def test_sweep_markers(self) -> None:
        self.fuzz('sweep marker', sweep_store.load_sweep)

    def test_trials_markers(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.sweep.trials.TRIALS_DIR', self.top)
        )
        self.fuzz('trials marker', lambda path: trials.load_trials(path.stem))
