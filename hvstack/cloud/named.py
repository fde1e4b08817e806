# SPDX-License-Identifier: Apache-2.0
"""Credentials of Rally that hold a cloud's name instead of a secret.

Rally copies the dictionary of a credential from its database to contexts and
scenarios. ``api_info`` is its only free field.
"""

from collections.abc import Mapping

from openstack.config.cloud_region import CloudRegion

from hvstack import errors
from hvstack.cloud import selection
from hvstack.results.typed_json import Json, JsonObject

#: Key of ``api_info``; also the name of the platform plugin.
KEY = 'hvstack'


def credential(
    name: str,
    config_file: str | None = None,
    auth_url: str | None = None,
    region_name: str | None = None,
) -> JsonObject:
    """Return a credential of Rally for a cloud, without its secrets.

    :param name: name of an entry of clouds.yaml, or ``envvars``.
    :param config_file: file with the entry; None as for
        :func:`hvstack.cloud.selection.region`.
    :param auth_url: address that its Keystone must have; None for the
        present one.
    :param region_name: name of its region; None as for
        :func:`hvstack.cloud.selection.region`.
    :raises hvstack.errors.InputError: the cloud cannot be used.
    """
    region = selection.region(name, config_file, region_name)
    auth = region.config.get('auth') or {}
    is_insecure, cacert = selection.read_tls_options(region)
    return {
        'auth_url': auth.get('auth_url') or '',
        'username': auth.get('username') or '',
        'password': '',
        'tenant_name': auth.get('project_name') or '',
        'user_domain_name': auth.get('user_domain_name'),
        'project_domain_name': auth.get('project_domain_name'),
        'region_name': region.get_region_name(),
        'endpoint_type': region.config.get('interface') or 'public',
        'https_insecure': is_insecure,
        'https_cacert': cacert,
        'api_info': {
            KEY: {
                'cloud': name,
                'config_file': config_file,
                'auth_url': auth_url or auth.get('auth_url'),
            }
        },
    }


def region_of(credential: Mapping[str, Json]) -> CloudRegion | None:
    """Return the settings of the cloud that a credential names.

    :returns: None for a credential with a password: that of a user whom
        Rally created, or of an environment of ``existing@openstack``.
    :raises hvstack.errors.InputError: the cloud cannot be used, or its
        address changed since the environment was created.
    """
    marker = _get_mapping(_get_mapping(credential, 'api_info'), KEY)
    if not marker or credential.get('password'):
        return None
    name, config_file = str(marker['cloud']), marker.get('config_file')
    # Rally's own clients use this region, whatever OS_REGION_NAME is now.
    region = selection.region(
        name,
        str(config_file) if config_file else None,
        str(credential.get('region_name') or ''),
    )
    address = (region.config.get('auth') or {}).get('auth_url')
    if address != marker.get('auth_url'):
        raise errors.InputError(
            f"Cannot use the Rally environment for the cloud '{name}': the "
            f'address of its Keystone was {marker.get("auth_url")}, and is '
            f'{address} now. Create the environment again.'
        )
    return region


def _get_mapping(mapping: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    value = mapping.get(key)
    return value if isinstance(value, Mapping) else {}
