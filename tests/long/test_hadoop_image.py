# SPDX-License-Identifier: Apache-2.0
"""A guest of Hadoop's image alone, and its reboot. The lab is up."""

from hvstack.lab import images
from tests.functional.test_images import GuestTest

ONE_NODE = """\
#!/bin/bash
site() {
    echo '<configuration>'
    while [ $# -ge 2 ]; do
        echo "<property><name>$1</name><value>$2</value></property>"
        shift 2
    done
    echo '</configuration>'
}
site fs.defaultFS hdfs://%ADDRESS%:8020 >/etc/hadoop/core-site.xml
site dfs.replication 1 dfs.namenode.name.dir /srv/hdfs/name \\
    dfs.datanode.data.dir /srv/hdfs/data >/etc/hadoop/hdfs-site.xml
echo 'ROLES="namenode datanode"' >/etc/hvstack/node.env
/usr/lib/hvstack/node start
"""


class HadoopTest(GuestTest):
    def test_node_comes_back_after_a_reboot(self) -> None:
        server = self.boot('hadoop', 1536, 4, ONE_NODE)
        self.wait(server, '/usr/lib/hvstack/node status', 'datanode running')
        self.wait(
            server,
            'hdfs dfs -put -f /etc/hvstack/image.json /x && echo put',
            'put',
        )
        self.reboot(server)
        self.wait(server, '/usr/lib/hvstack/node status', 'datanode running')
        out = self.wait(server, 'hdfs dfs -cat /x', '"name": "hadoop"')
        self.assertIn(images.build('hadoop').digest, out)
        self.assertIn(
            'own name',
            self.ssh(
                server,
                'getent hosts $(hostname) | grep ^10.252 && echo own name',
            ).stdout,
        )
        size = int(self.ssh(server, 'df -m / | tail -n 1').stdout.split()[1])
        self.assertGreater(size, 3500)
