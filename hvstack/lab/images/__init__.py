# SPDX-License-Identifier: Apache-2.0
"""Guest images: recipes, builds, and their way into Glance."""

from hvstack.lab.images.builder import build
from hvstack.lab.images.glance import upload
from hvstack.lab.images.hadoop_archive import export
from hvstack.lab.images.store import OUTPUTS, Image, built, find

__all__ = ['OUTPUTS', 'Image', 'build', 'built', 'export', 'find', 'upload']
