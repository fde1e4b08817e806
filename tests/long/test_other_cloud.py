# SPDX-License-Identifier: Apache-2.0
"""A user with the wheel, without root, on a cloud unlike the lab.

The lab is up with three lxc hosts. Its services are behind TLS of a private
CA, in another region, and the project has the quotas that the services ship.
With ``HVSTACK_OTHER_CLOUD_KEEP=1`` the cloud stays, and the next run continues
with the stage that failed; ``python -m tests.long.other_cloud down`` removes
it.
"""

import os

import testtools
from testtools.content import text_content

from tests.long.other_cloud.cloud import OtherCloud
from tests.long.other_cloud.order import STAGES, run_stage
from tests.long.other_cloud.state import say


class OtherCloudTest(testtools.TestCase):
    """The quick start on a cloud of one's own, as the page describes it."""

    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs a lab that is up (make test-long)')
        if os.geteuid():
            self.skipTest('needs root, to change to another user')

    def open_cloud(self) -> OtherCloud:
        """Return a new cloud, or that of an earlier run if it is to stay."""
        if OtherCloud.exists() and OtherCloud.is_permanent():
            return OtherCloud.load()
        if OtherCloud.exists():
            # A run that was killed did not remove it.
            OtherCloud.load().remove()
        return OtherCloud.create()

    def show_table(self, cloud: OtherCloud) -> None:
        """Print the seconds of each command."""
        table = cloud.format_table()
        self.addDetail('seconds', text_content(table))
        say(table)

    def test_quick_start(self) -> None:
        cloud = self.open_cloud()
        if not OtherCloud.is_permanent():
            self.addCleanup(cloud.remove)
        self.addCleanup(self.show_table, cloud)
        done = cloud.state.get('done', [])
        for name in STAGES:
            if name not in done:
                run_stage(cloud, name)
        self.assertEqual([], cloud.state.list_failures())
