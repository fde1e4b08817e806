# SPDX-License-Identifier: Apache-2.0
"""Whatever a file holds, the answer is a profile, findings or one line."""

import copy
from collections.abc import Callable
from typing import Any

import testtools
from hypothesis import given, settings
from hypothesis import strategies as st

from hvstack import errors, host_profiles
from hvstack.model import catalogue
from hvstack.model.host import from_mapping
from hvstack.model.host_share import compute_guest_memory_mib
from hvstack.model.lint import check_catalogue
from tests.unit.model.test_flavor import profile
from tests.unit.model.test_lint import EVIDENCE, entry

FAST = settings(max_examples=60)

PROFILE = {
    'name': 'small',
    'sockets': 2,
    'cores_per_socket': 2,
    'threads_per_core': 1,
    'memory_mib': 4096,
    'cells': [
        {'cpus': '0-1', 'memory_mib': 2048},
        {'cpus': '2-3', 'memory_mib': 2048},
    ],
    'disks': {'count': 2, 'size_gb': 10, 'rotational': False},
    'volumes': {'count': 1, 'size_gb': 5},
    'traits': {'worker': 'CUSTOM_W'},
    'cpu_cap': 0.5,
}
CATALOGUE = {
    'host': 'small',
    'min_percent': 90,
    'flavors': [
        entry('i1-dedicated'),
        entry(status='approved', evidence=EVIDENCE),
    ],
}

#: What YAML can make of a value, and what a slip of the hand would.
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.dates(),
    st.sampled_from(['', '0', '-1', '²', '1e9', 'a\nb', 'x' * 300, [], {}]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(
        st.one_of(st.text(max_size=3), st.integers()),
        st.text(max_size=3),
        max_size=2,
    ),
)


def list_paths(data: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to every value."""
    paths = [way] if way else []
    if isinstance(data, dict | list):
        keys = data if isinstance(data, dict) else range(len(data))
        for key in keys:
            paths += list_paths(data[key], (*way, key))
    return paths


@st.composite
def spoilt(draw: st.DrawFn, good: Any) -> Any:
    """Draw a file's content with one value, or one key, that is another."""
    data = copy.deepcopy(good)
    *way, last = draw(st.sampled_from(list_paths(good)))
    inner = data
    for key in way:
        inner = inner[key]
    if isinstance(inner, dict) and draw(st.booleans()):
        inner[draw(st.one_of(st.text(max_size=5), st.integers()))] = inner.pop(
            last
        )
    else:
        inner[last] = draw(VALUES)
    return data


class BadInput(testtools.TestCase):
    def one_line(self, read: Callable[[Any, Any], Any], data: Any) -> Any:
        try:
            return read(data, lambda at: f'f:{" ".join(at.split())}')
        except errors.InputError as exc:
            self.assertEqual(1, len(str(exc).splitlines()), str(exc))
            self.assertTrue(str(exc).startswith('f:'), str(exc))
            self.assertTrue(len(str(exc)) < 1000, str(exc))
            return None

    @FAST
    @given(spoilt(PROFILE))
    def test_profiles(self, data: Any) -> None:
        host_profile = self.one_line(from_mapping, data)
        if host_profile is not None:
            compute_guest_memory_mib(host_profile)
            self.assertEqual(
                host_profile, from_mapping(host_profile.to_mapping(), 'again')
            )

    @FAST
    @given(spoilt(CATALOGUE))
    def test_catalogues(self, data: Any) -> None:
        parsed_catalogue = self.one_line(catalogue.from_mapping, data)
        if parsed_catalogue is not None:
            for finding in check_catalogue(
                profile(), parsed_catalogue, host_profiles.load_extra_specs()
            ):
                self.assertEqual(1, len(str(finding).splitlines()))
