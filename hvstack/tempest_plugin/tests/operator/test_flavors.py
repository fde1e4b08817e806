# SPDX-License-Identifier: Apache-2.0
"""Published flavors are what the catalogues say, and nothing else is."""

from tempest import config
from tempest.lib import decorators

from hvstack.accept import flavor_checks
from hvstack.tempest_plugin.operator_base import OperatorTest

CONF = config.CONF


class FlavorsTest(OperatorTest):
    """Catalogues against Nova."""

    @decorators.idempotent_id('5b3a3c53-6cf1-4c10-8d8b-0c2f5f2c8a11')
    @decorators.attr(type='smoke')
    def test_promised_flavors(self) -> None:
        """All are there, with exact specs, access and evidence."""
        if not self.expected_flavors():
            self.skip_unchecked(
                'no flavor of the catalogues is approved: approve one, or '
                'set [hvstack] include_candidates'
            )
        self.assert_results(
            flavor_checks.check_flavors(
                [catalogue for catalogue, _ in self.catalogues()],
                self.flavors(),
                candidates=CONF.hvstack.include_candidates,
                public=CONF.hvstack.public,
            )
        )

    @decorators.idempotent_id('7f6f2b1e-3d0a-4c6b-9a43-62a1d0fd5f0d')
    @decorators.attr(type='smoke')
    def test_no_others(self) -> None:
        """Nothing else claims the catalogues' name space."""
        self.assert_results(
            flavor_checks.check_unmanaged_flavors(
                [catalogue for catalogue, _ in self.catalogues()],
                self.flavors(),
            )
        )
