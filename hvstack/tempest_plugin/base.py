# SPDX-License-Identifier: Apache-2.0
"""Base classes of the acceptance tests: catalogues, servers and checks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tempest import config, test
from tempest.common import credentials_factory
from tempest.lib.common import api_microversion_fixture, dynamic_creds
from tempest.lib.common.utils import data_utils
from testtools.content import Content
from testtools.content_type import UTF8_TEXT

from hvstack import host_profiles
from hvstack.accept import check_result
from hvstack.accept.check_result import CheckResult
from hvstack.accept.test_results import DETAIL
from hvstack.model.catalogue import Catalogue, CatalogueEntry
from hvstack.model.host import HostProfile
from hvstack.model.plain_data import Json
from hvstack.tempest_plugin import project_quotas

CONF = config.CONF

#: Validates extra specs, accepts a host, and returns a server's topology.
COMPUTE_API = '2.86'

#: Generations, and ``required`` traits in queries.
PLACEMENT_API = '1.36'

#: Maximum number of failed checks in a message; the report has all of them.
_SHOWN = 5


class BaseTest(test.BaseTestCase):
    """A test that compares expected and observed values and stores both."""

    credentials: list[Any] = ['primary']

    @classmethod
    def setup_credentials(cls) -> None:
        """Create no networks: guests use the configured network."""
        cls.set_network_resources()
        super().setup_credentials()

    @classmethod
    def _get_credentials_provider(cls) -> Any:
        """Set the prefix of projects and users, which the clean-up needs.

        Tempest ignores the option and uses the prefix ``tempest``.
        """
        provider = super()._get_credentials_provider()
        if isinstance(provider, dynamic_creds.DynamicCredentialProvider):
            provider.resource_prefix = CONF.resource_name_prefix
        return provider

    @classmethod
    def resource_setup(cls) -> None:
        """Lift the quotas of the projects that Tempest has created."""
        super().resource_setup()
        # Users of --accounts have the quotas that their administrator set.
        if not CONF.auth.use_dynamic_credentials:
            return
        admin = cls.get_client_manager(credential_type='admin')
        for name in cls.credentials:
            user = getattr(cls, f'os_{name}').credentials
            for restore in project_quotas.lift(admin, user.tenant_id):
                cls.addClassResourceCleanup(restore)

    @classmethod
    def skip_checks(cls) -> None:
        """Skip the tests if no catalogues are configured."""
        super().skip_checks()
        if not CONF.hvstack.catalogues:
            raise cls.skipException(
                'not checked: set [hvstack] catalogues to the files of the '
                'published flavors'
            )

    def setUp(self) -> None:
        """Attach the list of checks to the result."""
        super().setUp()
        self.check_results: list[CheckResult] = []
        self.addDetail(
            DETAIL,
            Content(
                UTF8_TEXT,
                lambda: [
                    check_result.dump_results(self.check_results).encode()
                ],
            ),
        )
        self.useFixture(
            api_microversion_fixture.APIMicroversionFixture(
                compute_microversion=COMPUTE_API,
                placement_microversion=PLACEMENT_API,
            )
        )

    def assert_results(self, check_results: Sequence[CheckResult]) -> None:
        """Store the results of checks, and fail if a check failed."""
        self.check_results += check_results
        bad = [check for check in check_results if not check.good]
        if bad:
            lines = [str(check) for check in bad[:_SHOWN]]
            if len(bad) > _SHOWN:
                lines.append(f'{len(bad) - _SHOWN} more')
            self.fail('; '.join(lines))

    def skip_unchecked(self, reason: str) -> NoReturn:
        """Skip a test that cannot check anything, so that it does not pass."""
        raise self.skipException(f'not checked: {reason}')

    def skip_if_unchecked(self, reason: str, names: Sequence[str]) -> None:
        """Skip a test that could not check everything.

        :param reason: why it could not check, as human-readable text.
        :param names: names of what it could not check.
        """
        if names:
            self.skip_unchecked(f'{reason}: {", ".join(sorted(set(names)))}')

    @staticmethod
    def has_no_room(server: Mapping[str, Json]) -> bool:
        """Return whether the scheduler rejected a server."""
        fault = str(server.get('fault') or '').lower()
        return server['status'] == 'ERROR' and 'no valid host' in fault

    @staticmethod
    def zone_fields(option: str = 'availability_zone') -> dict[str, str]:
        """Return the availability zone of a new server or volume.

        :param option: option with the zone; that of volumes is
            ``volume_zone``.
        """
        zone = getattr(CONF.hvstack, option)
        return {'availability_zone': zone} if zone else {}

    @staticmethod
    def catalogues() -> list[tuple[Catalogue, HostProfile]]:
        """Return the configured catalogues, each with its host profile."""
        return [
            host_profiles.read_catalogue(Path(path))
            for path in CONF.hvstack.catalogues
        ]

    @classmethod
    def expected_flavors(cls) -> list[tuple[CatalogueEntry, HostProfile]]:
        """Return the expected flavors with their host profiles."""
        return [
            (entry, profile)
            for catalogue, profile in cls.catalogues()
            for entry in catalogue.entries
            if entry.status == 'approved' or CONF.hvstack.include_candidates
        ]

    @classmethod
    def worker_flavors(
        cls, policy: str | None = None
    ) -> list[tuple[CatalogueEntry, HostProfile]]:
        """Return the expected flavors of workers.

        Those of the option ``configuration`` are first.

        :param policy: ``cpu_policy`` of the flavors; None for any.
        """
        return sorted(
            (
                (entry, profile)
                for entry, profile in cls.expected_flavors()
                if entry.flavor.role == 'worker'
                and policy in (None, entry.configuration.cpu_policy)
            ),
            key=lambda worker: (
                worker[0].configuration.name != CONF.hvstack.configuration
            ),
        )

    @staticmethod
    def random_name(resource: str) -> str:
        """Return a unique name with the prefix of the workspace."""
        return str(
            data_utils.rand_name(resource, prefix=CONF.resource_name_prefix)
        )


def admin_available() -> bool:
    """Return whether credentials of an administrator are available."""
    return bool(
        credentials_factory.is_admin_available(
            identity_version=CONF.identity.auth_version
        )
    )
