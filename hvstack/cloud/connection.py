# SPDX-License-Identifier: Apache-2.0
"""Connections to a cloud, and its services' errors in one line."""

import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, TypeVar

import keystoneauth1.exceptions
import openstack
import openstack.exceptions
from keystoneauth1.access import AccessInfo
from keystoneauth1.identity.base import BaseIdentityPlugin
from openstack.connection import Connection
from openstack.identity.v3._proxy import Proxy as Identity

from hvstack import errors
from hvstack.cloud import clouds_file, named, selection
from hvstack.results.typed_json import Json

#: Compute API that hvstack uses: the first with checked extra specs. It has
#: ``rxtx_factor``, which openstacksdk sends, and which 2.102 rejects.
COMPUTE_API = (2, 86)
#: Placement's API with generations and ``required`` traits in queries.
PLACEMENT_API = '1.36'

#: Seconds after which a service that says nothing has failed. Heat's API
#: waits 60 s for a busy engine; an upload counts from its last byte.
_TIMEOUT = 300.0
#: HTTP statuses of a proxy whose service does not answer, or that limits the
#: number of requests.
AWAY = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
#: Number of tries after the answer 503, half a second to 4 s apart.
_RETRIES = 4

_CACERT = (
    'cacert of the cloud in clouds.yaml to the file with the certificate of '
    'the CA that signed it'
)

_Cause = TypeVar('_Cause', bound=BaseException)

FAILURES = (
    keystoneauth1.exceptions.ClientException,
    openstack.exceptions.SDKException,
)


@contextmanager
def refused(failure: str) -> Iterator[None]:
    """Turn a service's error into an exception of hvstack.

    :param failure: what failed, such as ``"Cannot create flavor 'x'"``.
    :raises hvstack.errors.CloudError: a request failed in the block.
    """
    try:
        yield
    except FAILURES as exc:
        text = ' '.join(str(exc).split())
        if find_cause(exc, keystoneauth1.exceptions.SSLError):
            text = f'{text.removesuffix(".")}. Set {_CACERT}'
        if isinstance(exc, openstack.exceptions.DuplicateResource):
            text = f'{text.removesuffix(".")}. Use an ID instead of the name'
        raise errors.CloudError(
            f'{failure}: {text.removesuffix(".")}.'
        ) from exc


def find_cause(failure: BaseException, kind: type[_Cause]) -> _Cause | None:
    """Return the exception of a class that led to another one.

    :param failure: exception that was raised last.
    :param kind: class of the exception to find.
    :returns: this exception, or None if it is not part of the chain.
    """
    exc: BaseException | None = failure
    while exc is not None and not isinstance(exc, kind):
        exc = exc.__cause__ or exc.__context__
    return exc


def get_status(failure: BaseException) -> int:
    """Return the HTTP status with which a service refused; 0 without one.

    :param failure: exception that :func:`refused` raised, or its cause.
    """
    for kind, name in (
        (keystoneauth1.exceptions.HttpError, 'http_status'),
        (openstack.exceptions.HttpException, 'status_code'),
    ):
        if (exc := find_cause(failure, kind)) is not None:
            return int(getattr(exc, name) or 0)
    return 0


def passing(failure: Exception) -> bool:
    """Tell whether the same question may be answered a moment later.

    Keystone may be the one that refused, when a token has expired: its
    exceptions are those of keystoneauth.

    :param failure: one of :data:`FAILURES`.
    """
    if isinstance(failure, openstack.exceptions.HttpException):
        status = failure.status_code or 0
    elif isinstance(failure, keystoneauth1.exceptions.HttpError):
        status = failure.http_status or 0
    else:
        return isinstance(
            failure, keystoneauth1.exceptions.RetriableConnectionFailure
        )
    return status >= 500 or status == HTTPStatus.TOO_MANY_REQUESTS


#: Errors of hvstack that say nothing about the configuration of a run.
_OUTAGES = (
    errors.BusyError,
    errors.HostsChangedError,
    errors.RecordNotStoredError,
)


def is_outage(failure: BaseException) -> bool:
    """Return whether a service, or a host, is away or used for the moment.

    So is a database that did not take a record.

    An error of the service itself (HTTP 500) is none: it can follow from the
    request.

    :param failure: exception of hvstack.
    """
    if isinstance(failure, _OUTAGES):
        return True
    kind = keystoneauth1.exceptions.RetriableConnectionFailure
    return get_status(failure) in AWAY or find_cause(failure, kind) is not None


def connect(
    os_cloud: str | None = None,
    credential: Mapping[str, Json] | None = None,
) -> Connection:
    """Return a connection that has logged in.

    :param os_cloud: name of an entry of ``clouds.yaml``; None to choose it
        as :func:`hvstack.cloud.selection.choose` does.
    :param credential: credential of a Rally environment instead.
    :raises hvstack.errors.InputError: no such entry.
    :raises hvstack.errors.CloudError: the cloud does not answer, or not us.
    """
    if credential is None:
        clouds_file.check_all()
    try:
        if credential is None:
            cloud = selection.choose(os_cloud)
            clouds_file.check_all(cloud)
            region = selection.region(cloud)
            conn = Connection(config=region)
        elif (named_region := named.region_of(credential)) is not None:
            conn = Connection(config=named_region)
        else:
            conn = _from_credential(credential)
    except (openstack.exceptions.ConfigException, *FAILURES) as exc:
        raise errors.InputError(
            'Cannot connect to a cloud: '
            f'{" ".join(str(exc).split()).removesuffix(".")}. Set --os-cloud '
            'to the name of an entry of clouds.yaml, or start the lab with '
            "'hvstack lab up'."
        ) from exc
    if conn.session.timeout is None:
        # Without api_timeout in clouds.yaml a command would wait for ever.
        conn.session.timeout = _TIMEOUT
    # A service behind a proxy that changes over answers 503, which must not
    # end a sweep. keystoneauth waits between its tries.
    conn.config.config.setdefault('status_code_retries', _RETRIES)
    with refused('Cannot connect to the cloud'):
        auth = conn.config.config.get('auth')
        url = str(auth.get('auth_url') if isinstance(auth, dict) else None)
        try:
            conn.authorize()
            endpoint = conn.compute.get_endpoint_data()
            newest = getattr(endpoint, 'max_microversion', None) or COMPUTE_API
            version = min(tuple(newest), COMPUTE_API)
        except FAILURES as exc:
            if message := _explain_failure(exc, url[:200]):
                raise errors.CloudError(message) from exc
            raise
        except Exception as exc:
            # keystoneauth does not check the types of what it is answered.
            raise errors.CloudError(
                f"Cannot log in to the cloud (auth_url '{url[:200]}'): "
                'its answer, or the credentials of its entry in clouds.yaml, '
                'are not what Keystone documents. Check auth_url and the '
                'credentials.'
            ) from exc
        conn.compute.default_microversion = f'{version[0]}.{version[1]}'
        conn.placement.default_microversion = PLACEMENT_API
    return conn


def _explain_failure(failure: BaseException, url: str) -> str:
    """Return why a cloud cannot be used, and what to do; empty if unknown.

    :param failure: one of :data:`FAILURES`.
    :param url: URL of Keystone.
    """
    if get_status(failure) == HTTPStatus.UNAUTHORIZED:
        return (
            f"Cannot log in to the cloud (auth_url '{url}'): Keystone rejects "
            'the credentials (HTTP 401). Check the user, the password, the '
            'domains and the project of its entry in clouds.yaml, and '
            'whether the application credential has expired.'
        )
    if find_cause(failure, keystoneauth1.exceptions.SSLError):
        certificate = find_cause(failure, ssl.SSLCertVerificationError)
        reason = certificate.verify_message if certificate else failure
        return (
            f"Cannot connect to the cloud (auth_url '{url}'): the TLS "
            'certificate cannot be verified '
            f'({" ".join(str(reason).split())}). Set {_CACERT}.'
        )
    if reason := _system_error(failure):
        return (
            f"Cannot connect to the cloud (auth_url '{url}'): {reason}. Check "
            'auth_url, the network and the services.'
        )
    return ''


def _system_error(failure: BaseException) -> str:
    """Return the error of the system that made a connection fail.

    :returns: the error without the layers of the libraries; empty if the
        failure has another reason.
    """
    exc: BaseException | None = failure
    while exc is not None:
        if isinstance(exc, OSError) and exc.strerror:
            return exc.strerror
        exc = exc.__context__
    return ''


def _from_credential(credential: Mapping[str, Json]) -> Connection:
    domain = credential.get('domain_name') or 'Default'
    options: dict[str, Any] = {}
    if credential.get('region_name'):
        options['region_name'] = credential['region_name']
    if credential.get('endpoint_type'):
        options['interface'] = credential['endpoint_type']
    if credential.get('https_insecure'):
        options['verify'] = False
    elif credential.get('https_cacert'):
        options['cacert'] = credential['https_cacert']
    return openstack.connect(
        load_yaml_config=False,
        load_envvars=False,
        auth_type='password',
        auth={
            'auth_url': credential['auth_url'],
            'username': credential['username'],
            'password': credential['password'],
            'project_name': credential.get('project_name')
            or credential.get('tenant_name'),
            'user_domain_name': credential.get('user_domain_name') or domain,
            'project_domain_name': credential.get('project_domain_name')
            or domain,
        },
        **options,
    )


def get_identity(conn: Connection) -> Identity:
    """Return the client of Keystone.

    :raises hvstack.errors.CloudError: Keystone has no version 3 of its API.
    """
    identity = conn.identity
    if isinstance(identity, Identity):
        return identity
    raise errors.CloudError(
        'Cannot use Keystone: it does not offer version 3 of its API. Correct '
        'auth_url of the cloud in clouds.yaml.'
    )


def scope(conn: Connection) -> str:
    """Return URL, project, user and region of a connection, without a secret.

    The regions of a cloud can have the same Keystone. Without a region in
    clouds.yaml, the scope has one only if the cloud has several.
    """
    text = f'{_get_url(conn)} {conn.current_project_id} {conn.current_user_id}'
    region = _get_region(conn)
    return f'{text} {region}' if region else text


def _get_region(conn: Connection) -> str:
    """Return the region that a connection uses.

    :returns: empty if clouds.yaml has none and the cloud has a single one.
    :raises hvstack.errors.CloudError: Keystone refused.
    """
    region = conn.config.get_region_name()
    if region:
        return str(region)
    catalog = access(conn).service_catalog
    regions = {
        endpoint.get('region_id') or endpoint.get('region')
        for service in catalog.catalog
        for endpoint in service.get('endpoints', ())
    }
    if len(regions - {None}) < 2:
        return ''
    # keystoneauth takes the first endpoint of a service, in any region.
    with refused('Cannot find the region of the cloud'):
        endpoint = catalog.endpoint_data_for(
            service_type='compute',
            interface=conn.config.get_interface('compute'),
        )
    return str(endpoint.region_name or '')


def _get_url(conn: Connection) -> str:
    url = str(_identity_plugin(conn).auth_url).rstrip('/')
    return url.removesuffix('/v3')


def find_in_scope(text: str, conns: Iterable[Connection]) -> Connection | None:
    """Return the connection to the cloud, project and region of a scope.

    A scope without a region fits each region: older releases wrote it, or
    the entry of the cloud has none.

    :param text: result of :func:`scope`, perhaps in another process.
    :param conns: connections to choose from.
    :returns: None if no connection has this scope.
    """
    *identity, region = _split_scope(text)
    for conn in conns:
        *other_identity, other_region = _split_scope(scope(conn))
        if identity == other_identity and (
            not region or not other_region or region == other_region
        ):
            return conn
    return None


def _split_scope(text: str) -> list[str]:
    """Return URL, project, user and region; parts that are missing empty."""
    parts = text.split(' ', 3)
    return parts + [''] * (4 - len(parts))


def format_cloud(conn: Connection) -> str:
    """Return URL and region of a connection: its cloud for all projects."""
    return f'{_get_url(conn)} {_get_region(conn)}'.rstrip()


def check_cloud(conn: Connection, cloud: str, subject: str) -> None:
    """Refuse to continue measurements on another cloud.

    As in :func:`find_in_scope`, no region fits each region.

    :param conn: connection to the selected cloud.
    :param cloud: result of :func:`format_cloud` at the start; empty if it is
        not known, because an older release started them.
    :param subject: what is continued, such as ``"sweep 'x'"``.
    :raises hvstack.errors.InputError: the cloud is another one.
    """
    selected = format_cloud(conn)
    url, _, region = cloud.partition(' ')
    selected_url, _, selected_region = selected.partition(' ')
    if not cloud or (
        url == selected_url
        and (not region or not selected_region or region == selected_region)
    ):
        return
    remedy = 'Set --os-cloud or OS_CLOUD to the cloud of the start'
    if url == selected_url:
        remedy += f', or OS_REGION_NAME to {region}'
    raise errors.InputError(
        f"Cannot continue {subject} on the cloud '{conn.config.name}' "
        f'({selected}): the measurements were started on {cloud}, and runs '
        f'on two clouds are not comparable. {remedy}.'
    )


def _identity_plugin(conn: Connection) -> BaseIdentityPlugin:
    """Return the plugin that authenticates a connection with Keystone.

    :raises hvstack.errors.InputError: it authenticates without Keystone.
    """
    plugin = conn.session.auth
    if isinstance(plugin, BaseIdentityPlugin):
        return plugin
    raise errors.InputError(
        f"Cannot use the cloud '{conn.config.name}': its auth_type does not "
        'use Keystone. Set auth_type of its entry in clouds.yaml to password, '
        'token or v3applicationcredential.'
    )


def is_administrator(conn: Connection) -> bool:
    """Return whether the user of a connection has the role ``admin``.

    As in the policies of the services, its case does not matter: some
    distributions of OpenStack call it ``Admin``.

    :raises hvstack.errors.CloudError: Keystone refused.
    """
    return 'admin' in map(str.lower, access(conn).role_names or ())


def access(conn: Connection) -> AccessInfo:
    """Return the data of the token: roles, project, service catalogue.

    :raises hvstack.errors.CloudError: it refused.
    """
    plugin = _identity_plugin(conn)
    with refused('Cannot inspect the token'):
        return plugin.get_access(conn.session)
