# SPDX-License-Identifier: Apache-2.0
"""What Placement has of servers."""

import threading
from typing import Any

import testtools

from hvstack import errors
from hvstack.cloud import placement
from tests.unit.cloud import fake


class AllocationsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.threads: set[int] = set()

    def serve(self, server: str, *resources: dict[str, int]) -> None:
        """Have Placement answer with a server's allocations."""

        def answer(_request: object, _context: object) -> dict[str, Any]:
            self.threads.add(threading.get_ident())
            return {
                'allocations': {
                    f'p{index}': {'resources': amounts}
                    for index, amounts in enumerate(resources)
                }
            }

        self.cloud.http.get(
            f'{fake.PLACEMENT}/allocations/{server}', json=answer
        )

    def test_by_name(self) -> None:
        servers = {f'w{index}': f's{index}' for index in range(20)}
        for index in range(20):
            self.serve(f's{index}', {'VCPU': index, 'DISK_GB': 3})
        self.serve('s7', {'VCPU': 1, 'DISK_GB': 3}, {'VCPU': 2})
        allocations = placement.allocations(self.cloud.connect(), servers)
        self.assertEqual(sorted(servers), list(allocations))
        self.assertEqual({'VCPU': 12, 'DISK_GB': 3}, allocations['w12'])
        self.assertEqual({'VCPU': 3, 'DISK_GB': 3}, allocations['w7'])
        # One request after another would take a round trip for each server.
        self.assertNotIn(threading.get_ident(), self.threads)

    def test_no_server(self) -> None:
        self.assertEqual({}, placement.allocations(self.cloud.connect(), {}))

    def test_a_refusal(self) -> None:
        self.serve('s0', {'VCPU': 1})
        self.cloud.http.get(
            f'{fake.PLACEMENT}/allocations/s1', status_code=403
        )
        self.assertRaises(
            errors.CloudError,
            placement.allocations,
            self.cloud.connect(),
            {'w0': 's0', 'w1': 's1'},
        )
