# SPDX-License-Identifier: Apache-2.0
"""The stages by name, in their order."""

from collections.abc import Callable

from tests.long.other_cloud import cluster_stages, stages
from tests.long.other_cloud.cloud import OtherCloud
from tests.long.other_cloud.state import say

STAGES: dict[str, Callable[[OtherCloud], None]] = {
    stage.__name__: stage
    for stage in (
        stages.install,
        stages.credentials,
        stages.hosts,
        # No guest may be on the hosts.
        stages.baseline,
        stages.doctor,
        stages.flavors,
        stages.image,
        stages.jump,
        cluster_stages.environment,
        cluster_stages.create,
        cluster_stages.stack,
        cluster_stages.accept,
        cluster_stages.sweep,
        cluster_stages.report,
    )
}


def run_stage(cloud: OtherCloud, name: str) -> None:
    """Run a stage, and note that it is done.

    :param name: a key of :data:`STAGES`.
    """
    stage = STAGES[name]
    cloud.user.stage = name
    cloud.state.begin(name)
    say(f'{name}: {(stage.__doc__ or "").splitlines()[0]}')
    cloud.start_proxy()
    with cloud.network():
        stage(cloud)
    done = cloud.state.get('done', [])
    cloud.state.note('done', [*done, name])
