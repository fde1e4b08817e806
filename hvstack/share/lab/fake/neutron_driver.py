# SPDX-License-Identifier: Apache-2.0
"""An ML2 mechanism driver that binds the ports of fake hosts.

OVN refuses ports on hosts without a chassis; nothing is ever plugged there.
"""

from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.plugins.ml2 import api

PREFIX = 'hv-fake'


class FakeMechanismDriver(api.MechanismDriver):
    """Binds the ports of fake hosts, and leaves others to other drivers."""

    def initialize(self):
        """Do nothing: the driver has no state."""

    def bind_port(self, context):
        """Take the first segment of a port on a fake host."""
        if not context.host.startswith(PREFIX):
            return
        for segment in context.segments_to_bind:
            context.set_binding(
                segment[api.ID],
                portbindings.VIF_TYPE_OVS,
                {portbindings.CAP_PORT_FILTER: False},
                status=constants.PORT_STATUS_ACTIVE,
            )
            return
