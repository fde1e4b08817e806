# SPDX-License-Identifier: Apache-2.0
"""Check of the API that nodes send signals to."""

from collections.abc import Iterator

from openstack.connection import Connection

from hvstack.cloud import selection
from hvstack.cloud.diagnosis import NOTE, CloudNeeds, Diagnosis
from hvstack.cloud.stateless_groups import list_signal_urls


def host_keys(conn: Connection, request: CloudNeeds) -> Iterator[Diagnosis]:
    """Check whether the CAs of an image can verify the CloudFormation API.

    heat_waitcondition_server_url of heat.conf can be another URL, which no
    API shows.
    """
    if not request.sends_host_keys:
        return
    is_insecure, cacert = selection.read_tls_options(conn.config)
    url = next(
        (url for url in list_signal_urls(conn) if url.startswith('https:')), ''
    )
    if url and (is_insecure or cacert):
        reason = (
            'this machine does not verify certificates of the cloud'
            if is_insecure
            else f'this machine verifies it by {cacert}'
        )
        yield Diagnosis(
            'CA of host keys',
            NOTE,
            f'nodes send their host keys to {url}, and verify its certificate '
            f'by the CAs in the image alone; {reason}',
            "if the image does not trust this CA, set 'host_key_source = "
            "console' in [cloud] of hvstack.conf",
        )
