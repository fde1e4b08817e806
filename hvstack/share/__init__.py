# SPDX-License-Identifier: Apache-2.0
"""Paths of the data files of the package.

They are part of the package, so that a clone and an installation have them
in the same place. In the clone, top-level symbolic links such as
``heat-templates`` lead to them. Heat, Rally and the lab's services read
files by path; pip unpacks every wheel, so that these paths always exist.
"""

from importlib import resources
from pathlib import Path

ROOT = Path(str(resources.files(__name__)))

#: Flavor catalogues, by host profile.
CATALOGUES = ROOT / 'flavors'
#: Elements of diskimage-builder.
ELEMENTS = ROOT / 'diskimage-builder' / 'elements'
#: Extra specs that Nova knows.
EXTRA_SPECS = ROOT / 'extra-specs.yaml'
#: Tuning profiles and OS profiles of Hadoop's nodes.
HADOOP = ROOT / 'hadoop'
#: Heat templates; environments are in its directory ``environments``.
HEAT_TEMPLATES = ROOT / 'heat-templates'
#: Host profiles.
HOST_PROFILES = ROOT / 'hosts'
#: Templates of the lab's services, and their constraints file.
LAB = ROOT / 'lab'
#: JSON Schemas of files that hvstack writes.
SCHEMAS = ROOT / 'schemas'
#: Rally tasks, and the Jinja2 files that they import.
RALLY_TASKS = ROOT / 'rally-tasks'
#: Studies, see :mod:`hvstack.study`.
STUDIES = ROOT / 'studies'
#: Shell programs that run on nodes and hosts.
SHELL = ROOT / 'shell'
