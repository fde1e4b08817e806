# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Mounts an image as a root file system.
# Arguments: the image, the directory.

set -e
mount -o loop "$1" "$2"
mount -t proc proc "$2/proc"
mount -t sysfs sysfs "$2/sys"
mount --rbind /dev "$2/dev"
mount -t tmpfs -o mode=755 tmpfs "$2/run"
