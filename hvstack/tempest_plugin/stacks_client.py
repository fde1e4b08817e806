# SPDX-License-Identifier: Apache-2.0
"""Client for Heat, which Tempest does not include."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tempest import config
from tempest.lib.common import rest_client

from hvstack import errors

if TYPE_CHECKING:
    from tempest.clients import Manager

CONF = config.CONF


class StacksClient(rest_client.RestClient):
    """Client for stacks in version 1 of Heat's API."""

    def create_stack(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Start the creation of a stack; return its ``id``."""
        response, text = self.post('stacks', json.dumps(body))
        self.expected_success(201, response.status)
        return dict(json.loads(text)['stack'])

    def update_stack(
        self, name: str, stack_id: str, body: Mapping[str, Any]
    ) -> None:
        """Start an update of a stack; other parameters keep their values."""
        response, _ = self.patch(f'stacks/{name}/{stack_id}', json.dumps(body))
        self.expected_success(202, response.status)

    def find_stack(self, name: str) -> str:
        """Return the ID of a stack.

        :param name: name of the stack.
        :raises hvstack.errors.InputError: the stack does not exist.
        """
        response, text = self.get(f'stacks?name={name}')
        self.expected_success(200, response.status)
        for stack in json.loads(text)['stacks']:
            if stack['stack_name'] == name:
                return str(stack['id'])
        raise errors.InputError(
            f"Cannot use the stack '{name}' ([hvstack] stack): it does not "
            "exist in the project of the test user. Check 'openstack stack "
            "list'."
        )

    def show_stack(self, name: str, stack_id: str) -> dict[str, Any]:
        """Return a stack with its outputs."""
        response, text = self.get(f'stacks/{name}/{stack_id}')
        self.expected_success(200, response.status)
        return dict(json.loads(text)['stack'])

    def list_resources(self, name: str, stack_id: str) -> list[dict[str, Any]]:
        """Return the resources of a stack and its nested stacks."""
        response, text = self.get(
            f'stacks/{name}/{stack_id}/resources?nested_depth=5'
        )
        self.expected_success(200, response.status)
        return list(json.loads(text)['resources'])

    def delete_stack(self, name: str, stack_id: str) -> None:
        """Start the deletion of a stack."""
        response, _ = self.delete(f'stacks/{name}/{stack_id}')
        self.expected_success(204, response.status)


def create_stacks_client(manager: 'Manager') -> StacksClient:
    """Return a client for Heat with the endpoints that Nova's clients use.

    :param manager: clients of a user.
    """
    return StacksClient(
        manager.auth_provider,
        'orchestration',
        CONF.identity.region,
        endpoint_type=CONF.compute.endpoint_type,
        **manager.default_params,
    )
