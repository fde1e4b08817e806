# SPDX-License-Identifier: Apache-2.0
"""A small client for Heat, which Tempest does not have."""

import json
from collections.abc import Mapping
from typing import Any

from tempest.lib.common import rest_client

from hvstack import errors


class StacksClient(rest_client.RestClient):
    """Stacks of Heat's API v1."""

    def create_stack(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a stack; returns its ``id``."""
        response, text = self.post('stacks', json.dumps(body))
        self.expected_success(201, response.status)
        return dict(json.loads(text)['stack'])

    def update_stack(
        self, name: str, stack_id: str, body: Mapping[str, Any]
    ) -> None:
        """Change parameters; what is not named stays as it is."""
        response, _ = self.patch(f'stacks/{name}/{stack_id}', json.dumps(body))
        self.expected_success(202, response.status)

    def find_stack(self, name: str) -> str:
        """Return the id of a stack.

        :raises hvstack.errors.InputError: there is none of that name.
        """
        response, text = self.get(f'stacks?name={name}')
        self.expected_success(200, response.status)
        for stack in json.loads(text)['stacks']:
            if stack['stack_name'] == name:
                return str(stack['id'])
        raise errors.InputError(
            f"[hvstack] stack: there is no '{name}' in the test user's "
            "project, see 'openstack stack list'"
        )

    def show_stack(self, name: str, stack_id: str) -> dict[str, Any]:
        """Return a stack with its outputs."""
        response, text = self.get(f'stacks/{name}/{stack_id}')
        self.expected_success(200, response.status)
        return dict(json.loads(text)['stack'])

    def list_resources(self, name: str, stack_id: str) -> list[dict[str, Any]]:
        """Return the resources of a stack, nested ones too."""
        response, text = self.get(
            f'stacks/{name}/{stack_id}/resources?nested_depth=5'
        )
        self.expected_success(200, response.status)
        return list(json.loads(text)['resources'])

    def delete_stack(self, name: str, stack_id: str) -> None:
        """Begin to delete a stack."""
        response, _ = self.delete(f'stacks/{name}/{stack_id}')
        self.expected_success(204, response.status)
