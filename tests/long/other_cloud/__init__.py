# SPDX-License-Identifier: Apache-2.0
"""A cloud that differs from the lab from outside, and its user.

The services are those of the lab that is up. In front of them is haproxy with
TLS and a certificate of a private CA, and the catalogue has another region
with these addresses. A project of its own has the quotas that Nova and Neutron
ship, a tenant network behind a router, and a member without other roles. The
commands are those of the wheel, and run as a user who is not root.
"""
