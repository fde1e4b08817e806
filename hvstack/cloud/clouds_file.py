# SPDX-License-Identifier: Apache-2.0
"""Checks of clouds.yaml, which openstacksdk reads without any.

A field of a wrong type would end in an error of Python's somewhere in
openstacksdk, and a FIFO would never end.
"""

import os
from pathlib import Path

import yaml
from keystoneauth1 import exceptions, loading
from openstack.config import loader

from hvstack import errors, textfile, yamlfile
from hvstack.model.plain_data import Json
from hvstack.model.strict_mapping import Fields, SourceLocation

#: Types that a value of a credential may have.
_PLAIN = str | int | float | bool | None
#: Type with the credentials of several types, and the field that lists them.
_MULTIFACTOR, _METHODS = 'v3multifactor', 'auth_methods'
#: More values than any file of credentials has.
_MAX_VALUES = 100_000


def check_all(name: str | None = None) -> None:
    """Check the clouds.yaml and secure.yaml that openstacksdk would read.

    :param name: name of the cloud whose entry is checked; None checks no
        entry.
    :raises hvstack.errors.InputError: as :func:`check`.
    """
    for variable, defaults in (
        ('OS_CLIENT_CONFIG_FILE', loader.CONFIG_FILES),
        ('OS_CLIENT_SECURE_FILE', loader.SECURE_FILES),
    ):
        named = os.environ.get(variable)
        for file in [named] if named else defaults:
            # A directory has no entries, as a missing file.
            if os.path.lexists(file) and not Path(file).is_dir():
                check(Path(file), name)
                break


def check(path: Path, cloud: str | None = None) -> None:
    """Check that a file has entries of clouds, one with plain credentials.

    Other programs may use the other entries.

    :param path: a clouds.yaml; anchors and aliases are allowed there, unless
        they make a small file large.
    :param cloud: name of the cloud whose entry is checked; None checks no
        entry.
    :raises hvstack.errors.InputError: it cannot be read, is not YAML, or
        has a field of a wrong type; the message never has a value.
    """
    text = textfile.read(path)
    try:
        count = _count_values(yaml.compose(text, Loader=yaml.SafeLoader), {})
        if count > _MAX_VALUES:
            raise errors.InputError(
                f'Cannot read {path}:1: its aliases make {count:.1e} values. '
                'Write the values out.'
            )
        data = yaml.safe_load(text)
        lines = yamlfile.line_numbers(text)
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        mark = getattr(exc, 'problem_mark', None)
        line = mark.line + 1 if mark else 1
        raise errors.InputError(
            f'Cannot read {path}:{line}: this is not YAML. Correct the line.'
        ) from exc
    if data is None:
        return
    source_location = yamlfile.Document(data, path, lines).source_location()
    top = Fields(data, source_location, None)
    if not top.has('clouds'):
        return
    clouds = Fields(top.raw('clouds'), source_location, None, 'clouds')
    for name in clouds:
        if textfile.printable(str(name)) != str(name):
            raise clouds.error(
                textfile.printable(str(name)),
                'has a control character. Remove it',
            )
        if name == cloud:
            _check_entry(source_location, str(name), clouds.raw(name))


def _count_values(node: yaml.Node | None, counts: dict[int, int]) -> int:
    """Return the number of values of a YAML node, with aliases expanded.

    :param counts: numbers that are known, by the ID of their node.
    """
    if node is None or isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in counts:
        children = [
            child
            for item in node.value
            for child in (item if isinstance(item, tuple) else (item,))
        ]
        counts[id(node)] = 1 + sum(
            _count_values(child, counts) for child in children
        )
    return counts[id(node)]


def _check_entry(
    source_location: SourceLocation, name: str, entry: Json
) -> None:
    prefix = f'clouds.{name}'
    fields = Fields(entry, source_location, None, prefix)
    for field in ('region_name', 'auth_type', 'interface', 'cacert'):
        if not isinstance(fields.raw(field), _PLAIN):
            raise fields.error(field, 'is not a text. Correct it')
    if 'region_name' in fields and not fields.has('region_name'):
        raise fields.error('region_name', 'is empty. Set or delete it')
    if 'auth' not in fields:
        return
    content = fields.raw('auth')
    names = _options(str(fields.raw('auth_type') or 'password'))
    is_open = names is None or fields.has('profile')
    allowed = list(names or ())
    if isinstance(content, dict):
        # openstacksdk accepts dashes, too.
        allowed += [
            key
            for key in content
            if key not in allowed
            and (is_open or str(key).replace('-', '_') in allowed)
        ]
    auth = Fields(content, source_location, allowed, f'{prefix}.auth')
    for field in auth:
        value = auth.raw(field)
        # Never shown: it may be a password.
        values = value if field == _METHODS else [value]
        if not isinstance(values, list) or not all(
            isinstance(item, _PLAIN) for item in values
        ):
            raise auth.error(str(field), 'is not a text. Correct it')
        if any(textfile.printable(str(item)) != str(item) for item in values):
            raise auth.error(str(field), 'has a control character. Remove it')


def _options(auth_type: str) -> list[str] | None:
    """Return the credentials of a type.

    :returns: None if it is of another package, or has the credentials of
        several types.
    """
    if auth_type == _MULTIFACTOR:
        return None
    try:
        options = loading.get_plugin_loader(auth_type).get_options()
    except exceptions.ClientException:
        return None
    names = {'tenant_name', 'tenant_id', 'project_domain', 'user_domain'}
    for option in options:
        names |= {
            name.replace('-', '_')
            for item in (option, *option.deprecated)
            for name in (item.name, item.dest)
        }
    return sorted(names)
