# SPDX-License-Identifier: Apache-2.0
"""What a credential must allow, checked before a stack is created.

Heat acts for its user later, too, by a trust. Keystone 30 lets application
credentials create no trusts, and older releases only unrestricted ones.
"""

import datetime
import secrets

from keystoneauth1.access import AccessInfo, AccessInfoV3
from keystoneauth1.identity import generic, v3
from keystoneauth1.identity.v3 import oidc
from openstack.connection import Connection

from hvstack import errors, speed
from hvstack.cloud import stack_times
from hvstack.cloud.connection import access, refused
from hvstack.conf import CloudOptions
from hvstack.model.compute_backends import timeout_factor

#: Credentials that log in once: a passcode changes, and an identity provider
#: accepts a code once.
_SINGLE_LOGIN = (
    *(v3.TOTP, v3.OidcAuthorizationCode),
    oidc.OidcDeviceAuthorization,
)
#: Credentials that get one token only: another token of a token expires at the
#: same time.
_ONCE = (generic.Token, v3.Token, v3.OidcAccessToken, *_SINGLE_LOGIN)


def is_token(conn: Connection) -> bool:
    """Return whether the credential of a connection gets no further token.

    A password and an application credential get new tokens. A token, the
    access token and the code of an identity provider, and a passcode do not.
    """
    return isinstance(conn.session.auth, _ONCE) or _has_passcode(conn)


def _has_passcode(conn: Connection) -> bool:
    """Return whether a passcode is one of several methods of a credential."""
    return any(
        isinstance(method, v3.TOTPMethod)
        for method in getattr(conn.session.auth, 'auth_methods', None) or ()
    )


def check_logins(*conns: Connection) -> None:
    """Refuse a credential with which only one process can log in.

    :param conns: connections of measurements, each process of which logs in.
    :raises hvstack.errors.InputError: a credential logs in once.
    """
    for conn in conns:
        if isinstance(conn.session.auth, _SINGLE_LOGIN) or _has_passcode(conn):
            raise errors.InputError(
                f"Cannot start measurements (cloud '{conn.config.name}'): its "
                'credential logs in only once, but each of their processes '
                "logs in. Get a token with 'openstack token issue', and use "
                "it with 'auth_type: token'."
            )


def check(
    conn: Connection,
    options: CloudOptions,
    seconds: float | None = None,
    *,
    nodes: int = 0,
    backend: str = '',
) -> None:
    """Refuse a credential with which no stack can be created.

    :param conn: connection to the project that gets the stack.
    :param options: group ``cloud`` of hvstack.conf.
    :param seconds: expected duration of all work with the stacks; None for
        the time-outs of one stack.
    :param nodes: number of nodes of the stack; 0 if it is not known yet.
    :param backend: compute backend of the stack; empty if it is not known.
    :raises hvstack.errors.InputError: it has no project, is an application
        credential that cannot create trusts, or is a token that expires
        earlier.
    :raises hvstack.errors.CloudError: Keystone refused.
    """
    token = access(conn)
    cloud = f"cloud '{conn.config.name}'"
    if not token.project_id:
        raise errors.InputError(
            f'Cannot create a stack ({cloud}): its credential has the scope '
            'of the system or a domain, but stacks belong to a project. Use '
            'a credential of a project.'
        )
    if (
        isinstance(token, AccessInfoV3)
        and token.application_credential_id
        and not options.try_trust
    ):
        reason = _refused_trust(conn, token)
        if reason:
            raise errors.InputError(
                f'Cannot create a stack ({cloud}): Heat creates a trust, '
                'which Keystone refuses to this application credential '
                f'({reason}). Use a password or a token, or set try_trust in '
                'hvstack.conf to try it anyhow.'
            )
    if token.expires and is_token(conn):
        one_stack = timeout_factor(backend) * (
            stack_times.compute_stack_seconds(options.stack_timeout, nodes)
            + stack_times.compute_ready_seconds(options.ready_timeout, nodes)
        )
        _check_expiry(
            token.expires, cloud, one_stack * speed.factor(), seconds or 0.0
        )


def _check_expiry(
    expires_at: datetime.datetime,
    cloud: str,
    one_stack: float,
    seconds: float,
) -> None:
    """Refuse a token that ends before the work does.

    :param one_stack: seconds that creating one stack may take.
    :param seconds: expected duration of all work in seconds.
    """
    needed = max(seconds, one_stack)
    now = datetime.datetime.now(datetime.UTC)
    end = now + datetime.timedelta(seconds=needed)
    if expires_at < end:
        activity = 'the sweep' if needed > one_stack else 'creating a stack'
        raise errors.InputError(
            f'Cannot use the credential ({cloud}): its token expires at '
            f'{expires_at:%Y-%m-%d %H:%M} UTC, and {activity} may take until '
            f'{end:%Y-%m-%d %H:%M} UTC. Use a password, or a token that '
            'expires later: no other token can be had with this credential.'
        )


def _refused_trust(conn: Connection, token: AccessInfo) -> str:
    """Return why Keystone refuses trusts; nothing if it does not.

    The request names a trustee who does not exist, so that Keystone creates
    nothing: it answers 403 to a user who may not create trusts, and 404
    otherwise.
    """
    body = {
        'trust': {
            'trustor_user_id': token.user_id,
            'trustee_user_id': secrets.token_hex(16),
            'project_id': token.project_id,
            'impersonation': True,
            'roles': [{'name': name} for name in (token.role_names or [])[:1]],
        }
    }
    with refused('Cannot ask Keystone for a trust'):
        answer = conn.identity.post('/OS-TRUST/trusts', json=body)
        if answer.status_code == 201:
            trust = answer.json()['trust']['id']
            conn.identity.delete(f'/OS-TRUST/trusts/{trust}')
    if answer.status_code not in (401, 403):
        return ''
    try:
        message = answer.json()['error']['message']
    except (ValueError, KeyError, TypeError):
        message = ''
    # Keystone ends some messages with two periods.
    text = ' '.join(f'{answer.status_code} {message}'.split())
    return text[:200].rstrip('.')
