# SPDX-License-Identifier: Apache-2.0
"""Heat stacks without their outputs.

Heat asks Nova and Neutron for each node when it resolves the outputs of a
cluster, in the engine that creates its stack: with 40 workers, one question
took up to a minute. The method ``get_stack`` of openstacksdk 4.22 ignores its
argument ``resolve_outputs``, while ``find_stack`` obeys it.
"""

from openstack.connection import Connection
from openstack.orchestration.v1.stack import Stack


def find(conn: Connection, name_or_id: str) -> Stack | None:
    """Return a stack without its outputs, None if it does not exist.

    :raises openstack.exceptions.SDKException: Heat does not answer.
    """
    return conn.orchestration.find_stack(
        name_or_id, ignore_missing=True, resolve_outputs=False
    )


def get(conn: Connection, name_or_id: str) -> Stack:
    """Return a stack without its outputs.

    :raises openstack.exceptions.NotFoundException: it does not exist.
    :raises openstack.exceptions.SDKException: Heat does not answer.
    """
    return conn.orchestration.find_stack(
        name_or_id, ignore_missing=False, resolve_outputs=False
    )
