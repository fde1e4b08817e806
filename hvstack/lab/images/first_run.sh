# SPDX-License-Identifier: Apache-2.0
# Runs in the image's tree, in namespaces of its own: Hadoop on one node sorts
# a few rows. The output is the list of the classes that its daemons, client,
# ApplicationMasters and tasks load. All else goes with the namespaces.
set -eu

for directory in /tmp /run /var/log /etc/hadoop; do
    mount -t tmpfs tmpfs $directory
done
ip link set lo up
hostname localhost
. /usr/lib/hvstack/hadoop-env
at=127.0.0.1
rm -f "$HADOOP_HOME/hadoop.jsa"

# What Hadoop says itself, without where in its code.
fail() {
    grep -hv '^[[:space:]]*at ' "$1" | tail -n 5 >&2
    exit 1
}

# site FILE KEY=VALUE...
site() {
    file=$HADOOP_CONF_DIR/$1-site.xml
    shift
    {
        echo '<configuration>'
        for pair; do
            echo "<property><name>${pair%%=*}</name>"
            echo "<value>${pair#*=}</value></property>"
        done
        echo '</configuration>'
    } >"$file"
}

# YARN puts a container's own directory there.
note='-XX:DumpLoadedClassList=&lt;LOG_DIR&gt;/classes'
jvm="-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 $note"
jvm="$jvm --add-opens=java.base/java.lang=ALL-UNNAMED"
jvm="$jvm -cp $HADOOP_HOME/hadoop.jar:\$CLASSPATH"
site core fs.defaultFS=hdfs://$at:8020 hadoop.tmp.dir=/tmp/hadoop
site hdfs dfs.replication=1 dfs.namenode.datanode.registration.ip-hostname-check=false
site mapred mapreduce.framework.name=yarn \
    "yarn.app.mapreduce.am.command-opts=$jvm" \
    "mapreduce.map.java.opts=$jvm" "mapreduce.reduce.java.opts=$jvm" \
    mapreduce.task.io.sort.mb=10 \
    yarn.app.mapreduce.am.resource.mb=256 \
    mapreduce.map.memory.mb=256 mapreduce.reduce.memory.mb=256 \
    "mapreduce.application.classpath=$classpath"
site yarn yarn.resourcemanager.hostname=$at yarn.nodemanager.hostname=$at \
    yarn.nodemanager.aux-services=mapreduce_shuffle \
    yarn.nodemanager.resource.memory-mb=1024 \
    yarn.scheduler.minimum-allocation-mb=128 \
    yarn.nodemanager.vmem-check-enabled=false \
    yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage=100 \
    yarn.nodemanager.log-dirs=/var/log/tasks \
    yarn.nodemanager.delete.debug-delay-sec=3600 \
    "yarn.application.classpath=$classpath"

lists=/tmp/lists
mkdir $lists
# server LIST CLASS [ARGUMENT...]
server() {
    list=$1 class=$2
    shift 2
    exec java $java_options -Xmx192m "-XX:DumpLoadedClassList=$lists/$list" \
        -cp "$HADOOP_HOME/hadoop.jar:$classpath" \
        "org.apache.hadoop.$class" "$@"
}
daemons=
daemon() {
    server "$1" "$2" >"/tmp/$1.log" 2>&1 &
    daemons="$daemons $1:$!"
}

(server format hdfs.server.namenode.NameNode -format -nonInteractive) \
    >/tmp/format.log 2>&1 || fail /tmp/format.log
daemon namenode hdfs.server.namenode.NameNode
daemon datanode hdfs.server.datanode.DataNode
daemon resourcemanager yarn.server.resourcemanager.ResourceManager
daemon nodemanager yarn.server.nodemanager.NodeManager
daemon historyserver mapreduce.v2.hs.JobHistoryServer

# says DAEMON URL TEXT, waiting up to five minutes while all daemons run.
says() {
    tries=300
    until busybox wget -q -O - "http://$at:$2" 2>/dev/null | grep -q "$3"; do
        for daemon in $daemons; do
            kill -0 "${daemon#*:}" 2>/dev/null || fail "/tmp/${daemon%:*}.log"
        done
        tries=$((tries - 1))
        [ $tries -gt 0 ] || fail "/tmp/$1.log"
        sleep 1
    done
}
says namenode '9870/jmx?qry=Hadoop:service=NameNode,name=FSNamesystem' \
    '"NumLiveDataNodes" : 1'
says resourcemanager 8088/ws/v1/cluster/metrics '"activeNodes":1'

client() {
    name=$1
    shift
    HADOOP_CLIENT_OPTS="-XX:DumpLoadedClassList=$lists/$name" "$@"
}
examples=$HADOOP_HOME/hadoop-mapreduce-examples.jar
two='-D mapreduce.job.maps=2 -D mapreduce.job.reduces=2'
{
    client gen hadoop jar $examples teragen $two 100 /in &&
        client sort hadoop jar $examples terasort $two /in /out &&
        client validate hadoop jar $examples teravalidate $two /out /report &&
        client shell hadoop fs -cat '/report/*'
} >/tmp/jobs.log 2>&1 || fail /tmp/jobs.log

# A list is whole when its JVM has ended.
for daemon in $daemons; do
    kill "${daemon#*:}"
done
wait

# Loaders of an application's own classes are not for a shared archive, and
# ids are one list's own.
cat $lists/* $(find /var/log/tasks -name classes) |
    grep -v ' source: ' | sed 's/ id: [0-9]*$//' | awk '!seen[$0]++'
