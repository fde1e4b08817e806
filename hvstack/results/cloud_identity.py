# SPDX-License-Identifier: Apache-2.0
"""Cloud on which a run was executed, as its record names it."""

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class CloudIdentity:
    """Identity of a cloud, for records that several clouds share.

    :param url_sha256: SHA-256 of the URL of its Keystone, which need not
        become known to readers of the records.
    :param region: region; empty if the cloud has a single one, or if it is
        not known.
    """

    url_sha256: str = ''
    region: str = ''

    def matches(self, other: 'CloudIdentity') -> bool:
        """Return whether this can be the other cloud.

        An identity without a URL can be each cloud, and no region fits each
        region.
        """
        if not self.url_sha256 or not other.url_sha256:
            return True
        return self.url_sha256 == other.url_sha256 and (
            not self.region or not other.region or self.region == other.region
        )


def parse_cloud(cloud: str) -> CloudIdentity:
    """Return the identity of a cloud.

    :param cloud: result of
        :func:`hvstack.cloud.connection.format_cloud`; empty if it is not
        known.
    """
    url, _, region = cloud.partition(' ')
    if not url:
        return CloudIdentity()
    return CloudIdentity(hashlib.sha256(url.encode()).hexdigest(), region)


def are_elsewhere(
    identities: Iterable[CloudIdentity], own: Collection[CloudIdentity]
) -> bool:
    """Return whether runs were executed on other clouds alone.

    :param identities: clouds of the runs.
    :param own: clouds to compare with; without any, nothing is elsewhere.
    """
    named = {item for item in identities if item.url_sha256}
    return (
        bool(named)
        and bool(own)
        and not any(item.matches(other) for item in named for other in own)
    )
