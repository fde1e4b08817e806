# SPDX-License-Identifier: Apache-2.0
"""Whether a kernel boots under KVM here: tried, never read off a file.

``/dev/kvm`` may be there and answer, and yet hang a stock kernel.
"""

import json
import subprocess
import tempfile
import time
from pathlib import Path

from hvstack import jsonfile, paths, speed
from hvstack.lab import settings

_DEVICE = Path('/dev/kvm')
_ANSWER = paths.CACHE / 'kvm.json'
_BOOT = Path('/proc/sys/kernel/random/boot_id')
#: Seconds for a kernel to print its first lines; it takes one or two.
_SECONDS = 20
_GREETING = b'Linux version'


def load_answer() -> bool | None:
    """Return the result since the machine booted, None without a trial."""
    if not _DEVICE.exists():
        return False
    record = jsonfile.load_if_whole(_ANSWER)
    boots = record.get('boots')
    is_of_boot = record.get('boot') == _BOOT.read_text('utf-8').strip()
    return boots if is_of_boot and isinstance(boots, bool) else None


def kvm_boots() -> bool:
    """Boot Debian's cloud kernel under KVM and listen for its greeting.

    The answer is kept until the machine boots again.
    """
    boots = load_answer()
    if boots is None:
        boots = _try()
        record = {
            'boot': _BOOT.read_text(encoding='utf-8').strip(),
            'boots': boots,
        }
        paths.write_whole(_ANSWER, json.dumps(record) + '\n')
    return boots


def _try() -> bool:
    from hvstack.lab.images import kernel

    (settings.LAB / 'tmp').mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=settings.LAB / 'tmp') as directory:
        work_dir = Path(directory)
        with kernel.unpacked(work_dir) as tree:
            return _greets(tree.image, work_dir / 'serial')


def _greets(image: Path, serial: Path) -> bool:
    serial.touch()
    process = subprocess.Popen(
        [
            *('qemu-system-x86_64', '-accel', 'kvm', '-cpu', 'host'),
            *('-m', '256', '-display', 'none', '-no-reboot', '-nodefaults'),
            *('-serial', f'file:{serial}', '-kernel', str(image)),
            *('-append', 'console=ttyS0 earlyprintk=ttyS0 panic=-1'),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + _SECONDS * speed.factor()
        while time.monotonic() < deadline:
            if _GREETING in serial.read_bytes():
                return True
            if process.poll() is not None:
                return _GREETING in serial.read_bytes()
            time.sleep(0.2)
        return False
    finally:
        process.kill()
        process.wait()
