# SPDX-License-Identifier: Apache-2.0
"""ML2 mechanism drivers of a lab, which bind ports that OVN does not bind."""

from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.plugins.ml2 import api

#: Start of the names of fake hosts.
PREFIX = 'hv-fake'
#: Physical network of the hosts' second link, and the link on each host.
PHYSNET = 'direct'
LINK = 'eth2'


class FakeMechanismDriver(api.MechanismDriver):
    """Binds the ports of fake hosts, and leaves others to other drivers.

    OVN refuses ports on hosts without a chassis; nothing is ever plugged
    there.
    """

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


class MacvtapMechanismDriver(api.MechanismDriver):
    """Binds the ports on the network of the hosts' second link.

    libvirt connects them to the link by macvtap, past Open vSwitch. Their VNIC
    type is that of bare metal: for macvtap, Nova would ask for a PCI device.
    OVN answers requests for an address and for metadata on such ports at the
    gateway ("external ports" in ovn-nb(5)).
    """

    def initialize(self):
        """Do nothing: the driver has no state."""

    def bind_port(self, context):
        """Take the segment of the hosts' second link."""
        vnic_type = context.current.get(portbindings.VNIC_TYPE)
        if vnic_type != portbindings.VNIC_BAREMETAL:
            return
        for segment in context.segments_to_bind:
            if segment[api.PHYSICAL_NETWORK] != PHYSNET:
                continue
            context.set_binding(
                segment[api.ID],
                portbindings.VIF_TYPE_MACVTAP,
                {
                    portbindings.CAP_PORT_FILTER: False,
                    portbindings.VIF_DETAILS_MACVTAP_SOURCE: LINK,
                    portbindings.VIF_DETAILS_MACVTAP_MODE: 'bridge',
                    portbindings.VIF_DETAILS_PHYSICAL_INTERFACE: LINK,
                },
                status=constants.PORT_STATUS_ACTIVE,
            )
            return
