# SPDX-License-Identifier: Apache-2.0
"""Generate tempest.conf from an entry of clouds.yaml and a cluster plan."""

import configparser
import io
import json
import re
import secrets
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypedDict

import yaml
from openstack.connection import Connection

import hvstack
from hvstack import errors, jsonfile, paths, share, textfile, yamlfile
from hvstack.accept import visibility
from hvstack.cloud import connection, selection, servers
from hvstack.cloud.connection import refused
from hvstack.cluster import heat_environment
from hvstack.cluster.plan import ClusterPlan
from hvstack.model.plain_data import Json, JsonObject
from hvstack.model.strict_mapping import Fields

#: Name of the key pair in the request for a stack, which each test replaces.
_KEY_NAME = 'hvaccept'
#: Digits of the random ID in the names of what tests create. Keystone allows
#: 64 characters in the name of a project, and Tempest adds a test's class.
_ID_DIGITS = 10
#: Heat's default role for users that create stacks, besides ``member``.
_STACK_ROLE = 'heat_stack_owner'
_PASSWORD = ('password', 'v3password')
#: Service types of Cinder in service catalogs, the current one first.
_VOLUME_TYPES = ('block-storage', 'volumev3')
#: Value of an option of tempest.conf; None omits the option.
Option = (
    bool | int | float | str | Path | Sequence[str] | Sequence[Path] | None
)
#: Options by section.
Sections = dict[str, dict[str, Option]]


class StackRequest(TypedDict):
    """Body of a request to Heat, which may have further keys.

    :param template: the template.
    :param parameters: values of its parameters.
    """

    template: JsonObject
    parameters: JsonObject


@dataclass(frozen=True)
class Workspace:
    """A directory in which Tempest runs.

    :param directory: directory of ``tempest.conf``, the repository of stestr
        and the reports.
    """

    directory: Path

    @property
    def prefix(self) -> str:
        """Prefix of the names of all resources that its tests create.

        It contains a random ID of the workspace, so that a clean-up deletes
        no resources of another workspace or machine.

        :raises hvstack.errors.InputError: the file with the ID is damaged, or
            hvstack did not create the directory.
        """
        path = self.directory / 'id'
        if not path.exists():
            paths.claim(self.directory)
            paths.write_whole(path, f'{secrets.token_hex(_ID_DIGITS // 2)}\n')
        workspace_id = textfile.read(path).strip()
        if not re.fullmatch(f'[0-9a-f]{{{_ID_DIGITS}}}', workspace_id):
            raise errors.InputError(
                f'Cannot read the ID of the workspace ({path}): it is not a '
                f'number of {_ID_DIGITS} hexadecimal digits. Use another '
                '--workspace.'
            )
        return f'hvaccept-{workspace_id}'

    @property
    def conf(self) -> Path:
        """The file ``tempest.conf``, which contains a password."""
        return self.directory / 'tempest.conf'

    @property
    def stack_request(self) -> Path:
        """File with the body of the request to Heat for a cluster."""
        return self.directory / 'stack.json'

    @property
    def log(self) -> Path:
        """File with the output of stestr in the last run."""
        return self.directory / 'stestr.log'

    @property
    def pid(self) -> Path:
        """File with the process ID of stestr and its start time."""
        return self.directory / 'stestr.pid'

    def write(self, values: Sections) -> None:
        """Write tempest.conf (readable only by its owner) and .stestr.conf.

        :param values: options by section.
        :raises OSError: a file cannot be written.
        """
        parser = configparser.ConfigParser(interpolation=None)
        paths.claim(self.directory)
        # Release the users that an interrupted run locked.
        shutil.rmtree(self.directory / 'lock', ignore_errors=True)
        lock: Sections = {
            'oslo_concurrency': {'lock_path': self.directory / 'lock'}
        }
        for section, options in {**values, **lock}.items():
            parser[section] = {
                name: _format_option(value)
                for name, value in options.items()
                if value is not None
            }
        parser['DEFAULT']['resource_name_prefix'] = self.prefix
        stream = io.StringIO()
        parser.write(stream)
        paths.write_whole(self.conf, stream.getvalue(), 0o600)
        tests = Path(hvstack.__file__).parent / 'tempest_plugin' / 'tests'
        paths.write_whole(
            self.directory / '.stestr.conf',
            f'[DEFAULT]\ntest_path={tests}\n'
            f'top_dir={tests.parent.parent.parent}\n'
            'group_regex=([^\\.]*\\.)*\n',
        )

    def process_env(self) -> dict[str, str]:
        """Return the environment variables of Tempest and stestr."""
        return {
            'TEMPEST_CONFIG_DIR': str(self.directory),
            'TEMPEST_CONFIG': self.conf.name,
            'PYTHON': sys.executable,
            # The requests of a test are also in tempest.log.
            'OS_LOG_CAPTURE': '0',
        }


def _format_option(value: Option) -> str:
    """Return a value as oslo.config reads it: passwords have any character."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        text = ','.join(str(element) for element in value)
    else:
        text = str(value)
    # Values name other options by a dollar sign.
    text = text.replace('$', r'\$')
    # Blanks at both ends are removed, and then one pair of quotes.
    if text.startswith(('"', "'")) or text != text.strip():
        text = f'"{text}"'
    return text


def credential_sections(
    conn: Connection, accounts_file: Path | None
) -> Sections:
    """Return the sections with the credentials of Tempest.

    :param conn: connection of an administrator.
    :param accounts_file: file with existing users; None creates users and
        projects as the administrator, and deletes them at the end.
    :raises hvstack.errors.InputError: the entry of clouds.yaml has no
        password, or is not an administrator's.
    """
    config = conn.config
    auth = config.config.get('auth', {})
    is_insecure, cacert = selection.read_tls_options(config)
    identity: dict[str, Option] = {
        'auth_version': 'v3',
        'uri_v3': _versioned_url(auth.get('auth_url', '')),
        'region': _find_region(conn),
        'v3_endpoint_type': _get_endpoint_type(conn),
        'disable_ssl_certificate_validation': is_insecure,
        'ca_certificates_file': cacert,
    }
    if accounts_file is not None:
        return {
            'identity': identity,
            'auth': {
                'use_dynamic_credentials': False,
                'test_accounts_file': accounts_file.resolve(),
            },
        }
    user = _read_user(conn)
    if not connection.is_administrator(conn):
        raise errors.InputError(
            f"Cannot create users for the tests (cloud '{config.name}'): the "
            'credential is not an administrator. Use --accounts FILE.'
        )
    with refused('Cannot list the roles'):
        role_names = {role.name for role in conn.identity.roles()}
    return {
        'identity': identity,
        'auth': {
            'use_dynamic_credentials': True,
            'create_isolated_networks': False,
            'admin_domain_name': user['user_domain_name'],
            **{f'admin_{name}': value for name, value in user.items()},
            'tempest_roles': [
                name for name in ('member', _STACK_ROLE) if name in role_names
            ],
        },
    }


def render_accounts(tenant: Connection, admin: Connection) -> str:
    """Return the content of Tempest's accounts.yaml with two existing users.

    :param tenant: connection of the user whose project has the stack.
    :param admin: connection of the administrator, who may be the same user.
    :raises hvstack.errors.InputError: a user has no password.
    """
    users: list[dict[str, str | list[str]]] = []
    for conn, extra in (
        # Tempest selects its primary user by this role.
        (tenant, {'roles': ['member']}),
        (admin, {'types': ['admin']}),
    ):
        users.append({**_read_user(conn), **extra})
    if admin.current_user_id == tenant.current_user_id:
        # Tempest identifies users by their names, projects and passwords, and
        # gives no test of a member a user that is also an administrator's.
        del users[1]['username']
        users[1]['user_id'] = str(admin.current_user_id)
    return yaml.safe_dump(users)


def connect_users(path: Path, conn: Connection) -> list[Connection]:
    """Return connections of the users in Tempest's accounts.yaml.

    :param path: the file.
    :param conn: connection to the same cloud.
    :raises hvstack.errors.InputError: the file is not valid, or a user cannot
        log in.
    """
    account_list = yamlfile.load(path).data
    if not isinstance(account_list, list):
        raise errors.InputError(
            f'Cannot read the users in {path}: it is not a list. Use the '
            "format of Tempest's accounts.yaml.sample."
        )
    config = conn.config
    is_insecure, cacert = selection.read_tls_options(config)
    connections = []
    for index, account in enumerate(account_list, 1):
        project = isinstance(account, dict) and (
            account.get('project_name') or account.get('tenant_name')
        )
        if (
            not project
            or not account.get('username')
            or not account.get('password')
        ):
            raise errors.InputError(
                f'Cannot read user {index} in {path}: username, password or '
                'project_name is missing. Set all three.'
            )
        connections.append(
            connection.connect(
                credential={
                    **account,
                    'project_name': project,
                    'auth_url': config.config.get('auth', {})['auth_url'],
                    'region_name': config.get_region_name(),
                    'endpoint_type': config.config.get('interface'),
                    'https_insecure': is_insecure,
                    'https_cacert': cacert,
                }
            )
        )
    return connections


def _read_user(conn: Connection) -> dict[str, str]:
    """Return a user of a cloud by the names of Tempest's options.

    The names are those of the token: the entry of clouds.yaml may have IDs of
    the user, the project and their domains, which Tempest does not accept.

    :raises hvstack.errors.InputError: the user has no password, or the token
        no project.
    """
    config = conn.config
    token = connection.access(conn)
    password = config.config.get('auth', {}).get('password')
    user = {
        'username': token.username,
        'password': str(password) if password else None,
        'project_name': token.project_name,
        'user_domain_name': token.user_domain_name,
        'project_domain_name': token.project_domain_name,
    }
    missing = [name for name, value in user.items() if not value]
    if missing or config.config.get('auth_type', 'password') not in _PASSWORD:
        raise errors.InputError(
            f"Cannot configure Tempest for the cloud '{config.name}': "
            f'{", ".join(missing) or "password"} is missing in clouds.yaml. '
            'Use an entry with a password, or --accounts FILE.'
        )
    return {name: value for name, value in user.items() if value}


def _find_region(conn: Connection) -> str:
    """Return the region of a cloud.

    For a region that the catalog lacks, Tempest takes the first endpoint of a
    service, whatever its interface and region. Without a region in
    clouds.yaml, the region is that of the endpoint of Nova.
    """
    name: str | None = conn.config.get_region_name()
    if name:
        return name
    by_service = connection.access(conn).service_catalog.get_endpoints_data(
        service_type='compute', interface=_get_endpoint_type(conn)
    )
    for endpoint in chain(*by_service.values()):
        if endpoint.region_name:
            return str(endpoint.region_name)
    return 'RegionOne'


def _get_endpoint_type(conn: Connection) -> str:
    """Return the interface of the endpoints, as Tempest names it."""
    interface = str(conn.config.config.get('interface') or 'public')
    return interface.removesuffix('URL')


def _versioned_url(url: str) -> str:
    base_url = url.rstrip('/')
    return base_url if base_url.endswith('/v3') else f'{base_url}/v3'


def service_sections(
    conn: Connection,
    *,
    image: str,
    network: str,
    volume_types: Sequence[str] = (),
    new_projects: bool = False,
) -> Sections:
    """Return the sections about the services of the cloud.

    :param conn: connection to the cloud.
    :param image: name or ID of an image that boots with every flavor.
    :param network: name or ID of the network.
    :param volume_types: names of the volume types.
    :param new_projects: whether projects that tests create use all of them.
    :raises hvstack.errors.InputError: the image or the network does not exist,
        or new projects do not see it or a volume type.
    """
    glance_image = servers.image(conn, image)
    with refused('Cannot list the networks'):
        net = conn.network.find_network(network, ignore_missing=True)
    if net is None:
        raise errors.InputError(
            f"Cannot use the network '{network}': it does not exist. Set "
            "'network' in hvstack.conf to a network that 'openstack network "
            "list' shows."
        )
    if new_projects:
        visibility.check_network(net)
        visibility.check_image(glance_image, glance_image.id)
    catalog = connection.access(conn).service_catalog.catalog
    kinds = {item['type'] for item in catalog}
    volumes = [name for name in _VOLUME_TYPES if name in kinds]
    if new_projects and volumes and volume_types:
        visibility.check_volume_types(conn, volume_types)
    endpoints: dict[str, Option] = {'endpoint_type': _get_endpoint_type(conn)}
    return {
        'DEFAULT': {
            'log_file': 'tempest.log',
            'use_stderr': False,
        },
        'compute': {
            **endpoints,
            'image_ref': glance_image.id,
            'image_ref_alt': glance_image.id,
            'fixed_network_name': net.name,
            'max_microversion': '2.96',
        },
        'image': endpoints,
        'network': {**endpoints, 'floating_network_name': ''},
        'placement': endpoints,
        'volume': {
            **endpoints,
            'catalog_type': (volumes or _VOLUME_TYPES)[0],
        },
        'service_available': {
            'cinder': bool(volumes),
            'swift': 'object-store' in kinds,
            'horizon': False,
            'heat': 'orchestration' in kinds,
        },
        'hvstack': {'image': glance_image.id, 'network': net.id},
    }


def build_stack_request(
    cluster_plan: ClusterPlan, conn: Connection
) -> JsonObject:
    """Return the body of Heat's request for a cluster.

    Flavors are named, not identified: tests grant their project access. The
    key pair is each test's own.

    :raises hvstack.errors.CloudError: a template cannot be read.
    """
    cluster_plan = cluster_plan.with_key(_KEY_NAME, {})
    with refused('Cannot read the templates'):
        content: JsonObject = conn.orchestration.read_env_and_templates(
            template_file=str(
                share.HEAT_TEMPLATES / heat_environment.TEMPLATE
            ),
            environment_files=[
                str(file) for file in heat_environment.files(cluster_plan)
            ],
        )
    return {
        **content,
        'parameters': heat_environment.parameters(cluster_plan),
        'disable_rollback': True,
    }


def has_separate_controller_hosts(cluster_plan: ClusterPlan) -> bool:
    """Return whether controllers and workers have different hosts."""
    worker, controller = (
        {name for name in flavor.extra_specs if name.startswith('trait:')}
        for flavor in (
            cluster_plan.flavors.worker,
            cluster_plan.flavors.controller,
        )
    )
    return worker != controller


def write_request(workspace: Workspace, body: Mapping[str, Json]) -> None:
    """Write the request to the file that the tests read."""
    paths.write_whole(
        workspace.stack_request, json.dumps(body, indent=1), 0o600
    )


def read_request(path: Path) -> StackRequest:
    """Return the request that :func:`write_request` wrote.

    :raises hvstack.errors.InputError: the file is not such a request.
    """
    try:
        document = jsonfile.load(path)
        source_location = document.source_location()
        fields = Fields(document.data, source_location, None)
        for name in ('template', 'parameters'):
            Fields(fields.raw(name), source_location, None, name)
    except errors.InputError as exc:
        reason = str(exc).removesuffix('.')
        raise errors.InputError(
            f"Cannot read the request for a stack: {reason}. Let 'hvstack "
            "accept --dry-run' write the file again."
        ) from exc
    request: StackRequest = document.data
    return request.copy()
