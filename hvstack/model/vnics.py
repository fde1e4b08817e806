# SPDX-License-Identifier: Apache-2.0
"""How hosts connect the network interfaces of guests."""

#: The default of Neutron, which is the virtual switch of the host.
NORMAL = 'normal'
#: A device on a link of the host, past its virtual switch (Linux' macvtap and
#: macvlan). Guests have no security groups, and the network's gateway host
#: answers their requests for an address and for metadata.
MACVTAP = 'macvtap'
VNICS = (NORMAL, MACVTAP)
