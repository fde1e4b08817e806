# SPDX-License-Identifier: Apache-2.0
"""Settings of Maven for the proxy of the environment.

Maven ignores ``http_proxy``, ``https_proxy`` and ``no_proxy``. It has options
for the address of a proxy, but not for a user and a password.
"""

import shutil
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

#: Hosts that Java reaches without a proxy by default.
_LOCAL_HOSTS = ('localhost', '127.*', '[::1]')
_DEFAULT_PORTS = {'http': 80, 'https': 443}


@contextmanager
def proxy_args() -> Iterator[list[str]]:
    """Return the arguments of Maven for the proxy of the environment.

    Proxies in the settings of the user or of the machine win.

    :returns: no argument without a proxy. Otherwise, the argument names a
        file that exists within the block, and that only its owner can read,
        because it may have a password.
    """
    proxies = _list_proxies(urllib.request.getproxies_environment())
    try:
        settings = _read_global_settings()
    except ElementTree.ParseError:
        # Maven says what is wrong with the file.
        proxies = []
    if not proxies or settings.find('proxies/proxy') is not None:
        yield []
        return
    element = settings.find('proxies')
    if element is None:
        element = ElementTree.SubElement(settings, 'proxies')
    element.extend(proxies)
    with tempfile.NamedTemporaryFile(suffix='.xml') as stream:
        stream.write(ElementTree.tostring(settings))
        stream.flush()
        yield ['--global-settings', stream.name]


def _read_global_settings() -> ElementTree.Element:
    """Return the settings of the machine without their name space."""
    program = shutil.which('mvn')
    path = Path(program or '/').resolve().parent.parent / 'conf/settings.xml'
    if not path.is_file():
        return ElementTree.Element('settings')
    # Only administrators can write it.
    root = ElementTree.parse(path).getroot()  # noqa: S314
    root.attrib.clear()
    for element in root.iter():
        element.tag = element.tag.rpartition('}')[2]
    return root


def _list_proxies(variables: dict[str, str]) -> list[ElementTree.Element]:
    """Return the proxies of the environment as Maven's settings have them.

    :param variables: URLs by the first part of the variable's name, such as
        ``https``, and hosts that need no proxy as ``no``.
    """
    elements = []
    for scheme in ('http', 'https'):
        url = variables.get(scheme) or variables.get('all') or ''
        parts = urllib.parse.urlsplit(url if '//' in url else f'//{url}')
        # Maven has no proxies of another type, such as SOCKS.
        if not parts.hostname or parts.scheme not in ('', *_DEFAULT_PORTS):
            continue
        fields = {
            'id': f'environment-{scheme}',
            'active': 'true',
            'protocol': scheme,
            'host': parts.hostname,
            'port': str(parts.port or _DEFAULT_PORTS[parts.scheme or 'http']),
            'username': urllib.parse.unquote(parts.username or ''),
            'password': urllib.parse.unquote(parts.password or ''),
            'nonProxyHosts': _join_hosts(variables.get('no', '')),
        }
        proxy = ElementTree.Element('proxy')
        for name, value in fields.items():
            if value:
                ElementTree.SubElement(proxy, name).text = value
        elements.append(proxy)
    return elements


def _join_hosts(no_proxy: str) -> str:
    """Return the hosts of ``no_proxy`` as Maven expects them.

    Networks are left out, because Maven compares names.
    """
    hosts = list(_LOCAL_HOSTS)
    for entry in no_proxy.split(','):
        host = entry.strip().partition(':')[0].removeprefix('*')
        if entry.strip() == '*':
            hosts.append('*')
        elif host and '/' not in host:
            name = host.removeprefix('.')
            hosts += [name, f'*.{name}']
    return '|'.join(dict.fromkeys(hosts))
