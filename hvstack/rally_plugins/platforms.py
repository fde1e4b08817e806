# SPDX-License-Identifier: Apache-2.0
"""Rally platform of a cloud that is identified by its name in clouds.yaml.

An environment of ``existing@openstack`` needs a user name and a password, and
stores both in Rally's database. This platform stores the name of the cloud and
connects as openstacksdk does, so that every kind of credential works.
"""

import traceback
from typing import Any

from keystoneauth1.plugin import BaseAuthPlugin
from keystoneauth1.session import Session
from keystoneclient import client as keystoneclient
from rally.env import platform
from rally_openstack.common import osclients

from hvstack import errors
from hvstack.cloud import connection, named

_CLOUD = {'type': 'string', 'minLength': 1}


@platform.configure(  # type: ignore[no-untyped-call]
    name=named.KEY, platform='openstack'
)
class NamedCloud(platform.Platform):
    """A cloud in clouds.yaml, or the cloud of the OS_* variables."""

    CONFIG_SCHEMA = {
        'type': 'object',
        'properties': {
            'cloud': {
                **_CLOUD,
                'description': 'Name of the cloud: an entry of clouds.yaml, '
                'or envvars for the OS_* variables.',
            },
            'user_cloud': {
                **_CLOUD,
                'description': 'Name of the cloud whose project gets the '
                'stacks (default: cloud).',
            },
            'config_file': {
                **_CLOUD,
                'description': 'File with these clouds (default: the files '
                'that openstacksdk reads, and that of the lab).',
            },
            'auth_url': {
                **_CLOUD,
                'description': "Address that the cloud's Keystone must have "
                '(default: the address when the environment is created).',
            },
            'region_name': {
                **_CLOUD,
                'description': 'Region of the clouds (default: the value of '
                'OS_REGION_NAME, or the region of the entries, when the '
                'environment is created).',
            },
        },
        'required': ['cloud'],
        'additionalProperties': False,
    }

    def create(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return credentials with the names of the clouds.

        :raises hvstack.errors.InputError: a cloud cannot be used.
        """
        config_file = self.spec.get('config_file')
        cloud = self.spec['cloud']
        user_cloud = self.spec.get('user_cloud') or cloud
        fields = (
            *(config_file, self.spec.get('auth_url')),
            self.spec.get('region_name'),
        )
        return {
            'admin': named.credential(cloud, *fields),
            'users': [named.credential(user_cloud, *fields)],
        }, {}

    def destroy(self) -> None:
        """Do nothing: the cloud exists without the environment."""

    def cleanup(self, task_uuid: str | None = None) -> dict[str, Any]:
        """Report nothing: 'hvstack sweep recover' undoes changes."""
        return {
            'message': "Run 'hvstack sweep recover'.",
            'discovered': 0,
            'deleted': 0,
            'failed': 0,
            'resources': {},
            'errors': [],
        }

    def check_health(self) -> dict[str, Any]:
        """Log in with each credential."""
        try:
            for credential in (
                self.platform_data['admin'],
                *self.platform_data['users'],
            ):
                connection.connect(credential=credential)
        except errors.HVStackError as exc:
            return {
                'available': False,
                'message': str(exc),
                'traceback': traceback.format_exc(),
            }
        return {'available': True}

    def _get_validation_context(self) -> dict[str, Any]:
        """Return the credentials for validation, as existing@openstack."""
        return {'users@openstack': {}}

    def info(self) -> dict[str, Any]:
        """Return the services of the cloud."""
        conn = connection.connect(credential=self.platform_data['admin'])
        catalog = connection.access(conn).service_catalog.catalog
        services = [
            {'type': item['type'], 'name': item.get('name') or item['type']}
            for item in catalog
        ]
        return {
            'info': {
                'services': sorted(services, key=lambda item: item['type'])
            }
        }


# Rally's clients get their session from the client with the name 'keystone'.
osclients.Keystone.unregister()


@osclients.configure('keystone', supported_versions=('2', '3'))
class Keystone(osclients.Keystone):
    """Keystone client of Rally that also supports clouds by name."""

    def get_session(
        self, version: str | None = None
    ) -> tuple[Session, BaseAuthPlugin]:
        """Return the session of openstacksdk for a cloud by name."""
        region: Any = named.region_of(self.credential)
        if region is None:
            pair: tuple[Session, BaseAuthPlugin] = super().get_session(version)
            return pair
        key = 'hvstack_session'
        if key not in self.cache:
            session = region.get_session()
            self.cache[key] = session, session.auth
        stored: tuple[Session, BaseAuthPlugin] = self.cache[key]
        return stored

    def create_client(self, version: str | None = None) -> Any:
        """Return a Keystone client."""
        if named.region_of(self.credential) is None:
            return super().create_client(version)
        # Rally's client reads attributes that only password plugins have.
        return keystoneclient.Client(
            version=self.choose_version(version) or '3',
            session=self.get_session()[0],
            region_name=self.credential.region_name,
            interface=self.credential.endpoint_type,
        )
