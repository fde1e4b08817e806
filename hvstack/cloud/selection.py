# SPDX-License-Identifier: Apache-2.0
"""Which cloud a command uses, and which file has its credentials.

hvstack looks a name up as openstacksdk does, and in the file of the lab,
which is separate from the user's clouds.yaml.
"""

import logging
import os
from pathlib import Path

import keystoneauth1.exceptions
import openstack.exceptions
import yaml
from openstack.config.cloud_region import CloudRegion
from openstack.config.loader import SECURE_FILES, OpenStackConfig

from hvstack import conf, errors, paths, textfile
from hvstack.model.plain_data import Json, JsonObject

LOG = logging.getLogger(__name__)
#: openstacksdk's name of the cloud of the OS_* variables (openrc).
VARIABLES = 'envvars'
#: What openstacksdk raises for values of types that it does not check.
_TYPE_ERRORS = (AttributeError, TypeError, ValueError, KeyError)


def lab_file() -> Path:
    """Return the path of the lab's clouds.yaml."""
    return paths.STATE / 'lab' / 'clouds.yaml'


def choose(os_cloud: str | None) -> str:
    """Return the name of the cloud to use; log it where others were possible.

    The order is that of openstacksdk: the option, OS_CLOUD, the OS_*
    variables of an openrc file, ``os_cloud`` of hvstack.conf, the only entry
    of clouds.yaml.

    :param os_cloud: value of ``--os-cloud``; None without the option.
    :raises hvstack.errors.InputError: the name is empty, no cloud is named,
        or OS_CLOUD and the OS_* variables name two.
    """
    variable = os.environ.get('OS_CLOUD') or None
    auth_url = os.environ.get('OS_AUTH_URL') or None
    openrc = os.environ.get('OS_CLOUD_NAME') or VARIABLES
    if os_cloud is not None:
        return _option(os_cloud, variable, auth_url, openrc)
    if variable is not None:
        if auth_url is not None and variable != openrc:
            raise errors.InputError(
                f"Cannot choose a cloud: OS_CLOUD names '{variable}', and "
                f'OS_AUTH_URL is {auth_url}. Use --os-cloud {variable} or '
                f'--os-cloud {openrc}, or unset one of the variables.'
            )
        return variable
    configured: str | None = conf.load().cloud.os_cloud or None
    if auth_url is not None:
        if configured is not None:
            LOG.info(
                'Using the cloud of the OS_* variables (%s), not os_cloud of '
                "hvstack.conf ('%s').",
                *(auth_url, configured),
            )
        return openrc
    names = _names(_load(None))
    if configured is not None:
        if set(names) - {configured}:
            LOG.info("Using the cloud '%s' of hvstack.conf.", configured)
        return configured
    if len(names) != 1:
        raise errors.InputError(
            'Cannot choose a cloud: no cloud is named. Set --os-cloud or '
            'OS_CLOUD to the name of an entry of clouds.yaml (entries: '
            f'{", ".join(names) or "none"}), source an openrc file, or start '
            "the lab with 'hvstack lab up'."
        )
    LOG.info("Using the only cloud of clouds.yaml, '%s'.", names[0])
    return names[0]


def _option(
    os_cloud: str, variable: str | None, auth_url: str | None, openrc: str
) -> str:
    if not os_cloud.strip():
        raise errors.InputError(
            'Cannot choose a cloud: --os-cloud is empty. Use the name of an '
            f'entry of clouds.yaml, or {VARIABLES} for the OS_* variables.'
        )
    ignored = []
    if variable is not None and variable != os_cloud:
        ignored.append(f"OS_CLOUD ('{variable}')")
    if auth_url is not None and os_cloud != openrc:
        ignored.append(f'the OS_* variables ({auth_url})')
    if ignored:
        LOG.info(
            "Using the cloud '%s' of --os-cloud, not %s.",
            *(os_cloud, ' or '.join(ignored)),
        )
    return os_cloud


def region(
    name: str, config_file: str | None = None, region_name: str | None = None
) -> CloudRegion:
    """Return the settings and credentials of a cloud.

    :param name: name of an entry of clouds.yaml, or ``envvars``.
    :param config_file: the only file to read; None for the user's files, as
        openstacksdk finds them, and the lab's.
    :param region_name: name of the region; empty for the first region of the
        entry, and None for that of OS_REGION_NAME, as for openstack(1). The
        lab has a single region.
    :raises hvstack.errors.InputError: no file has this entry, two files
        have different ones, the entry is incomplete, or does not have this
        region.
    """
    config = _load(config_file)
    lab = {} if config_file else _lab_entries()
    if name in lab:
        config = _with_lab(config, name, lab[name])
    if name not in _names(config, hidden=True):
        files = [config_file or config.config_filename or 'none exists']
        if lab:
            files.append(str(lab_file()))
        names = sorted({*_names(config), *lab})
        raise errors.InputError(
            f"Cannot use the cloud '{name}': neither clouds.yaml "
            f'({" and ".join(files)}) '
            f'nor the OS_* variables have it (entries: '
            f'{", ".join(names) or "none"}). Use another --os-cloud, or '
            "start the lab with 'hvstack lab up'."
        )
    is_lab = name in lab or config_file == str(lab_file())
    variable = ''
    # With OS_AUTH_URL, the variables are those of a cloud of their own.
    if (
        region_name is None
        and not is_lab
        and name != config.envvar_key
        and not os.environ.get('OS_AUTH_URL')
    ):
        variable = os.environ.get('OS_REGION_NAME') or ''
    try:
        return config.get_one(name, region_name=region_name or variable)
    except (
        openstack.exceptions.ConfigException,
        keystoneauth1.exceptions.ClientException,
    ) as exc:
        raise errors.InputError(
            f"Cannot use the cloud '{name}' "
            f'({config.config_filename or "OS_* variables"}): '
            f'{str(exc).removesuffix(".")}. Correct the entry'
            f'{" or OS_REGION_NAME" if variable else ""}, or use another '
            '--os-cloud.'
        ) from exc
    except _TYPE_ERRORS as exc:
        raise errors.InputError(
            f"Cannot use the cloud '{name}' "
            f'({config.config_filename or "OS_* variables"}): a field of the '
            'entry has a value of a wrong type. Correct the entry, or use '
            'another --os-cloud.'
        ) from exc


def read_tls_options(region: CloudRegion) -> tuple[bool, str | None]:
    """Return how openstacksdk verifies the TLS certificates of a cloud.

    :param region: settings of the cloud.
    :returns: whether certificates are not verified, and the absolute path of
        the file with the certificates of CAs; None for those of the system.
    """
    verify, _ = region.get_requests_verify_args()
    if isinstance(verify, str):
        return False, str(Path(verify).absolute())
    return not verify, None


def file_of(name: str) -> str | None:
    """Return the file that has a cloud; None for that of the variables.

    :param name: name that :func:`region` accepts.
    """
    if name in _lab_entries():
        return str(lab_file())
    config = _load(None)
    if name == config.envvar_key:
        return None
    return config.config_filename


def _load(config_file: str | None) -> OpenStackConfig:
    secure = os.environ.get('OS_CLIENT_SECURE_FILE')
    try:
        if config_file is None:
            return OpenStackConfig()
        return OpenStackConfig(
            config_files=[config_file],
            secure_files=[*([secure] if secure else []), *SECURE_FILES],
            load_envvars=False,
        )
    except (openstack.exceptions.ConfigException, OSError) as exc:
        raise errors.InputError(
            f'Cannot read clouds.yaml: {exc}. Correct the file.'
        ) from exc
    except _TYPE_ERRORS as exc:
        raise errors.InputError(
            f'Cannot read {config_file or "clouds.yaml"}: a field has a '
            'value of a wrong type. Correct the file.'
        ) from exc


def _names(config: OpenStackConfig, *, hidden: bool = False) -> list[str]:
    """Return the names of the entries of clouds.yaml.

    :param hidden: include the cloud of the variables.
    """
    # Without any entry, openstacksdk adds one of this name.
    ignored = {'defaults'} if config.config_filename is None else set()
    if not hidden:
        ignored.add(config.envvar_key or VARIABLES)
    return sorted(set(config.cloud_config['clouds']) - ignored)


def _lab_entries() -> JsonObject:
    """Return the entries of the lab's file; none if it cannot be read."""
    try:
        content = yaml.safe_load(textfile.read(lab_file()))
        return dict(content['clouds'])
    except (
        *(errors.InputError, ValueError, yaml.YAMLError),
        *(TypeError, KeyError, RecursionError),
    ):
        return {}


def _with_lab(
    config: OpenStackConfig, name: str, entry: Json
) -> OpenStackConfig:
    """Return the configuration that contains an entry of the lab.

    :param config: the user's files.
    :raises hvstack.errors.InputError: these have another entry of this name.
    """
    path = lab_file()
    if name in _names(config):
        users_file = Path(config.config_filename or '')
        same_file = users_file.exists() and users_file.samefile(path)
        if not same_file and config.cloud_config['clouds'][name] != entry:
            raise errors.InputError(
                f"Cannot choose between two clouds '{name}': {users_file} "
                f'and {path} have different entries of this name. Delete or '
                f'rename the entry in {users_file}.'
            )
    return OpenStackConfig(
        config_files=[str(path)],
        secure_files=[],
        vendor_files=[],
        load_envvars=False,
    )
